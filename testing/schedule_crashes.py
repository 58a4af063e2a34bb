"""A server that dies at a named point while a schedule runs: `python -m testing.schedule_crashes PLACE STATE POINT`."""

import asyncio
import os
import sys
from pathlib import Path

from molecule_core.common import crash_points
from testing.clocks import FakeClock
from testing.running_server import running
from testing.schedules import ScheduleWorld
from testing.waits import eventually

DIED = 9


async def die_at(place: str, state: Path, point: str) -> None:
    """Saves a schedule for the next minute, lets it come, and ends this process at the point."""
    clock = FakeClock()
    async with running("sqlite", place, state, clock=clock) as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        world = ScheduleWorld(server, server.admin, clock, org_id)
        schedule = await world.add(await server.seat())
        crash_points.set_watcher(lambda reached: os._exit(DIED) if reached == point else None)
        await clock.advance(60)
        await eventually(lambda: world.outcomes(schedule), bool)


if __name__ == "__main__":
    asyncio.run(die_at(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
