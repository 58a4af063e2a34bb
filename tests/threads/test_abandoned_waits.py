"""Waits that nobody asks for any more: each has its end all the same."""

import asyncio
from typing import Any

import pytest

from molecule_core.store.retention import deletion_command
from molecule_core.threads import waits
from testing.thread_world import Engine, Item, ThreadWorld
from testing.waits import bounded, eventually
from tests.requirements import requirement
from tests.threads.test_agents import act, calls, spawned

_LONGER_THAN_A_REQUEST = 100


async def asked_once(world: ThreadWorld, seconds: float) -> tuple[Any, Item]:
    """A seat, and a thread without a turn that has waited for an agent as long as a request is held: nobody asks for it
    again."""
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops)
    await spawned(world, ops.api, thread, "one", wake="queue")
    asked = asyncio.ensure_future(act(ops.api, thread, "wait", "w", targets=["one"], timeout=seconds))
    await world.until_it_waits(thread, "w")
    await world.clock.advance(world.server.server.settings.limits.wait_seconds)
    assert (await bounded(asked))["status"] == "inProgress"
    return ops, thread


async def ends(world: ThreadWorld, thread: Item) -> list[Item]:
    """The ends of waits in its log."""
    return [
        each["entry"]
        for each in await world.log(thread)
        if each["type"] == "collab" and each["entry"]["tool"] == "wait" and each["entry"]["status"] != "inProgress"
    ]


async def timers(world: ThreadWorld) -> list[Any]:
    """The timers of waits."""
    rows = await world.server.server.store.rows("next_timers", {"count": 99})
    return [tuple(row) for row in rows if row[0] == "thread_wait"]


async def gone(world: ThreadWorld, thread_id: str) -> None:
    """Its row is not there any more."""
    await world.server.server.store.run(deletion_command("", [("forget_thread", {"thread_id": thread_id})]))


@requirement("TH8", "TH9")
async def test_a_wait_that_nobody_asks_for_again_ends_at_its_deadline(world: ThreadWorld) -> None:
    _, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    assert await ends(world, thread) == []
    ((_, key, _),) = await timers(world)
    await world.clock.advance(_LONGER_THAN_A_REQUEST)
    (end,) = await eventually(lambda: ends(world, thread), bool)
    assert (end["call_id"], end["status"], end["timed_out"]) == ("w", "completed", True)
    assert (await world.reads(thread))["active_flags"] == []
    assert await timers(world) == []
    # It is rung once more, and too late: nothing comes of it.
    await world.server.server.threads.waits.on_due(key)
    assert await ends(world, thread) == [end]
    assert await timers(world) == []


@requirement("TH8", "TH9")
async def test_a_wait_that_is_lost_or_whose_thread_is_gone_is_given_up_by_its_timer(world: ThreadWorld) -> None:
    _, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    server = world.server.server
    ((_, key, _),) = await timers(world)
    await server.threads.waits.on_due(key.replace(thread["thread_id"], "gone"))
    assert await ends(world, thread) == []
    one = (await world.reads(thread, "/tree"))["threads"][1]["thread_id"]
    await gone(world, one)
    await world.clock.advance(_LONGER_THAN_A_REQUEST)
    (end,) = await eventually(lambda: ends(world, thread), bool)
    assert (end["status"], end["agents"][0]["outcome"]) == ("failed", "source_lost")
    assert await timers(world) == []


@requirement("TH8", "TH9")
async def test_a_wait_that_is_over_before_its_deadline_leaves_no_timer(world: ThreadWorld) -> None:
    ops, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    one = (await world.reads(thread, "/tree"))["threads"][1]
    await Engine(ops.api, one).works("done")
    assert (await act(ops.api, thread, "wait", "w", targets=["one"]))["agents"][0]["outcome"] == "ended"
    assert await timers(world) == []


@requirement("TH8", "TH9")
@pytest.mark.parametrize("how", ["asked", "unasked"])
async def test_a_wait_of_a_thread_that_is_closed_has_ended(world: ThreadWorld, how: str) -> None:
    ops, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    again = act(ops.api, thread, "wait", "w", targets=["one"]) if how == "asked" else None
    asked = None if again is None else asyncio.ensure_future(again)
    await world.person.post(f"/threads/{thread['thread_id']}/close")
    (end,) = await ends(world, thread)
    assert (end["call_id"], end["status"], end["reason"]) == ("w", "interrupted", "the thread was closed")
    now = await world.reads(thread)
    assert (now["closed"], now["active_flags"]) == (True, [])
    assert await timers(world) == []
    if asked is not None:
        assert (await bounded(asked))["reason"] == "the thread was closed"
    assert [each[2] for each in calls(await world.log(thread)) if each[1] == "w"] == ["inProgress", "interrupted"]


@requirement("TH8", "TH9")
@pytest.mark.parametrize("how", ["a turn", "a turn that never began"])
async def test_a_wait_outside_of_all_turns_ends_with_the_turn_after_which_none_runs(
    world: ThreadWorld, how: str
) -> None:
    ops, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    if how == "a turn":
        await world.person.post(f"/threads/{thread['thread_id']}/turns", {"input": "Hi"})
        await Engine(ops.api, thread).works("ok")
    else:
        await world.person.post(f"/threads/{thread['thread_id']}/compact", {})
        await world.person.post(f"/threads/{thread['thread_id']}/interrupt", {})
    (end,) = await ends(world, thread)
    assert (end["call_id"], end["status"], end["reason"]) == ("w", "interrupted", "the turn has ended")
    assert (await world.log(thread))[-1]["type"] == "turn_ended", "and that is the last of it"
    assert await timers(world) == []
    await world.person.post(f"/threads/{thread['thread_id']}/close")
    assert (await act(ops.api, thread, "wait", "w", targets=["one"]))["status"] == "interrupted"
    assert await ends(world, thread) == [end]


async def left_alone(world: ThreadWorld) -> tuple[Any, Item, Engine]:
    """A thread whose wait its timer has ended, after the agent had come to its end: nobody was told of that. And the
    agent."""
    ops, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    one = Engine(ops.api, (await world.reads(thread, "/tree"))["threads"][1])
    await one.works("the answer")
    await world.clock.advance(_LONGER_THAN_A_REQUEST)
    (end,) = await eventually(lambda: ends(world, thread), bool)
    assert [each["outcome"] for each in end["agents"]] == ["ended"]
    return ops, thread, one


async def letters(world: ThreadWorld, thread: Item) -> list[str]:
    """What has become of what its agents have written to it, in order."""
    mail = (await world.reads(thread, "/collab"))["mail"]
    return [each["state"] for each in mail if each["receiver_thread_id"] == thread["thread_id"]]


async def answered(world: ThreadWorld, api: Any, thread: Item, call_id: str) -> list[Any]:
    """What a wait that is over at once has told."""
    told = await act(api, thread, "wait", call_id, targets=["one"])
    return [(each["outcome"], each["message"]) for each in told["agents"]]


@requirement("TH8", "TH9")
async def test_an_end_that_only_a_timer_has_seen_is_told_to_who_waits_anew(world: ThreadWorld) -> None:
    ops, thread, _ = await left_alone(world)
    assert await letters(world, thread) == ["accepted"]
    assert await answered(world, ops.api, thread, "w2") == [("ended", "the answer")]
    assert await letters(world, thread) == ["delivered"]
    # Who comes back by the name of the first one has it told once more, and takes nothing with it.
    assert await answered(world, ops.api, thread, "w") == [("ended", "the answer")]


@requirement("TH8", "TH9")
async def test_an_end_that_a_timer_has_seen_is_told_once_its_wait_is_asked_for(world: ThreadWorld) -> None:
    ops, thread, one = await left_alone(world)
    for _ in range(2):
        assert await answered(world, ops.api, thread, "w") == [("ended", "the answer")]
        assert await letters(world, thread) == ["delivered"]
    again = asyncio.ensure_future(act(ops.api, thread, "wait", "w2", targets=["one"]))
    await world.until_it_waits(thread, "w2")
    assert not again.done(), "it was told already"
    await act(ops.api, thread, "followup", "f", target="one", message="And?")
    await one.works("the answer")
    assert [each["outcome"] for each in (await bounded(again))["agents"]] == ["ended"]


@requirement("TH8", "TH9")
async def test_who_asks_late_for_an_end_takes_none_with_it_that_came_later(world: ThreadWorld) -> None:
    ops, thread, one = await left_alone(world)
    await act(ops.api, thread, "followup", "f", target="one", message="And?")
    await one.works("the answer")
    assert await answered(world, ops.api, thread, "w") == [("ended", "the answer")]
    assert await letters(world, thread) == ["accepted", "accepted"], "which of them was told, nobody can say"
    assert await answered(world, ops.api, thread, "w2") == [("ended", "the answer")]
    assert await letters(world, thread) == ["accepted", "delivered"]


@requirement("TH8", "TH9")
async def test_a_request_that_finds_the_end_of_the_timer_has_told_it(
    world: ThreadWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops, thread = await asked_once(world, _LONGER_THAN_A_REQUEST)
    one = Engine(ops.api, (await world.reads(thread, "/tree"))["threads"][1])

    async def held_up(*_: Any) -> bool:
        """The timer is first, though the request is there."""
        await one.works("the answer")
        await world.clock.advance(_LONGER_THAN_A_REQUEST)
        await eventually(lambda: ends(world, thread), bool)
        return True

    monkeypatch.setattr(waits, "is_over_within", held_up)
    assert await answered(world, ops.api, thread, "w") == [("ended", "the answer")]
    assert await letters(world, thread) == ["delivered"]
    assert len(await ends(world, thread)) == 1
