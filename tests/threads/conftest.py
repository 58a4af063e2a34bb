"""Fixtures of threads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from testing.thread_world import ThreadWorld


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[ThreadWorld]:
    """A server, a person, and the time in the test's hand."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield ThreadWorld(server, await server.person(), clock)
