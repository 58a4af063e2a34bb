"""The server dies at a named point while a schedule runs: the next one has run that planned time once."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from testing.clocks import START, FakeClock
from testing.processes import ROOT
from testing.running_server import running
from testing.schedule_crashes import DIED
from testing.schedules import ScheduleWorld
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement

# Before the run, while it is decided and written, once it is on disk, and after it.
POINTS = (
    *("timers.due", "group.taken", "sqlite.begun", "sqlite.decided", "sqlite.written"),
    *("sqlite.on_disk", "group.committed", "group.resolved", "timer.done"),
)


@pytest.mark.long
@requirement("SC2")
@pytest.mark.parametrize("point", POINTS)
async def test_a_planned_time_at_which_the_server_dies_runs_once(tmp_path: Path, point: str) -> None:
    place = str(tmp_path / "molecule.db")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "testing.schedule_crashes", place, str(tmp_path), point), cwd=ROOT, env=dict(os.environ)
    )
    async with asyncio.timeout(PROCESS_START_SECONDS):
        assert await child.wait() == DIED
    clock = FakeClock()
    clock.at = START + 61_000_000
    async with running("sqlite", place, tmp_path, clock=clock, seed=1) as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        world = ScheduleWorld(server, server.admin, clock, org_id)
        (schedule,) = (await server.admin.get(world.path))["schedules"]
        (run,) = await eventually(lambda: world.runs(schedule), bool)
        assert (run["planned_at"], run["outcome"]) == ("2027-01-15T08:01:00+00:00", "sent")
        (seat,) = await server.admin.get("/workspaces")
        rows = await server.admin.get(f"/workspaces/{seat['id']}/activity", type="a2a_receive")
        assert [row["id"] for row in rows] == [run["work_id"]]
        await clock.advance(20)
        assert await world.runs(schedule) == [run]
