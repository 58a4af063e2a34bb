"""Two servers, each with its own organisation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.running_server import Running, running


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Running]:
    """A server."""
    folder = tmp_path / "one"
    folder.mkdir()
    async with running("sqlite", str(folder / "molecule.db"), folder) as server:
        yield server


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Running]:
    """Another server, on a store of its own."""
    folder = tmp_path / "two"
    folder.mkdir()
    async with running("sqlite", str(folder / "molecule.db"), folder, seed=2) as server:
        yield server


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where an agent keeps its state."""
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o700)
    return folder
