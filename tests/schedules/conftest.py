"""Fixtures of schedules."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from testing.schedules import ScheduleWorld


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[ScheduleWorld]:
    """A server, an operator, and the time in the test's hand."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        yield ScheduleWorld(server, await server.person(), clock, org_id)
