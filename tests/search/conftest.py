"""Fixtures of the search."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from testing.search_world import SearchWorld


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[SearchWorld]:
    """A server, its people, and the time in the test's hand."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield await SearchWorld.on(server, clock)
