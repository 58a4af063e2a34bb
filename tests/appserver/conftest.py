"""Fixtures of the app-server dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clocks import FakeClock
from tests.running import running
from tests.threads.house import House


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """A server, a person, and the time, on one engine: what the store keeps is shown by the tests of threads."""
    async with running("sqlite", str(tmp_path / "store.db"), tmp_path, clock=clock) as server:
        yield House(server, await server.person(), clock)
