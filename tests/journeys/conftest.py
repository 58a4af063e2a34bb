"""Fixtures of the journeys."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.desk import Desk
from tests.running import running


@pytest.fixture
async def desk(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Desk]:
    """A desk on a server whose time only the test moves."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield Desk(await server.seat("Ops"), await server.person(), clock, server)
