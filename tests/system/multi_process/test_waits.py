"""Waits for agents where two servers share one PostgreSQL, and the clock on the wall of one of them is ahead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from molecule_core.common.clock import SECOND
from testing.clocks import START, FakeClock
from testing.running_server import Running, running
from testing.thread_world import Item, ThreadWorld
from testing.waits import bounded, eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import ONLY_WAKE_UPS
from tests.threads.test_abandoned_waits import ends, timers
from tests.threads.test_agents import act, spawned

_WAITS_SECONDS = 20
_AHEAD_SECONDS = 45


@asynccontextmanager
async def another(place: str, folder: Path) -> AsyncIterator[tuple[Running, FakeClock]]:
    """A server whose wall clock is ahead: what the others think of as to come is due there."""
    clock = FakeClock()
    clock.set_by = _AHEAD_SECONDS * SECOND
    state = folder / "other"
    state.mkdir()
    async with running("postgres", place, state, clock=clock, limits=ONLY_WAKE_UPS, seed=7) as server:
        yield server, clock


async def waits(server: Running, clock: FakeClock) -> tuple[ThreadWorld, Item, "asyncio.Future[Item]"]:
    """A thread that waits for an agent, and what that is answered."""
    world = ThreadWorld(server, await server.person(), clock)
    ops = await server.seat("Ops")
    thread = await world.starts(ops)
    await spawned(world, ops.api, thread, "one", wake="queue")
    asked = asyncio.ensure_future(act(ops.api, thread, "wait", "w", targets=["one"], timeout=_WAITS_SECONDS))
    await world.until_it_waits(thread, "w")
    return world, thread, asked


async def is_put_off(world: ThreadWorld) -> bool:
    """Whether the timer of the wait is that of one that nobody may measure."""

    def wanted(rows: Any) -> bool:
        return [row[2] for row in rows] in ([], [START + (_WAITS_SECONDS + 60) * SECOND])

    return bool(await eventually(lambda: timers(world), wanted))


@requirement("TH8", "M38")
async def test_a_wait_that_one_process_measures_is_not_ended_by_the_clock_of_another(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    first = running("postgres", place, tmp_path, clock=clock, limits=ONLY_WAKE_UPS)
    async with first as one, another(place, tmp_path):
        world, thread, asked = await waits(one, clock)
        assert await is_put_off(world)
        assert await ends(world, thread) == []
        await clock.advance(_WAITS_SECONDS)
        assert (await bounded(asked))["timed_out"]
        assert await timers(world) == []


@requirement("TH8", "M38")
async def test_a_wait_whose_process_is_gone_is_ended_by_another_after_a_while(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(running("postgres", place, tmp_path, clock=clock, limits=ONLY_WAKE_UPS))
        async with another(place, tmp_path) as (other, its_clock):
            world, thread, asked = await waits(one, clock)
            assert await is_put_off(world)
            asked.cancel()
            await stack.aclose()
            world = ThreadWorld(other, await other.person(), its_clock)
            await its_clock.advance(_WAITS_SECONDS + 60 - _AHEAD_SECONDS)
            (end,) = await eventually(lambda: ends(world, thread), bool)
            assert (end["status"], end["timed_out"]) == ("completed", True)
            assert await timers(world) == []
