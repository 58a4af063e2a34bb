"""A real browser on a real server: Chromium is started once, each test has a context of its own.

Whatever a test does, its pages must have said nothing on the console that is an error, broken no rule of the content
security policy, and asked nobody but the server: that is checked at the end of each.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from testing.canvas.company import Stage, staged
from testing.canvas.page_user import Desk
from testing.running_server import running
from tests.canvas.delegation_actions import ENTRANCES, Begin


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """For this whole folder, so that its tests share one driver: to start it takes half a second of CPU."""
    return "asyncio"


@pytest.fixture(scope="package")
async def browser(chromium: str, anyio_backend: str) -> AsyncIterator[Browser]:
    """The browser, as the driver of these tests sees it."""
    async with async_playwright() as driver:
        yield await driver.chromium.connect_over_cdp(chromium)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A server with a small company of agents, all online."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield await staged(server)


@pytest.fixture
async def desk(browser: Browser, stage: Stage) -> AsyncIterator[Desk]:
    """A person at the page of that company, not logged in yet."""
    desk = Desk(browser, stage)
    yield desk
    await desk.close()


@pytest.fixture
async def empty_desk(browser: Browser, tmp_path: Path) -> AsyncIterator[Desk]:
    """A person at the page of an organisation in which nobody works yet."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        desk = Desk(browser, Stage(server))
        yield desk
        await desk.close()


@pytest.fixture(params=["http", *(pytest.param(each, marks=pytest.mark.long) for each in ENTRANCES if each != "http")])
async def begin(request: pytest.FixtureRequest, stage: Stage) -> AsyncIterator[Begin]:
    """Each way in which an agent gives work to another one. The page shows all alike: a usual run has more than the
    first only where a test says so."""
    async with ENTRANCES[request.param]() as begin:
        yield begin
