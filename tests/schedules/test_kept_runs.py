"""How many runs of a schedule are kept, and for how long."""

from functools import partial
from operator import eq
from pathlib import Path

from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from testing.schedules import Item, ScheduleWorld
from testing.waits import eventually, refused


async def next_hour(world: ScheduleWorld, schedule: Item) -> str:
    """The hour of the next run."""
    return str((await world.get(schedule))["next_runs"][0][11:13])


async def test_the_newest_runs_are_kept_and_old_ones_are_deleted_by_retention(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = Limits(schedule_runs=2, schedule_interval_seconds=600)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        world = ScheduleWorld(server, server.admin, clock, org_id)
        ops = await server.seat()
        error = await refused(world.add(ops, cron="*/5 * * * *"))
        assert "the shortest interval is 600 seconds" in error.problem["error"]
        schedule = await world.add(ops, cron="0 * * * *")
        for hour in ("10", "11", "12", "13"):
            await clock.advance(3600)
            await eventually(partial(next_hour, world, schedule), partial(eq, hour))
        assert [run["planned_at"][11:13] for run in await world.runs(schedule)] == ["09", "11", "12"], (
            "the last that began work is kept"
        )
        await world.pause(schedule, paused=True)
        await clock.advance((limits.retention_days + 1) * 86_400)

        async def look() -> list[Item]:
            await clock.advance(60)  # between two batches
            return await world.runs(schedule)

        await eventually(look, lambda runs: runs == [])
