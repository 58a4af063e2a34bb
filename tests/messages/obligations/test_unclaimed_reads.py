"""Messages that were only looked at: to answer one is to have had it."""

import asyncio
from typing import Any

import pytest

from testing.message_world import REPLY_SECONDS, MessageWorld, notify
from testing.running_server import Seat
from tests.requirements import requirement


async def looked_at(world: MessageWorld, by: Seat | None = None, count: int = 1) -> tuple[Seat, list[str]]:
    """A seat whose agent has looked at so many messages and taken none."""
    ops = await world.server.seat("Ops")
    asked = [await world.ask(ops, f"question {number}", by=by) for number in range(count)]
    rows = await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true", include="instructions")
    assert ([row["id"] for row in rows], await world.owed(ops)) == (asked, [])
    return ops, asked


async def say(world: MessageWorld, ops: Seat, to: Seat | None, text: str, **metadata: Any) -> None:
    """A message of a seat to its user, or to a peer."""
    if to is None:
        await notify(ops, text, **metadata)
    else:
        await world.ask(to, text, by=ops, **metadata)


async def goes_by(world: MessageWorld, ops: Seat) -> None:
    """The agent takes and handles its mail, and nobody says anything for long."""
    for _ in range(3):
        for row in await world.take(ops):
            await ops.api.ack(ops.id, row)
        await world.pass_time(REPLY_SECONDS)


@requirement("M26", "M28")
@pytest.mark.parametrize("to_peer", [False, True])
async def test_what_was_only_looked_at_is_answered_by_naming_it_and_never_overdue(
    world: MessageWorld, to_peer: bool
) -> None:
    """The older of two; the newer one, which nobody has answered, is reminded of when its time comes."""
    peer = await world.server.seat("Peer") if to_peer else None
    ops, (older, newer) = await looked_at(world, peer, count=2)
    await say(world, ops, peer, "done", in_reply_to=older)
    (owed,) = await world.owed(ops)
    assert (owed["activity_id"], owed["state"], owed["due_at"]) == (older, "answered", None)
    assert await world.timers() == []  # nothing is left to watch
    await goes_by(world, ops)
    assert [each["state"] for each in await world.owed(ops)] == ["answered", "overdue"]
    assert await world.ticks(ops, older) == ["stored", "acked", "answered"]
    assert (await world.ticks(ops, newer))[-1] == "overdue"
    if peer is not None:
        assert [row["intent"] for row in await world.take(peer)] == ["inform"]  # an answer asks nothing


@requirement("M26", "P2")
async def test_of_two_answers_at_once_to_what_was_only_looked_at_one_closes_it(world: MessageWorld) -> None:
    ops, (asked,) = await looked_at(world)
    await asyncio.gather(*(notify(ops, f"answer {number}", in_reply_to=asked) for number in range(2)))
    assert await world.ticks(ops, asked) == ["stored", "acked", "answered"]


@requirement("M26", "M28")
@pytest.mark.parametrize("to_peer", [False, True])
async def test_progress_on_what_was_only_looked_at_begins_its_time(world: MessageWorld, to_peer: bool) -> None:
    peer = await world.server.seat("Peer") if to_peer else None
    ops, (asked,) = await looked_at(world, peer)
    await say(world, ops, peer, "one minute", in_reply_to=asked, progress=True)
    assert await world.state(ops, asked) == "open"
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]
    for _ in range(2):
        await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == "overdue"


@requirement("M26")
@pytest.mark.parametrize("intent", ["ack", "inform"])
async def test_what_only_says_that_it_was_read_or_wants_nothing_opens_nothing(world: MessageWorld, intent: str) -> None:
    """A word that it was read, of a request; and an answer to what wants none."""
    peer = await world.server.seat("Peer")
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "news", by=peer, intent="inform" if intent == "inform" else "request")
    await world.ask(peer, "I see", by=ops, in_reply_to=asked, intent=intent)
    assert await world.owed(ops) == []


@requirement("M26", "P3")
async def test_what_somebody_else_asked_is_not_answered_by_naming_it(world: MessageWorld) -> None:
    peer, third = await world.server.seat("Peer"), await world.server.seat("Third")
    ops, (asked,) = await looked_at(world, peer)
    await say(world, ops, third, "done", in_reply_to=asked)
    await say(world, ops, None, "done", in_reply_to=asked)
    assert await world.owed(ops) == []
