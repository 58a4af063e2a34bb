"""Five scripted runtimes, each with exactly the ticks that it should have, compared as text."""

from typing import Any

import pytest

from testing.engines import Engine
from testing.message_world import REPLY_SECONDS, MessageWorld, handle, notify, reply
from testing.push_agents import Pushed, plain, said
from testing.running_server import Seat
from testing.waits import eventually
from testing.workspaces import beat
from tests.requirements import requirement

URL = "https://agent.example/a2a"


async def pushed_to(world: MessageWorld) -> Seat:
    """A seat whose agent is pushed to."""
    return await world.server.seat("Ops", delivery_mode="push", url=URL)


async def shown(world: MessageWorld, seat: Seat, asked: str) -> str:
    """The ticks of a message as one text."""
    return "\n".join(await world.ticks(seat, asked))


@requirement("M25", "M26")
async def test_push_an_agent_that_is_pushed_to_answers_with_its_words(world: MessageWorld) -> None:
    world.net.answers(URL, said("done"))
    ops = await pushed_to(world)
    asked = await world.ask(ops, "please")
    await world.stands(ops, asked, "answered")
    await world.pass_time(10 * REPLY_SECONDS)
    assert await shown(world, ops, asked) == "stored\nhanded_over 1\nacked 1\nanswered"


@requirement("M25", "M26", "M27")
async def test_poll_an_agent_that_polls_answers_by_handle(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "done")
    await world.pass_time(10 * REPLY_SECONDS)
    assert await shown(world, ops, asked) == "stored\nhanded_over 1\nacked 1\nanswered"


@requirement("M25", "M28")
async def test_busy_an_agent_that_has_no_time_and_then_works_long_is_not_pressed(world: MessageWorld) -> None:
    """Refused twice as busy, then taken without a word while heartbeats tell of the work; the answer comes late."""
    ops = await pushed_to(world)
    world.net.answers(URL, plain(503, busy=True), plain(503, busy=True), (200, {}, b""))
    asked = await world.ask(ops, "please")

    async def tries() -> int:
        await world.clock.advance(0)
        return len(world.net.pushed)

    for _ in range(2):
        before = len(world.net.pushed)
        await world.pass_time(REPLY_SECONDS)  # busy: nobody says that the answer is due
        await eventually(tries, before.__lt__)
    await eventually(lambda: world.ticks(ops, asked), lambda found: "acked 3" in found)
    for _ in range(10):
        await beat(ops, active_tasks=1, current_task="sorting")
        await world.pass_time(60)
    assert await world.state(ops, asked) == "open"
    await notify(ops, "done at last")
    expected = "stored\nhanded_over 1\nhanded_over 2\nhanded_over 3\nacked 3\nanswered"
    assert await shown(world, ops, asked) == expected


@requirement("M25", "M28", "P4")
async def test_dead_an_agent_that_dies_with_a_message_leaves_it_overdue(world: MessageWorld) -> None:
    """It claims and is never heard again: the message waits for the next one that comes, and the person is told."""
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    await world.take(ops)
    await world.pass_time(REPLY_SECONDS)
    await world.pass_time(REPLY_SECONDS)
    await world.stands(ops, asked, "overdue")
    assert await shown(world, ops, asked) == "stored\nhanded_over 1\noverdue"
    await world.pass_time(1)
    (again,) = await world.take(ops)  # the next life of the agent
    await reply(ops, handle(again), "sorry")
    assert await shown(world, ops, asked) == "stored\nhanded_over 1\noverdue\nhanded_over 2\nacked 2\nanswered"


@requirement("M25", "M28", "P4")
@pytest.mark.parametrize("mode", ["poll", "push"])
async def test_mute_an_agent_that_takes_everything_and_says_nothing_is_reminded_once(
    world: MessageWorld, mode: str, engine: Engine
) -> None:
    ops = await (pushed_to(world) if mode == "push" else world.server.seat("Ops"))
    world.net.answers(URL, (200, {}, b""))
    asked = await world.ask(ops, "please")

    async def taken(attempt: int) -> None:
        if mode == "push":
            await eventually(lambda: world.ticks(ops, asked), lambda found: f"acked {attempt}" in found)
        else:
            (row,) = await world.take(ops)
            assert (row["attempt"], row["redelivered"]) == (attempt, attempt > 1)
            await ops.api.ack(ops.id, row)

    await taken(1)
    await world.pass_time(REPLY_SECONDS)
    await taken(2)
    await world.pass_time(REPLY_SECONDS)
    await world.stands(ops, asked, "overdue")
    await world.pass_time(10 * REPLY_SECONDS)
    expected = "stored\nhanded_over 1\nacked 1\nhanded_over 2\nacked 2\noverdue"
    assert await shown(world, ops, asked) == expected
    assert await world.take(ops) == []
    if mode == "push":
        first, second = world.net.pushed
        assert _instructions(first)["form"] == _instructions(second)["form"] == "full"
        assert _instructions(first)["text"] != _instructions(second)["text"]  # one line more


def _instructions(pushed: Pushed) -> dict[str, Any]:
    found: dict[str, Any] = pushed.body["params"]["message"]["metadata"]["instructions"]
    return found
