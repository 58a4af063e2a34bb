"""Schedules at three processes: each planned time runs once, also if processes are killed."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from testing.clocks import FakeClock
from testing.processes import client
from testing.schedules import ScheduleWorld
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import SOON, asked, servers
from tests.system.multi_process.test_three_processes import three
from tests.system.test_kill9 import new_seat

_RUNS = "SELECT planned_at, outcome, work_id FROM schedule_runs ORDER BY planned_at"
_SENT = "SELECT id FROM activities WHERE dedupe_key LIKE 'schedule:%' ORDER BY created_at"


@requirement("SC2")
async def test_three_processes_that_are_woken_for_one_planned_time_run_it_once(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with servers(place, tmp_path, 3, clock=clock, limits=SOON) as three_servers:
        org_id = (await three_servers[0].admin.get("/orgs"))[0]["id"]
        world = ScheduleWorld(three_servers[0], three_servers[0].admin, clock, org_id)
        ops = await three_servers[0].seat()
        schedule = await world.add(ops)
        key = f"{org_id}/{schedule['schedule_id']}"
        runs: list[tuple[Any, ...]] = []
        for count in range(1, 6):
            await clock.advance(60)
            # What a second call of a timer does, after its lease or a crash, at every process.
            await asyncio.gather(*(each.server.schedules.executor.on_due(key) for each in three_servers * 3))
            runs = await asked(place, _RUNS)
            assert [outcome for _, outcome, _ in runs] == ["sent", *["skipped"] * (count - 1)]
        assert [work for _, _, work in runs if work] == [row[0] for row in await asked(place, _SENT)]


@pytest.mark.long
@requirement("SC2")
async def test_planned_times_run_once_while_processes_are_killed(place: str, tmp_path: Path) -> None:
    async with three(place, tmp_path, MOLECULE_LIMIT_LOOK_AGAIN_SECONDS="1") as (ports, processes):
        async with client(ports[0]) as admin:
            ops, token = await new_seat(admin)
            org_id = (await admin.get("/orgs"))[0]["id"]
            body = {"target_id": ops, "cron": "* * * * *", "text": "Report.", "overlap": "queue"}
            for number in range(20):
                await admin.post(f"/orgs/{org_id}/schedules", {**body, "name": f"Report {number}"})

        async def counts() -> list[tuple[str, int]]:
            return await asked(place, "SELECT schedule_id, count(*) FROM schedule_runs GROUP BY schedule_id")

        # The processes die while the first planned time comes.
        await eventually(counts, bool, PROCESS_START_SECONDS + 90)
        await asyncio.gather(processes[0].kill(), processes[1].kill())
        await eventually(counts, lambda found: len(found) == 20, PROCESS_START_SECONDS + 90)
        sent = [row[0] for row in await asked(place, _SENT)]
        works = [work for _, _, work in await asked(place, _RUNS) if work]
        assert sorted(works) == sorted(sent)
        assert len(sent) == 20, "each first planned time was sent once, and the next ones wait behind it"
        planned = {datetime.fromtimestamp(at / 1e6).second for at, _, _ in await asked(place, _RUNS)}
        assert planned == {0}
        async with client(ports[2], token) as agent:
            assert len(await agent.claim(ops)) == 20
