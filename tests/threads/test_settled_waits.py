"""A wait for agents of which none is at work returns their last ends at once; one that works is still waited for."""

import asyncio

from testing.running_server import Seat
from testing.thread_world import Engine, Item, ThreadWorld
from testing.waits import bounded
from tests.requirements import requirement
from tests.threads.test_agents import act, spawned


async def root_of(world: ThreadWorld) -> tuple[Seat, Item]:
    """A workspace, and its thread at work."""
    ops = await world.server.seat("Ops")
    return ops, await world.starts(ops, input="Go")


def ends(call: Item) -> list[tuple[str, str, str]]:
    """What a wait says of its agents."""
    return [(each["path"], each.get("outcome"), each["status"]) for each in call["agents"]]


@requirement("TH8")
async def test_a_wait_for_agents_that_have_all_ended_returns_their_ends_at_once(world: ThreadWorld) -> None:
    ops, root = await root_of(world)
    one, two = [await spawned(world, ops.api, root, name) for name in ("one", "two")]
    await Engine(ops.api, one).works("found it")
    await act(ops.api, root, "close", "c", target="two")
    await act(ops.api, root, "wait", "first", targets=["one", "two"], mode="all", timeout=3600)

    for mode in ("any", "all"):
        call = await bounded(act(ops.api, root, "wait", f"again-{mode}", targets=["one", "two"], mode=mode))
        assert ends(call) == [("root/one", "ended", "completed"), ("root/two", "ended", "shutdown")]
        assert (call["status"], call.get("timed_out", False)) == ("completed", False)
        assert call["agents"][0]["message"] == "found it"
        assert "none of these agents is at work" in call["reason"]
    assert two["thread_id"] != one["thread_id"]


@requirement("TH8")
async def test_a_new_end_comes_alone_and_an_old_one_ends_no_wait_for_one_at_work(world: ThreadWorld) -> None:
    ops, root = await root_of(world)
    one, two = [await spawned(world, ops.api, root, name) for name in ("one", "two")]
    await Engine(ops.api, one).works("found it")
    await act(ops.api, root, "wait", "first", targets=["one"])

    waiting = asyncio.ensure_future(act(ops.api, root, "wait", "both", targets=["one", "two"], timeout=3600))
    await world.until_it_waits(root, "both")
    await Engine(ops.api, two).works("here too")

    assert ends(await bounded(waiting)) == [("root/one", None, "completed"), ("root/two", "ended", "completed")]


@requirement("TH8")
async def test_an_agent_with_a_new_task_is_waited_for(world: ThreadWorld) -> None:
    ops, root = await root_of(world)
    one = await spawned(world, ops.api, root, "one")
    await Engine(ops.api, one).works("found it")
    await act(ops.api, root, "wait", "first", targets=["one"])
    await act(ops.api, root, "followup", "f", target="one", message="And the other?")

    waiting = asyncio.ensure_future(act(ops.api, root, "wait", "second", targets=["one"], timeout=3600))
    await world.until_it_waits(root, "second")
    await Engine(ops.api, one).works("the other, too")

    call = await bounded(waiting)
    assert (ends(call), call["agents"][0]["message"]) == ([("root/one", "ended", "completed")], "the other, too")
