"""A server with a seat, a person who has written to it, and a host's throw-away home."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE, CODEX_CLI, HOSTS, RealHost
from tests.interop.scene import Scene, Sitting, sitting, staged


@pytest.fixture(params=HOSTS, ids=[each.name for each in HOSTS])
def host(request: pytest.FixtureRequest) -> RealHost:
    """Each real host in turn."""
    return require(request.param)


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
    """A seat of that server, a person, and a home for the host."""
    async with staged(host, tmp_path / "home", await sitting(server)) as scene:
        yield scene


@pytest.fixture
async def lead(server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """Claude Code in a seat of that server."""
    async with staged(require(CLAUDE), tmp_path / "lead", await sitting(server, "Lead")) as scene:
        yield scene


@pytest.fixture
async def worker(server: Running, lead: Scene, tmp_path: Path) -> AsyncIterator[Scene]:
    """Codex in a seat below that one."""
    below = await sitting(server, "Worker", parent_id=lead.ops.seat.id)
    async with staged(require(CODEX_CLI), tmp_path / "worker", below) as scene:
        yield scene


@pytest.fixture
async def page(chromium: str) -> AsyncIterator[Page]:
    """A page of a person's browser."""
    async with async_playwright() as driver:
        browser = await driver.chromium.connect_over_cdp(chromium)
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(PROCESS_START_SECONDS * 1000)
        yield await context.new_page()
        await context.close()
