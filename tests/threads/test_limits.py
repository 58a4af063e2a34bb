"""Every limit of threads holds at its edge: what is just allowed is done, one more is refused and says why."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from molecule_core.wire.schemas.thread_log import AgentMessageEntry
from testing.clocks import FakeClock
from testing.live_clients import journal_of, token_of
from testing.running_server import UNHURRIED, Seat, running
from testing.thread_world import Engine, Item, ThreadWorld, code, said, turn
from testing.waits import bounded, refused
from tests.requirements import requirement

_SMALL = {
    "thread_depth": 2,
    "thread_live": 3,
    "thread_lifetime": 4,
    "thread_spawns_per_minute": 5,
    "turn_tokens": 100,
    "thread_tokens": 200,
    "thread_tree_tokens": 300,
    "thread_input_bytes": 500,
    "thread_entry_bytes": 700,
    "thread_event_bytes": 300,
    "thread_entries": 3,
    "thread_queue": 2,
    "thread_lease_seconds": 7,
    "thread_engine_seconds": 9,
    "thread_wait_seconds": 5,
    "thread_wait_most_seconds": 20,
    "thread_targets": 2,
    "thread_rows": 8,
}
_INVALID = (422, "invalid_field")
Case = Callable[[ThreadWorld, Seat], Awaitable[None]]


async def act(api: ApiClient, thread: Item, verb: str, call_id: str, **body: Any) -> Item:
    """A call of a collaboration tool."""
    said = {"call_id": call_id, **body}
    return dict((await bounded(api.post(f"/threads/{thread['thread_id']}/agents/{verb}", said)))["call"])


async def spawn(seat: Seat, thread: Item, name: str, **body: Any) -> Item:
    """A new agent."""
    call = await act(seat.api, thread, "spawn", f"spawn-{name}", task_name=name, message="do", **body)
    return {"thread_id": call["new_thread_id"]}


async def is_full(work: Any, limit: str, use: int) -> None:
    """Refused by this limit, with what is used of it and what to do."""
    error = await refused(work)
    told = {name: error.problem.get(name) for name in ("code", "limit", "use", "most")}
    assert told == {"code": "thread_limit", "limit": limit, "use": use, "most": _SMALL[limit]}
    assert (error.status, bool(error.problem["remedy"])) == (429, True)


async def costs(engine: Engine, tokens: int, key: str) -> str | None:
    """A request of a model; what the engine is told of it."""
    stop: str | None = (await engine.adds({"type": "usage", "record_key": key, "input": tokens, "output": 0}))["stop"]
    return stop


async def runs(seat: Seat, thread: Item) -> Engine:
    """An engine in the next turn of a thread."""
    engine = Engine(seat.api, thread)
    await engine.claim()
    await engine.begin()
    return engine


async def waits(world: ThreadWorld, seat: Seat, call_id: str, **asked: Any) -> tuple[float, str | None]:
    """For how many seconds a wait is begun, and what its caller is told of that."""
    thread = await world.starts(seat)
    child = await spawn(seat, thread, "one")
    wish = {"call_id": call_id, "targets": [child["thread_id"]], **asked}
    waiting = asyncio.ensure_future(bounded(seat.api.post(f"/threads/{thread['thread_id']}/agents/wait", wish)))
    await world.until_it_waits(thread, call_id)
    (begun,) = [each["entry"] for each in await world.log(thread) if each["entry"].get("call_id") == call_id]
    await turn(seat.api, thread, "enough")
    assert (await waiting)["call"]["status"] == "interrupted"
    return (begun["deadline"] - world.clock.now()) / 1e6, begun["clamped"]


# -- one each ----------------------------------------------------------------------------------------------------------


async def depth(world: ThreadWorld, seat: Seat) -> None:
    root = await world.starts(seat)
    deep = await spawn(seat, await spawn(seat, root, "one"), "two")
    await is_full(spawn(seat, deep, "three"), "thread_depth", 2)


async def live(world: ThreadWorld, seat: Seat) -> None:
    root = await world.starts(seat)
    agents = [await spawn(seat, root, f"a{each}") for each in range(3)]
    await is_full(spawn(seat, root, "more"), "thread_live", 3)
    await Engine(seat.api, agents[0]).works()
    await spawn(seat, root, "another")
    # Nor does one that has ended go to work again beyond it.
    wake = act(seat.api, root, "followup", "f", target="a0", message="more")
    await is_full(wake, "thread_live", 3)


async def lifetime(world: ThreadWorld, seat: Seat) -> None:
    root = await world.starts(seat)
    for each in range(4):
        await Engine(seat.api, await spawn(seat, root, f"a{each}")).works()
    await is_full(spawn(seat, root, "more"), "thread_lifetime", 4)


async def spawns_per_minute(world: ThreadWorld, seat: Seat) -> None:
    far = await world.server.seat("Far", parent_id=seat.id)
    one, two = await world.starts(seat), await world.starts(seat)
    for each in range(3):
        await spawn(seat, one, f"a{each}")
    for each in range(2):  # wherever they sit, and in whichever tree
        await spawn(seat, two, f"a{each}", workspace_id=far.id)
    await is_full(spawn(seat, two, "more"), "thread_spawns_per_minute", 5)
    await spawn(far, await world.starts(far), "own")
    await world.clock.advance(61)
    await spawn(seat, two, "later")


async def tokens_of_a_turn(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat, input="Go")
    engine = await runs(seat, thread)
    assert await costs(engine, 99, "one") is None
    assert await costs(engine, 1, "two") == "budget"
    await engine.ends("failed", error="budget")
    await turn(seat.api, thread, "Go on")
    assert await costs(await runs(seat, thread), 99, "three") is None


async def tokens_of_a_thread(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat, input="Go")
    for number in range(2):
        engine = await runs(seat, thread)
        await turn(seat.api, thread, "Go on", mode="queue")
        assert await costs(engine, 99 + number, f"c{number}") == (None if number == 0 else "budget")
        await engine.adds({"type": "usage", "record_key": f"last{number}", "input": 1, "output": 0})
        await engine.ends()
    await is_full(turn(seat.api, thread, "And on"), "thread_tokens", 201)
    # What was accepted before is not begun either, and says why.
    last = Engine(seat.api, thread)
    await last.claim()
    assert (await last.begin())["stop"] == "budget"
    now = await world.reads(thread)
    assert (now["status"]["type"], "tokens of this thread" in now["status"]["message"]) == ("errored", True)


async def tokens_of_a_tree(world: ThreadWorld, seat: Seat) -> None:
    root = await world.starts(seat, input="Go")
    for each in (root, await spawn(seat, root, "one")):
        engine = await runs(seat, each)
        assert await costs(engine, 99, "one") is None
        await engine.ends()
    last = await runs(seat, await spawn(seat, root, "two"))
    assert await costs(last, 99, "one") is None
    assert await costs(last, 3, "two") == "budget"
    await is_full(spawn(seat, root, "more"), "thread_tree_tokens", 300)
    await is_full(turn(seat.api, root, "Go on"), "thread_tree_tokens", 300)


async def input_bytes(world: ThreadWorld, seat: Seat) -> None:
    root = await world.starts(seat)
    await turn(seat.api, root, "é" * 250)
    assert await code(turn(seat.api, root, "é" * 250 + "!")) == _INVALID
    await spawn(seat, root, "one")
    await act(seat.api, root, "send", "s1", target="one", message="x" * 500)
    assert await code(act(seat.api, root, "send", "s2", target="one", message="x" * 501)) == _INVALID


async def entry_bytes(world: ThreadWorld, seat: Seat) -> None:
    engine = await runs(seat, await world.starts(seat, input="Go"))
    empty = len(msgspec.json.encode(AgentMessageEntry("")))
    await engine.adds(said("x" * (700 - empty)))
    assert await code(engine.adds(said("x" * (701 - empty)))) == _INVALID


async def event_bytes(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat, input="Go")
    engine = await runs(seat, thread)
    empty = len(msgspec.json.encode(AgentMessageEntry("")))
    for size in (300, 301):
        await engine.adds(said("x" * (size - empty)))
    events = await journal_of(world.server, await token_of(world.server))
    items = [each["payload"] for each in events if each["entity"]["id"] == thread["thread_id"]]
    told = [each["entry"] for each in items if each.get("type") == "agent_message"]
    assert [each is None for each in told] == [False, True]
    assert [len(each["entry"]["text"]) for each in await world.log(thread) if each["type"] == "agent_message"] == [
        300 - empty,
        301 - empty,
    ]


async def entries(world: ThreadWorld, seat: Seat) -> None:
    engine = await runs(seat, await world.starts(seat, input="Go"))
    await engine.adds(*[said("x")] * 3)
    assert await code(engine.adds(*[said("x")] * 4)) == _INVALID


async def queue(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat, input="one")
    await turn(seat.api, thread, "two")
    await is_full(turn(seat.api, thread, "three"), "thread_queue", 2)


async def lease(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat, input="Go")
    one, two = Engine(seat.api, thread), Engine(seat.api, thread, "engine two")
    await one.claim()
    await world.clock.advance(6.9)
    assert await code(two.claim()) == (409, "thread_owned")
    await world.clock.advance(0.2)
    await two.claim()


async def engines(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat)
    await spawn(seat, thread, "one")
    await bounded(seat.api.get(f"/workspaces/{seat.id}/threads/work", wait=0))
    quiet = []
    for _ in range(2):
        quiet.append((await seat.api.get(f"/threads/{thread['thread_id']}/agents"))["quiet"])
        await world.clock.advance(9.1)
    assert quiet == [[], [seat.id]]


async def wait_if_not_said(world: ThreadWorld, seat: Seat) -> None:
    assert await waits(world, seat, "w") == (5, None)


async def wait_at_most(world: ThreadWorld, seat: Seat) -> None:
    assert await waits(world, seat, "w1", timeout=20) == (20, None)
    seconds, told = await waits(world, seat, "w2", timeout=21)
    assert (seconds, told) == (20, "timeout 21 s was changed to 20 s (1 to 20)")


async def targets(world: ThreadWorld, seat: Seat) -> None:
    thread = await world.starts(seat)
    await Engine(seat.api, await spawn(seat, thread, "one")).works()
    await act(seat.api, thread, "wait", "w1", targets=["one", "two"])
    assert await code(act(seat.api, thread, "wait", "w2", targets=["one", "two", "three"])) == _INVALID


async def rows(world: ThreadWorld, seat: Seat) -> None:
    threads = [await world.starts(seat, input="Go") for _ in range(9)]
    path = f"/workspaces/{seat.id}/threads"
    page = await world.person.get(path)
    assert (len(page["threads"]), page["reached_end"]) == (8, False)
    rest = await world.person.get(path, before=page["threads"][-1]["thread_id"])
    assert [each["thread_id"] for each in rest["threads"]] == [threads[0]["thread_id"]]
    assert len((await world.person.get(path, limit=9))["threads"]) == 8
    engine = await runs(seat, threads[0])
    for _ in range(4):
        await engine.adds(said("x"))
    for wish in ({}, {"limit": 9}):
        page = await world.reads(threads[0], "/items", **wish)
        assert (len(page["items"]), page["reached_end"]) == (8, False)


CASES: Mapping[str, Case] = {
    "thread_depth": depth,
    "thread_live": live,
    "thread_lifetime": lifetime,
    "thread_spawns_per_minute": spawns_per_minute,
    "turn_tokens": tokens_of_a_turn,
    "thread_tokens": tokens_of_a_thread,
    "thread_tree_tokens": tokens_of_a_tree,
    "thread_input_bytes": input_bytes,
    "thread_entry_bytes": entry_bytes,
    "thread_event_bytes": event_bytes,
    "thread_entries": entries,
    "thread_queue": queue,
    "thread_lease_seconds": lease,
    "thread_engine_seconds": engines,
    "thread_wait_seconds": wait_if_not_said,
    "thread_wait_most_seconds": wait_at_most,
    "thread_targets": targets,
    "thread_rows": rows,
}


@requirement("TH22")
def test_there_is_a_case_for_each_limit_of_threads() -> None:
    assert (
        set(CASES)
        == set(_SMALL)
        == {
            each
            for each in Limits.__struct_fields__
            if each.startswith(("thread_", "turn_")) and not each.startswith("turn_lease_")  # of budgets
        }
    )


@requirement("TH22", "TH6")
async def test_each_limit_of_threads_holds_at_its_edge(tmp_path: Path, clock: FakeClock) -> None:
    limits = msgspec.structs.replace(UNHURRIED, **_SMALL)
    failed: dict[str, str] = {}
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock, limits=limits) as server:
        world = ThreadWorld(server, await server.person(), clock)
        for name, case in CASES.items():
            try:
                await case(world, await server.seat(name))
            except Exception as error:  # all of them are shown together
                failed[name] = repr(error)
    assert failed == {}
