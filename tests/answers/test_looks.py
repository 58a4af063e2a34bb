"""Messages that were only looked at: to answer one is to have had it."""

import asyncio
from typing import Any

import pytest

from tests.answers.office import REPLY_SECONDS, Office, notify
from tests.requirements import requirement
from tests.running import Seat


async def looked_at(office: Office, by: Seat | None = None, count: int = 1) -> tuple[Seat, list[str]]:
    """A seat whose agent has looked at so many messages and taken none."""
    ops = await office.server.seat("Ops")
    asked = [await office.ask(ops, f"question {number}", by=by) for number in range(count)]
    rows = await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true", include="instructions")
    assert ([row["id"] for row in rows], await office.owed(ops)) == (asked, [])
    return ops, asked


async def say(office: Office, ops: Seat, to: Seat | None, text: str, **metadata: Any) -> None:
    """A message of a seat to its user, or to a peer."""
    if to is None:
        await notify(ops, text, **metadata)
    else:
        await office.ask(to, text, by=ops, **metadata)


async def goes_by(office: Office, ops: Seat) -> None:
    """The agent takes and handles its mail, and nobody says anything for long."""
    for _ in range(3):
        for row in await office.take(ops):
            await ops.api.ack(ops.id, row)
        await office.pass_time(REPLY_SECONDS)


@requirement("M26", "M28")
@pytest.mark.parametrize("to_peer", [False, True])
async def test_what_was_only_looked_at_is_answered_by_naming_it_and_never_overdue(
    office: Office, to_peer: bool
) -> None:
    """The older of two; the newer one, which nobody has answered, is reminded of when its time comes."""
    peer = await office.server.seat("Peer") if to_peer else None
    ops, (older, newer) = await looked_at(office, peer, count=2)
    await say(office, ops, peer, "done", in_reply_to=older)
    (owed,) = await office.owed(ops)
    assert (owed["activity_id"], owed["state"], owed["due_at"]) == (older, "answered", None)
    assert await office.timers() == []  # nothing is left to watch
    await goes_by(office, ops)
    assert [each["state"] for each in await office.owed(ops)] == ["answered", "overdue"]
    assert await office.ticks(ops, older) == ["stored", "handed_over 1", "acked 1", "answered"]
    assert (await office.ticks(ops, newer))[-1] == "overdue"
    if peer is not None:
        assert [row["intent"] for row in await office.take(peer)] == ["inform"]  # an answer asks nothing


@requirement("M26", "P2")
async def test_of_two_answers_at_once_to_what_was_only_looked_at_one_closes_it(office: Office) -> None:
    ops, (asked,) = await looked_at(office)
    await asyncio.gather(*(notify(ops, f"answer {number}", in_reply_to=asked) for number in range(2)))
    assert await office.ticks(ops, asked) == ["stored", "answered"]


@requirement("M26", "M28")
@pytest.mark.parametrize("to_peer", [False, True])
async def test_progress_on_what_was_only_looked_at_begins_its_time(office: Office, to_peer: bool) -> None:
    peer = await office.server.seat("Peer") if to_peer else None
    ops, (asked,) = await looked_at(office, peer)
    await say(office, ops, peer, "one minute", in_reply_to=asked, progress=True)
    assert await office.state(ops, asked) == "open"
    assert await office.timers() == [(ops.id, REPLY_SECONDS)]
    for _ in range(2):
        await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == "overdue"


@requirement("M26")
@pytest.mark.parametrize("intent", ["ack", "inform"])
async def test_what_only_says_that_it_was_read_or_wants_nothing_opens_nothing(office: Office, intent: str) -> None:
    """A word that it was read, of a request; and an answer to what wants none."""
    peer = await office.server.seat("Peer")
    ops = await office.server.seat("Ops")
    asked = await office.ask(ops, "news", by=peer, intent="inform" if intent == "inform" else "request")
    await office.ask(peer, "I see", by=ops, in_reply_to=asked, intent=intent)
    assert await office.owed(ops) == []


@requirement("M26", "P3")
async def test_what_somebody_else_asked_is_not_answered_by_naming_it(office: Office) -> None:
    peer, third = await office.server.seat("Peer"), await office.server.seat("Third")
    ops, (asked,) = await looked_at(office, peer)
    await say(office, ops, third, "done", in_reply_to=asked)
    await say(office, ops, None, "done", in_reply_to=asked)
    assert await office.owed(ops) == []
