"""A server with a seat, a person who has written to it, and a host's throw-away home."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.hosts import HOSTS, Home, RealHost
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.scene import Scene, Sitting, sitting
from tests.running import Running, running


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
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server; what it keeps its data in is not what these tests are about."""
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state) as server:
        yield server


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[Sitting]:
    """A seat on another server, in an organisation that knows nothing of the first."""
    state = tmp_path / "elsewhere"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state, seed=1) as server:
        yield await sitting(server)


@pytest.fixture
async def scene(host: RealHost, server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """A seat of that server, a person, and a home in which the host was used before, without us."""
    home = Home(tmp_path / "home")
    home.project.mkdir(parents=True)
    async with listening(Endpoint(host.dialect())) as endpoint:
        host.settle(home, endpoint)
        yield Scene(host, home, endpoint, await sitting(server))
