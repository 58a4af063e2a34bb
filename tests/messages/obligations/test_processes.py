"""The silence watch where processes share a store: what one of them has seen is not what is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from testing.clocks import FakeClock
from testing.engines import new_database
from testing.live_clients import journal_of
from testing.message_world import REPLY_SECONDS, MessageWorld, handle, many_asked, reply
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat
from testing.waits import eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import servers


@asynccontextmanager
async def offices(postgres: str, folder: Path, clock: FakeClock) -> AsyncIterator[tuple[MessageWorld, MessageWorld]]:
    """Two processes on one store, whose agents are told how to answer, and one time for both."""
    place = await new_database(postgres)
    more: dict[str, Any] = {"limits": UNHURRIED, "clock": clock, "push_instructions_enabled": True}
    async with servers(place, folder, **more) as (one, other):
        yield (
            MessageWorld(one, await one.person(), clock, PushNetwork()),
            MessageWorld(other, other.admin, clock, PushNetwork()),
        )


@requirement("M28", "M38")
async def test_of_two_processes_each_reminds_once_and_tells_once(
    postgres: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with offices(postgres, tmp_path, clock) as (world, beside):
        ops, rows = await many_asked(world, 3)
        await asyncio.gather(world.pass_time(REPLY_SECONDS), beside.rest())
        seat = _at(beside, ops)
        taken = await eventually(lambda: beside.take(seat), bool)
        assert [(row["id"], row["attempt"]) for row in taken] == [(rows[0]["id"], 2)]
        await reply(seat, handle(taken[0]), "done")  # by another process than the one that handed it over
        await asyncio.gather(world.pass_time(REPLY_SECONDS), beside.rest())
        await world.stands(ops, rows[2]["id"], "overdue")
        await world.stands(ops, rows[1]["id"], "overdue")
        assert await world.state(ops, rows[0]["id"]) == "answered"
        names = [event["event"] for event in await journal_of(world.server)]
        await eventually(world.timers, lambda found: found == [])
    assert names.count("MESSAGE_OVERDUE") == 2


@requirement("M28", "M38")
async def test_what_is_claimed_after_another_process_took_the_timer_away_is_watched_too(
    postgres: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The second to claim remembers a later time than that of the timer, which goes off in one of the two, finds all
    answered, and takes the timer away. (Of six seats some timer goes off in the process that did not claim last.)"""
    async with offices(postgres, tmp_path, clock) as (world, beside):
        seats = [await world.server.seat(f"Ops {number}") for number in range(6)]
        twice = [(seat, _at(beside, seat)) for seat in seats]
        orders = [pair if number % 2 else pair[::-1] for number, pair in enumerate(twice)]
        for turn in (0, 1):
            for order in orders:
                await world.ask(order[0], "question")
                (row,) = await world.take(order[turn])
                await reply(order[turn], handle(row), "done")
            await world.pass_time(REPLY_SECONDS / 2)
            await beside.rest()
        await eventually(world.timers, lambda found: found == [])
        for first, second in orders:
            await world.ask(first, "one more")
            assert len(await world.take(second)) == 1
        assert sorted(await world.timers()) == sorted((seat.id, REPLY_SECONDS) for seat in seats)
        for name in ("reminded_at", "overdue_at"):
            await world.pass_time(REPLY_SECONDS)
            for seat in seats:
                await eventually(partial(world.owed, seat), partial(_has_last, name))


def _has_last(name: str, owed: list[dict[str, Any]]) -> bool:
    return owed[-1][name] is not None


def _at(world: MessageWorld, seat: Seat) -> Seat:
    """The same seat, whose agent calls another process."""
    answer = {"id": seat.id, "name": seat.name, "connection": {"auth_token": seat.token}}
    return Seat(answer, world.server.api(seat.token))
