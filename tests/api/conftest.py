"""A server on SQLite alone, for what happens before any store is asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.running_server import Running, running


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Running]:
    """A server for tests that never come near its store."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield server
