"""Fixtures of threads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clocks import FakeClock
from tests.engines import Engine
from tests.running import running
from tests.threads.house import House


@pytest.fixture
async def house(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """A server, a person, and the time in the test's hand."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield House(server, await server.person(), clock)
