"""Whether somebody runs the threads of a workspace, as those are told who give them work."""

from testing.thread_world import Engine, Item, ThreadWorld
from testing.waits import bounded
from tests.requirements import requirement


@requirement("TH11")
async def test_whom_no_engine_drives_is_named_until_one_asks_for_work_and_again_when_it_is_gone(
    world: ThreadWorld,
) -> None:
    lead = await world.server.seat("Lead")
    far = await world.server.seat("Far", parent_id=lead.id)
    root = await world.starts(lead)
    path, calls = f"/threads/{root['thread_id']}/agents", iter(range(99))

    async def call(verb: str, **asked: object) -> tuple[list[str], list[str]]:
        told: Item = await bounded(lead.api.post(f"{path}/{verb}", {"call_id": f"c{next(calls)}", **asked}))
        return told["undriven"], told["quiet"]

    async def listed() -> list[str]:
        return list((await lead.api.get(path))["undriven"])

    spawned = await call("spawn", task_name="near", message="work", wake="queue")
    assert spawned == (["root/near"], [lead.id]), "the root has nothing to do, and is not named"
    assert await call("spawn", task_name="far", message="work", workspace_id=far.id) == (["root/far"], [far.id])
    assert await listed() == ["root/near", "root/far"]

    await bounded(far.api.get(f"/workspaces/{far.id}/threads/work", wait=0))
    assert await listed() == ["root/near"], "an engine of one workspace drives no other"
    assert await call("send", target="far", message="more") == ([], [])
    (near,) = [each for each in (await world.reads(root, "/tree"))["threads"] if each["path"] == "root/near"]
    engine = Engine(lead.api, near)
    await engine.claim()
    assert await listed() == [], "who holds a thread drives it, also if nobody asks for more"

    await world.clock.advance(91)
    assert await listed() == ["root/near", "root/far"]
    await engine.works()
    await world.clock.advance(91)
    assert await listed() == ["root/far"], "whoever has ended needs no engine"
    assert await call("send", target="near", message="later") == (["root/near"], [lead.id])
    await bounded(lead.api.post(f"{path}/close", {"call_id": "close", "target": "near"}))
    assert (await call("send", target="far", message="x"))[0] == ["root/far"]
