"""Waits that nobody asks for any more: each has its end all the same."""

import asyncio
from typing import Any

import pytest

from molecule_core.store.pruning import deletion
from tests.journeys.patience import bounded, eventually
from tests.requirements import requirement
from tests.threads.house import Engine, House, Item
from tests.threads.test_agents import act, calls, spawned

_LONGER_THAN_A_REQUEST = 100


async def asked_once(house: House, seconds: float) -> tuple[Any, Item]:
    """A seat, and a thread without a turn that has waited for an agent as long as a request is held: nobody asks for it
    again."""
    ops = await house.server.seat("Ops")
    thread = await house.starts(ops)
    await spawned(house, ops.api, thread, "one", wake="queue")
    waiting = asyncio.ensure_future(act(ops.api, thread, "wait", "w", targets=["one"], timeout=seconds))
    await house.until_it_waits(thread, "w")
    await house.clock.advance(house.server.server.settings.limits.wait_seconds)
    assert (await bounded(waiting))["status"] == "inProgress"
    return ops, thread


async def ends(house: House, thread: Item) -> list[Item]:
    """The ends of waits in its log."""
    return [
        each["entry"]
        for each in await house.log(thread)
        if each["type"] == "collab" and each["entry"]["tool"] == "wait" and each["entry"]["status"] != "inProgress"
    ]


async def timers(house: House) -> list[Any]:
    """The timers of waits."""
    rows = await house.server.server.store.rows("next_timers", {"count": 99})
    return [tuple(row) for row in rows if row[0] == "thread_wait"]


async def gone(house: House, thread_id: str) -> None:
    """Its row is not there any more."""
    await house.server.server.store.run(deletion("", [("forget_thread", {"thread_id": thread_id})]))


@requirement("TH8", "TH9")
async def test_a_wait_that_nobody_asks_for_again_ends_at_its_deadline(house: House) -> None:
    _, thread = await asked_once(house, _LONGER_THAN_A_REQUEST)
    assert await ends(house, thread) == []
    ((_, key, _),) = await timers(house)
    await house.clock.advance(_LONGER_THAN_A_REQUEST)
    (end,) = await eventually(lambda: ends(house, thread), bool)
    assert (end["call_id"], end["status"], end["timed_out"]) == ("w", "completed", True)
    assert (await house.reads(thread))["active_flags"] == []
    assert await timers(house) == []
    # It is rung once more, and too late: nothing comes of it.
    await house.server.server.threads.waits.on_due(key)
    assert await ends(house, thread) == [end]
    assert await timers(house) == []


@requirement("TH8", "TH9")
async def test_a_wait_that_is_lost_or_whose_thread_is_gone_is_given_up_by_its_timer(house: House) -> None:
    _, thread = await asked_once(house, _LONGER_THAN_A_REQUEST)
    server = house.server.server
    ((_, key, _),) = await timers(house)
    await server.threads.waits.on_due(key.replace(thread["thread_id"], "gone"))
    assert await ends(house, thread) == []
    one = (await house.reads(thread, "/tree"))["threads"][1]["thread_id"]
    await gone(house, one)
    await house.clock.advance(_LONGER_THAN_A_REQUEST)
    (end,) = await eventually(lambda: ends(house, thread), bool)
    assert (end["status"], end["agents"][0]["outcome"]) == ("failed", "source_lost")
    assert await timers(house) == []


@requirement("TH8", "TH9")
async def test_a_wait_that_is_over_before_its_deadline_leaves_no_timer(house: House) -> None:
    ops, thread = await asked_once(house, _LONGER_THAN_A_REQUEST)
    one = (await house.reads(thread, "/tree"))["threads"][1]
    await Engine(ops.api, one).works("done")
    assert (await act(ops.api, thread, "wait", "w", targets=["one"]))["agents"][0]["outcome"] == "ended"
    assert await timers(house) == []


@requirement("TH8", "TH9")
@pytest.mark.parametrize("how", ["asked", "unasked"])
async def test_a_wait_of_a_thread_that_is_closed_has_ended(house: House, how: str) -> None:
    ops, thread = await asked_once(house, _LONGER_THAN_A_REQUEST)
    waiting = act(ops.api, thread, "wait", "w", targets=["one"]) if how == "asked" else None
    asked = None if waiting is None else asyncio.ensure_future(waiting)
    await house.person.post(f"/threads/{thread['thread_id']}/close")
    (end,) = await ends(house, thread)
    assert (end["call_id"], end["status"], end["reason"]) == ("w", "interrupted", "the thread was closed")
    now = await house.reads(thread)
    assert (now["closed"], now["active_flags"]) == (True, [])
    assert await timers(house) == []
    if asked is not None:
        assert (await bounded(asked))["reason"] == "the thread was closed"
    assert [each[2] for each in calls(await house.log(thread)) if each[1] == "w"] == ["inProgress", "interrupted"]
