"""A server with a seat, a person who has written to it, and a host's throw-away home."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.hosts import HOSTS, Home, RealHost
from tests.interop.scene import Scene
from tests.running import running


@pytest.fixture(params=HOSTS, ids=[each.name for each in HOSTS])
def host(request: pytest.FixtureRequest) -> RealHost:
    """Each real host in turn, if it is installed."""
    host: RealHost = request.param
    if host.pinned.found() is None:
        if os.environ.get("MOLECULE_INTEROP") == "required":
            pytest.fail(host.pinned.missing)
        pytest.skip(host.pinned.missing)
    return host


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A running server and a home."""
    home = Home(tmp_path / "home")
    home.project.mkdir(parents=True)
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state) as server:
        yield Scene(server, home, await server.seat("Ops"), await server.person())
