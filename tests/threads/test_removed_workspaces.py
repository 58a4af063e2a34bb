"""A workspace is removed: its threads are closed, and nobody waits for them in the dark."""

import asyncio

import pytest

from testing.running_server import Seat
from testing.thread_world import Engine, Item, ThreadWorld, code, turn
from testing.waits import bounded
from testing.workspaces import remove
from tests.requirements import requirement
from tests.threads.test_agents import act, spawned


async def tree_over_two_seats(world: ThreadWorld) -> tuple[Seat, Seat, Item, Item]:
    """A thread at work in one workspace, and its agent in the one below, where a turn runs."""
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    thread = await world.starts(lead, input="Go")
    engine = Engine(lead.api, thread)
    await engine.claim()
    await engine.begin()
    child = await spawned(world, lead.api, thread, "dig", workspace_id=ops.id)
    digger = Engine(ops.api, child)
    await digger.claim()
    await digger.begin()
    return lead, ops, thread, child


@requirement("TH6", "TH8", "TH9")
async def test_who_waits_for_an_agent_of_a_removed_workspace_hears_that_it_is_gone(world: ThreadWorld) -> None:
    lead, ops, thread, child = await tree_over_two_seats(world)
    waiting = asyncio.ensure_future(act(lead.api, thread, "wait", "w", targets=["dig"], timeout=60))
    await world.until_it_waits(thread, "w")
    await remove(world.server.admin, ops)
    (told,) = (await bounded(waiting))["agents"]
    assert (told["path"], told["status"]) == ("root/dig", "shutdown")
    gone = await world.reads(child)
    assert (gone["closed"], gone["turn_id"], gone["queued"]) == (True, None, [])
    assert [each["type"] for each in await world.log(child)][-2:] == ["turn_ended", "closed"]
    tree = await world.reads(thread, "/tree")
    assert [each["path"] for each in tree["threads"] if not each["closed"]] == ["root"]


@requirement("TH5", "TH6")
async def test_what_a_removed_workspace_had_begun_is_told_to_an_idle_thread_and_takes_nothing_more(
    world: ThreadWorld,
) -> None:
    lead, ops, thread, child = await tree_over_two_seats(world)
    idle = await world.starts(ops)
    engine = Engine(lead.api, thread)
    await engine.claim()
    engine.turn_id = (await world.reads(thread))["turn_id"]
    await engine.ends(final="waiting for it")
    await remove(world.server.admin, ops)
    assert len((await world.reads(thread))["queued"]) == 1  # the end of what it had asked for
    seen = await Engine(lead.api, thread).works("so be it")
    assert seen["items"][-1]["author"] == "root/dig"
    for each in (child, idle):
        assert (await world.reads(each))["closed"]
        assert (await code(turn(world.person, each, "Go on")))[0] in (409, 410)
        assert await code(world.person.post(f"/threads/{each['thread_id']}/resume", {})) == (410, "workspace_removed")
    call = act(lead.api, thread, "resume", "again", target="dig")
    assert (await code(call))[0] == 404


@requirement("TH6")
async def test_agents_below_in_another_workspace_go_on(world: ThreadWorld) -> None:
    lead, ops, _, child = await tree_over_two_seats(world)
    deep = await spawned(world, ops.api, child, "deep", workspace_id=lead.id)
    await remove(world.server.admin, ops)
    assert (await world.reads(deep))["closed"] is False
    await Engine(lead.api, deep).works("found it")
    assert (await world.reads(deep))["status"]["type"] == "completed"


@requirement("TH6")
async def test_no_thread_stays_open_in_a_workspace_that_is_removed_meanwhile(world: ThreadWorld) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    thread = await world.starts(lead, input="Go")
    tries = [
        act(lead.api, thread, "spawn", f"s{number}", task_name=f"t{number}", message="Dig.", workspace_id=ops.id)
        for number in range(6)
    ]
    before = await world.starts(ops)
    starts = [world.starts(ops) for _ in range(6)]
    ends = await asyncio.gather(*tries, *starts, remove(world.server.admin, ops), return_exceptions=True)
    assert isinstance(ends[-1], dict) or ends[-1] is None  # the removal itself came through
    rows = await world.server.server.store.rows("open_threads_of_workspace", {"workspace_id": ops.id})
    assert list(rows) == []
    assert (await world.reads(before))["closed"]


@requirement("TH6")
async def test_without_its_row_in_the_table_of_followers_the_threads_stay_open(world: ThreadWorld) -> None:
    _, ops, _, child = await tree_over_two_seats(world)
    table = world.server.server.store.subscribers._handlers  # type: ignore[attr-defined]
    (fact,) = [each for each in table if each.__name__ == "WorkspacesRemoved"]
    del table[fact]["threads.on_workspaces_removed"]
    await remove(world.server.admin, ops)
    with pytest.raises(AssertionError):
        assert (await world.reads(child))["closed"]
