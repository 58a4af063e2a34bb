"""Reminders of agents that are pushed to: those that are in vain, since the answer came by another way or nobody is
there any more. What is under way is left to its own end, and the rest is taken back."""

import asyncio

import pytest

from molecule_core.messages.model import InboxState
from tests.answers.office import REPLY_SECONDS, Office, notify
from tests.delivery.agents import Pushed, Reply, plain, said
from tests.journeys.patience import eventually
from tests.requirements import requirement
from tests.running import Seat

URL = "https://agent.example/a2a"
TAKEN: Reply = (200, {}, b"")
LEASE_SECONDS = 310
"""How long a push may take, and what it needs to be written down."""


async def taken_in_silence(office: Office) -> tuple[Seat, str]:
    """A seat whose agent has taken a message by push and said nothing, and the message."""
    office.net.answers(URL, TAKEN)
    ops = await office.server.seat("Ops", delivery_mode="push", url=URL)
    asked = await office.ask(ops, "please")
    await acked(office, ops, asked, 1)
    return ops, asked


async def acked(office: Office, seat: Seat, asked: str, attempt: int) -> None:
    """Waits until a push is written down as taken."""
    await eventually(lambda: office.ticks(seat, asked), lambda found: f"acked {attempt}" in found)


def holds(office: Office, reply: Reply) -> asyncio.Event:
    """From now on the agent answers with this, and not before the event is set."""
    gate = asyncio.Event()

    async def answer(_pushed: Pushed) -> Reply:
        await gate.wait()
        return reply

    office.net.agents[URL] = answer
    return gate


async def pushed(office: Office, count: int) -> None:
    """Waits until so many pushes have begun."""

    async def begun() -> int:
        await office.clock.advance(0)
        return len(office.net.pushed)

    await eventually(begun, lambda found: found == count)


async def inbox(office: Office, seat: Seat) -> InboxState:
    """How far an inbox is handled."""
    rows = await office.server.server.store.rows("inbox_state", {"workspace_id": seat.id})
    return InboxState(*rows[0])


HANDLED = InboxState(acked_seq=1, acked_no=1)


async def reminded_and_answered_meanwhile(office: Office, reply: Reply) -> tuple[Seat, str, asyncio.Event]:
    """A seat whose agent says by its tools what it was asked, while the push of its reminder is under way."""
    ops, asked = await taken_in_silence(office)
    gate = holds(office, reply)
    await office.clock.advance(REPLY_SECONDS)
    await pushed(office, 2)
    await notify(ops, "done")
    await eventually(office.timers, lambda found: found == [(ops.id, LEASE_SECONDS)])  # it is looked at then
    assert (await office.state(ops, asked), (await inbox(office, ops)).requeued) == ("answered", 1)
    return ops, asked, gate


@requirement("M28", "M21")
@pytest.mark.parametrize("reply", [TAKEN, plain(500), plain(404), plain(503, busy=True)], ids=lambda each: str(each[0]))
async def test_the_push_of_a_reminder_that_is_answered_meanwhile_comes_to_its_own_end(
    office: Office, reply: Reply
) -> None:
    """However it ends: nobody wants anything of the agent any more."""
    ops, asked, gate = await reminded_and_answered_meanwhile(office, reply)
    gate.set()
    await acked(office, ops, asked, 2)
    assert await inbox(office, ops) == HANDLED
    for _ in range(4):
        await office.pass_time(LEASE_SECONDS)
    assert (len(office.net.pushed), await office.timers()) == (2, [])
    assert await office.state(ops, asked) == "answered"


@requirement("M28", "M22")
async def test_while_the_push_of_such_a_reminder_is_under_way_its_agent_has_its_hands_full(office: Office) -> None:
    """It takes one at a time: what is asked next waits for the end of that push."""
    ops, asked, gate = await reminded_and_answered_meanwhile(office, TAKEN)
    later = await office.ask(ops, "more")
    await office.clock.advance(REPLY_SECONDS)
    assert len(office.net.pushed) == 2
    gate.set()
    await pushed(office, 3)
    assert [each.activity for each in office.net.pushed] == [asked, asked, later]


@requirement("M28", "M21")
async def test_the_push_of_a_reminder_whose_end_nobody_writes_down_is_taken_back_with_its_lease(office: Office) -> None:
    """As where the process that pushed is gone. An end that comes later all the same changes nothing."""
    ops, asked, gate = await reminded_and_answered_meanwhile(office, TAKEN)
    await office.clock.advance(LEASE_SECONDS)
    await eventually(lambda: inbox(office, ops), lambda found: found == HANDLED)
    await eventually(office.timers, lambda found: found == [])
    ticks = await office.ticks(ops, asked)
    gate.set()
    for _ in range(2):
        await office.pass_time(REPLY_SECONDS)
    assert (len(office.net.pushed), await inbox(office, ops)) == (2, HANDLED)
    assert (
        await office.ticks(ops, asked) == ticks == ["stored", "handed_over 1", "acked 1", "handed_over 2", "answered"]
    )


@requirement("M28", "M21")
@pytest.mark.parametrize(
    "reply", [None, plain(500), plain(404), plain(503, busy=True)], ids=["away", "500", "404", "busy"]
)
@pytest.mark.parametrize("answered", [True, False])
async def test_a_reminder_that_its_agent_does_not_take_is_taken_back(
    office: Office, reply: Reply | None, answered: bool
) -> None:
    """When the answer comes by another way, or the time is over: nobody is pushed to for it any more."""
    ops, asked = await taken_in_silence(office)
    if reply is None:
        del office.net.agents[URL]
    else:
        office.net.answers(URL, reply)
    await office.pass_time(REPLY_SECONDS)
    await pushed(office, 2)
    await office.rest()
    assert (await inbox(office, ops)).requeued == 1
    if answered:
        await notify(ops, "done")
    else:
        await office.pass_time(REPLY_SECONDS - 1)  # it is tried again, and then the time is over
        await office.pass_time(1)
    await eventually(lambda: inbox(office, ops), lambda found: found == HANDLED)
    await office.rest()
    office.net.answers(URL, TAKEN)
    tries = len(office.net.pushed)
    for _ in range(6):
        await office.pass_time(REPLY_SECONDS)
    assert (len(office.net.pushed), await office.timers()) == (tries, [])
    assert await office.state(ops, asked) == ("answered" if answered else "overdue")


@requirement("M14", "M28")
async def test_an_answer_to_a_reminder_comes_into_the_inbox_of_who_waited_for_the_first(office: Office) -> None:
    """Whoever had patience for ten minutes was answered at once: with nothing."""
    office.net.answers(URL, TAKEN, said("done"))
    ops, lead = await office.server.seat("Ops", delivery_mode="push", url=URL), await office.server.seat("Lead")
    message = {"role": "user", "parts": [{"kind": "text", "text": "please"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    path = f"/workspaces/{ops.id}/a2a"
    assert (await lead.api.call("POST", path, body=body, headers={"x-timeout": "300"}))["result"] == {}

    await office.pass_time(REPLY_SECONDS)

    (row,) = await eventually(lambda: office.take(lead), bool)
    assert row["request_body"]["params"]["message"]["parts"] == [{"kind": "text", "text": "done"}]
    assert len(office.net.pushed) == 2
