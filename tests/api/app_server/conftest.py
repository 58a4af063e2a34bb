"""Fixtures of the app-server dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.running_server import running
from testing.thread_world import ThreadWorld


@pytest.fixture
async def world(tmp_path: Path, clock: FakeClock) -> AsyncIterator[ThreadWorld]:
    """A server, a person, and the time, on one engine: what the store keeps is shown by the tests of threads."""
    async with running("sqlite", str(tmp_path / "store.db"), tmp_path, clock=clock) as server:
        yield ThreadWorld(server, await server.person(), clock)
