"""Reminders of agents that are pushed to: those that are in vain, since the answer came by another way or nobody is
there any more. What is under way is left to its own end, and the rest is taken back."""

import asyncio

import pytest

from molecule_core.messages.model import InboxState
from testing.message_world import REPLY_SECONDS, MessageWorld, notify
from testing.push_agents import Pushed, Reply, plain, said
from testing.running_server import Seat
from testing.waits import eventually
from tests.requirements import requirement

URL = "https://agent.example/a2a"
TAKEN: Reply = (200, {}, b"")
LEASE_SECONDS = 310
"""How long a push may take, and what it needs to be written down."""


async def taken_in_silence(world: MessageWorld) -> tuple[Seat, str]:
    """A seat whose agent has taken a message by push and said nothing, and the message."""
    world.net.answers(URL, TAKEN)
    ops = await world.server.seat("Ops", delivery_mode="push", url=URL)
    asked = await world.ask(ops, "please")
    await acked(world, ops, asked, 1)
    return ops, asked


async def acked(world: MessageWorld, seat: Seat, asked: str, attempt: int) -> None:
    """Waits until a push is written down as taken."""
    await eventually(lambda: world.ticks(seat, asked), lambda found: f"acked {attempt}" in found)


def holds(world: MessageWorld, reply: Reply) -> asyncio.Event:
    """From now on the agent answers with this, and not before the event is set."""
    gate = asyncio.Event()

    async def answer(_pushed: Pushed) -> Reply:
        await gate.wait()
        return reply

    world.net.agents[URL] = answer
    return gate


async def pushed(world: MessageWorld, count: int) -> None:
    """Waits until so many pushes have begun."""

    async def begun() -> int:
        await world.clock.advance(0)
        return len(world.net.pushed)

    await eventually(begun, lambda found: found == count)


async def inbox(world: MessageWorld, seat: Seat) -> InboxState:
    """How far an inbox is handled."""
    rows = await world.server.server.store.rows("inbox_state", {"workspace_id": seat.id})
    return InboxState(*rows[0])


HANDLED = InboxState(acked_seq=1, acked_no=1)


async def reminded_and_answered_meanwhile(world: MessageWorld, reply: Reply) -> tuple[Seat, str, asyncio.Event]:
    """A seat whose agent says by its tools what it was asked, while the push of its reminder is under way."""
    ops, asked = await taken_in_silence(world)
    gate = holds(world, reply)
    await world.clock.advance(REPLY_SECONDS)
    await pushed(world, 2)
    await notify(ops, "done")
    await eventually(world.timers, lambda found: found == [(ops.id, LEASE_SECONDS)])  # it is looked at then
    assert (await world.state(ops, asked), (await inbox(world, ops)).requeued) == ("answered", 1)
    return ops, asked, gate


@requirement("M28", "M21")
@pytest.mark.parametrize("reply", [TAKEN, plain(500), plain(404), plain(503, busy=True)], ids=lambda each: str(each[0]))
async def test_the_push_of_a_reminder_that_is_answered_meanwhile_comes_to_its_own_end(
    world: MessageWorld, reply: Reply
) -> None:
    """However it ends: nobody wants anything of the agent any more."""
    ops, asked, gate = await reminded_and_answered_meanwhile(world, reply)
    gate.set()
    await acked(world, ops, asked, 2)
    assert await inbox(world, ops) == HANDLED
    for _ in range(4):
        await world.pass_time(LEASE_SECONDS)
    assert (len(world.net.pushed), await world.timers()) == (2, [])
    assert await world.state(ops, asked) == "answered"


@requirement("M28", "M22")
async def test_while_the_push_of_such_a_reminder_is_under_way_its_agent_has_its_hands_full(world: MessageWorld) -> None:
    """It takes one at a time: what is asked next waits for the end of that push."""
    ops, asked, gate = await reminded_and_answered_meanwhile(world, TAKEN)
    later = await world.ask(ops, "more")
    await world.clock.advance(REPLY_SECONDS)
    assert len(world.net.pushed) == 2
    gate.set()
    await pushed(world, 3)
    assert [each.activity for each in world.net.pushed] == [asked, asked, later]


@requirement("M28", "M21")
async def test_the_push_of_a_reminder_whose_end_nobody_writes_down_is_taken_back_with_its_lease(
    world: MessageWorld,
) -> None:
    """As where the process that pushed is gone. An end that comes later all the same changes nothing."""
    ops, asked, gate = await reminded_and_answered_meanwhile(world, TAKEN)
    await world.clock.advance(LEASE_SECONDS)
    await eventually(lambda: inbox(world, ops), lambda found: found == HANDLED)
    await eventually(world.timers, lambda found: found == [])
    ticks = await world.ticks(ops, asked)
    gate.set()
    for _ in range(2):
        await world.pass_time(REPLY_SECONDS)
    assert (len(world.net.pushed), await inbox(world, ops)) == (2, HANDLED)
    assert await world.ticks(ops, asked) == ticks == ["stored", "handed_over 1", "acked 1", "handed_over 2", "answered"]


@requirement("M28", "M21")
@pytest.mark.parametrize(
    "reply", [None, plain(500), plain(404), plain(503, busy=True)], ids=["away", "500", "404", "busy"]
)
@pytest.mark.parametrize("answered", [True, False])
async def test_a_reminder_that_its_agent_does_not_take_is_taken_back(
    world: MessageWorld, reply: Reply | None, answered: bool
) -> None:
    """When the answer comes by another way, or the time is over: nobody is pushed to for it any more."""
    ops, asked = await taken_in_silence(world)
    if reply is None:
        del world.net.agents[URL]
    else:
        world.net.answers(URL, reply)
    await world.pass_time(REPLY_SECONDS)
    await pushed(world, 2)
    await world.rest()
    assert (await inbox(world, ops)).requeued == 1
    if answered:
        await notify(ops, "done")
    else:
        await world.pass_time(REPLY_SECONDS - 1)  # it is tried again, and then the time is over
        await world.pass_time(1)
    await eventually(lambda: inbox(world, ops), lambda found: found == HANDLED)
    await world.rest()
    world.net.answers(URL, TAKEN)
    tries = len(world.net.pushed)
    for _ in range(6):
        await world.pass_time(REPLY_SECONDS)
    assert (len(world.net.pushed), await world.timers()) == (tries, [])
    assert await world.state(ops, asked) == ("answered" if answered else "overdue")


@requirement("M14", "M28")
async def test_an_answer_to_a_reminder_comes_into_the_inbox_of_who_waited_for_the_first(world: MessageWorld) -> None:
    """Whoever had patience for ten minutes was answered at once: with nothing."""
    world.net.answers(URL, TAKEN, said("done"))
    ops, lead = await world.server.seat("Ops", delivery_mode="push", url=URL), await world.server.seat("Lead")
    message = {"role": "user", "parts": [{"kind": "text", "text": "please"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    path = f"/workspaces/{ops.id}/a2a"
    assert (await lead.api.call("POST", path, body=body, headers={"x-timeout": "300"}))["result"] == {}

    await world.pass_time(REPLY_SECONDS)

    (row,) = await eventually(lambda: world.take(lead), bool)
    assert row["request_body"]["params"]["message"]["parts"] == [{"kind": "text", "text": "done"}]
    assert len(world.net.pushed) == 2
