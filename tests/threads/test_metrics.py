"""What a scrape tells of threads."""

import asyncio

from testing.thread_world import Engine, Item, ThreadWorld, code, turn
from testing.waits import bounded
from tests.api.http.test_metrics import Figures, one, scraped
from tests.requirements import requirement


def figures_of(figures: Figures) -> dict[str, float]:
    """The figures of threads that are not 0, by the last part of their names and their labels."""
    found: dict[str, float] = {}
    for family, samples in figures.items():
        for (_, *labels), value in samples.items():
            if family.startswith("molecule_thread") and value:
                name = family.removeprefix("molecule_").removesuffix("_total")
                found[" ".join([name, *(word for _, word in labels)])] = value
    return found


@requirement("TH21", "O4")
async def test_a_scrape_tells_how_threads_stand_and_what_they_have_done(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    assert figures_of(await scraped(world.server)) == {}
    thread = await world.starts(ops, input="Go")
    path = f"/threads/{thread['thread_id']}/agents"
    lead = Engine(ops.api, thread)
    assert figures_of(await scraped(world.server)) == {"threads queued": 1}
    await lead.claim()
    await lead.begin()
    usage = {"type": "usage", "record_key": "one", "input": 30, "output": 12}
    for _ in range(2):  # what a request has cost counts once
        await lead.adds(usage)

    async def call(verb: str, call_id: str, **asked: object) -> Item:
        return dict(await bounded(ops.api.post(f"{path}/{verb}", {"call_id": call_id, **asked})))

    child = (await call("spawn", "s1", task_name="dig", message="Dig."))["call"]["new_thread_id"]
    await call("spawn", "s1", task_name="dig", message="Dig.")  # so does a call
    assert (await code(call("spawn", "s2", task_name="dig", message="Dig.")))[1] == "invalid_task"
    assert (await code(call("spawn", "s3", task_name="x", message="Dig.", workspace_id="nobody")))[1] == "not_found"
    waiting = asyncio.ensure_future(call("wait", "w1", targets=["dig"], timeout=60))
    await world.until_it_waits(thread, "w1")
    assert one(await scraped(world.server), "molecule_threads", state="waiting") == 1
    await world.clock.advance(61)
    assert (await waiting)["call"]["timed_out"]
    assert (await code(call("wait", "w2", targets=["nobody"])))[0] == 404
    await call("send", "m1", target="dig", message="Deeper.")
    await Engine(ops.api, {"thread_id": child}).works("dug")
    assert (await call("wait", "w3", targets=["dig"]))["call"]["status"] == "completed"
    await bounded(ops.api.post(f"/threads/{thread['thread_id']}/interrupt", {}))
    await bounded(ops.api.post(f"/threads/{child}/close", {}))

    assert figures_of(await scraped(world.server)) == {
        "threads idle": 1,
        "thread_turns_begun": 2,
        "thread_turns completed": 1,
        "thread_turns interrupted": 1,
        "thread_spawns spawned": 1,
        "thread_spawns task_name": 1,
        "thread_spawns not_found": 1,
        "thread_waits timed_out": 1,
        "thread_waits failed": 1,
        "thread_waits completed": 1,
        # The task, the word after it, and the end, which the wait has told.
        "thread_letters accepted": 3,
        "thread_letters delivered": 3,
        "thread_letters answered": 2,
        "thread_letters failed": 1,
        "thread_tokens input": 30,
        "thread_tokens output": 12,
    }
    await turn(ops.api, thread, "And now?")
    assert one(await scraped(world.server), "molecule_threads", state="queued") == 1
