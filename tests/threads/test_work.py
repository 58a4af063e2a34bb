"""Work for engines: what others hold keeps nobody from what is free."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from testing.clocks import FakeClock
from testing.engines import Engine as Kind
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.thread_world import Engine, ThreadWorld
from testing.waits import bounded, eventually
from tests.requirements import requirement

_ROWS, _LEASE = 2, 60
_LIMITS = replace(UNHURRIED, thread_rows=_ROWS, thread_lease_seconds=_LEASE)


async def work(seat: Seat, owner: str | None = None, **wish: Any) -> list[str]:
    """The threads that an engine of a workspace may run."""
    asked = {"owner": owner, **wish}
    found = await bounded(seat.api.get(f"/workspaces/{seat.id}/threads/work", **asked))
    return [each["thread_id"] for each in found["threads"]]


@requirement("TH3")
async def test_threads_that_are_held_keep_no_engine_from_a_newer_one_however_many_they_are(
    engine: Kind, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        world = ThreadWorld(server, await server.person(), clock)
        ops = await server.seat("Ops")
        held = []
        for number in range(_ROWS + 1):
            thread = await world.starts(ops, input="Go")
            holder = Engine(ops.api, thread, "one" if number else "two")
            await holder.claim()
            await holder.begin()
            held.append(thread["thread_id"])
            await world.clock.advance(1)
        assert await work(ops, "three", wait=0) == []
        free = [(await world.starts(ops, input="Go"))["thread_id"] for _ in range(_ROWS + 1)]
        for owner in ("one", "three", None):
            assert await work(ops, owner, wait=0) == free[:_ROWS], owner
        # Its own, once it has forgotten what it had begun, are the oldest.
        assert await work(ops, "one", wait=0, own_too=1) == held[1:]


@requirement("TH3")
async def test_who_waits_for_work_is_woken_when_the_first_claim_of_another_engine_ends(
    engine: Kind, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        world = ThreadWorld(server, await server.person(), clock)
        ops = await server.seat("Ops")
        threads = [await world.starts(ops, input="Go") for _ in range(_ROWS + 1)]
        for thread, holder in zip(reversed(threads), ("one", "two", "three"), strict=True):
            await Engine(ops.api, thread, holder).claim()
            await world.clock.advance(1)
        await world.clock.advance(_LEASE - _ROWS - 3)
        assert await work(ops, "three", wait=0) == [threads[0]["thread_id"]], "its own has a turn to begin"
        asleep = await _asleep(server)
        waiting = asyncio.ensure_future(work(ops, "four", wait=20))
        await eventually(lambda: _asleep(server), lambda count: count > asleep)
        await world.clock.advance(1.5)
        assert not waiting.done()
        await world.clock.advance(0.8)
        assert await bounded(waiting) == [threads[-1]["thread_id"]]


async def _asleep(server: Running) -> int:
    """How many have looked, and wait."""
    return server.server.wakeups.sleeping
