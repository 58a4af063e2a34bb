"""Five scripted runtimes, each with exactly the ticks that it should have, compared as text."""

from typing import Any

import pytest

from tests.answers.office import REPLY_SECONDS, Office, handle, notify, reply
from tests.delivery.agents import Pushed, plain, said
from tests.engines import Engine
from tests.journeys.patience import eventually
from tests.journeys.seats import beat
from tests.requirements import requirement
from tests.running import Seat

URL = "https://agent.example/a2a"


async def pushed_to(office: Office) -> Seat:
    """A seat whose agent is pushed to."""
    return await office.server.seat("Ops", delivery_mode="push", url=URL)


async def shown(office: Office, seat: Seat, asked: str) -> str:
    """The ticks of a message as one text."""
    return "\n".join(await office.ticks(seat, asked))


@requirement("M25", "M26")
async def test_push_an_agent_that_is_pushed_to_answers_with_its_words(office: Office) -> None:
    office.net.answers(URL, said("done"))
    ops = await pushed_to(office)
    asked = await office.ask(ops, "please")
    await office.stands(ops, asked, "answered")
    await office.pass_time(10 * REPLY_SECONDS)
    assert await shown(office, ops, asked) == "stored\nhanded_over 1\nacked 1\nanswered"


@requirement("M25", "M26", "M27")
async def test_poll_an_agent_that_polls_answers_by_handle(office: Office) -> None:
    ops = await office.server.seat("Ops")
    asked = await office.ask(ops, "please")
    (row,) = await office.take(ops)
    await reply(ops, handle(row), "done")
    await office.pass_time(10 * REPLY_SECONDS)
    assert await shown(office, ops, asked) == "stored\nhanded_over 1\nacked 1\nanswered"


@requirement("M25", "M28")
async def test_busy_an_agent_that_has_no_time_and_then_works_long_is_not_pressed(office: Office) -> None:
    """Refused twice as busy, then taken without a word while heartbeats tell of the work; the answer comes late."""
    ops = await pushed_to(office)
    office.net.answers(URL, plain(503, busy=True), plain(503, busy=True), (200, {}, b""))
    asked = await office.ask(ops, "please")

    async def tries() -> int:
        await office.clock.advance(0)
        return len(office.net.pushed)

    for _ in range(2):
        before = len(office.net.pushed)
        await office.pass_time(REPLY_SECONDS)  # busy: nobody says that the answer is due
        await eventually(tries, before.__lt__)
    await eventually(lambda: office.ticks(ops, asked), lambda found: "acked 3" in found)
    for _ in range(10):
        await beat(ops, active_tasks=1, current_task="sorting")
        await office.pass_time(60)
    assert await office.state(ops, asked) == "open"
    await notify(ops, "done at last")
    expected = "stored\nhanded_over 1\nhanded_over 2\nhanded_over 3\nacked 3\nanswered"
    assert await shown(office, ops, asked) == expected


@requirement("M25", "M28", "P4")
async def test_dead_an_agent_that_dies_with_a_message_leaves_it_overdue(office: Office) -> None:
    """It claims and is never heard again: the message waits for the next one that comes, and the person is told."""
    ops = await office.server.seat("Ops")
    asked = await office.ask(ops, "please")
    await office.take(ops)
    await office.pass_time(REPLY_SECONDS)
    await office.pass_time(REPLY_SECONDS)
    await office.stands(ops, asked, "overdue")
    assert await shown(office, ops, asked) == "stored\nhanded_over 1\noverdue"
    await office.pass_time(1)
    (again,) = await office.take(ops)  # the next life of the agent
    await reply(ops, handle(again), "sorry")
    assert await shown(office, ops, asked) == "stored\nhanded_over 1\noverdue\nhanded_over 2\nacked 2\nanswered"


@requirement("M25", "M28", "P4")
@pytest.mark.parametrize("mode", ["poll", "push"])
async def test_mute_an_agent_that_takes_everything_and_says_nothing_is_reminded_once(
    office: Office, mode: str, engine: Engine
) -> None:
    ops = await (pushed_to(office) if mode == "push" else office.server.seat("Ops"))
    office.net.answers(URL, (200, {}, b""))
    asked = await office.ask(ops, "please")

    async def taken(attempt: int) -> None:
        if mode == "push":
            await eventually(lambda: office.ticks(ops, asked), lambda found: f"acked {attempt}" in found)
        else:
            (row,) = await office.take(ops)
            assert (row["attempt"], row["redelivered"]) == (attempt, attempt > 1)
            await ops.api.ack(ops.id, row)

    await taken(1)
    await office.pass_time(REPLY_SECONDS)
    await taken(2)
    await office.pass_time(REPLY_SECONDS)
    await office.stands(ops, asked, "overdue")
    await office.pass_time(10 * REPLY_SECONDS)
    expected = "stored\nhanded_over 1\nacked 1\nhanded_over 2\nacked 2\noverdue"
    assert await shown(office, ops, asked) == expected
    assert await office.take(ops) == []
    if mode == "push":
        first, second = office.net.pushed
        assert _instructions(first)["form"] == _instructions(second)["form"] == "full"
        assert _instructions(first)["text"] != _instructions(second)["text"]  # one line more


def _instructions(pushed: Pushed) -> dict[str, Any]:
    found: dict[str, Any] = pushed.body["params"]["message"]["metadata"]["instructions"]
    return found
