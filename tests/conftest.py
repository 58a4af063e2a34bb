"""Fixtures that every folder may use: an engine, a store on it, a running server on it."""

import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from molecule_core.store.database import Store
from testing.canvas.browser_binary import find_browser
from testing.canvas.browser_process import browsing
from testing.clocks import FakeClock
from testing.engines import ENGINES, Engine, databases_dropped, open_store, postgres_server, prepared_place_for
from testing.running_server import Running, running
from tests.long import lies_in_long_file, long_items, missing_paths, usual_items
from tests.polling_agent import PollingAgent

# Property tests have no deadline: a slow machine is not a failure.
settings.register_profile("molecule", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("molecule")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all` and `--exhaustive`."""
    parser.addoption("--all", action="store_true", help="also run the tests that take long (tests/long.py)")
    parser.addoption("--exhaustive", action="store_true", help="run all tests in all variations: two hours")


def pytest_configure(config: pytest.Config) -> None:
    """Unless --exhaustive was given, play random tests half as long, and fork `molecule`. Refuse paths of long tests
    that do not exist: a renamed file would become part of each usual run."""
    if not config.getoption("--exhaustive"):
        os.environ.setdefault("MOLECULE_TEST_STEPS", "150")
        os.environ["MOLECULE_TEST_FORKS"] = "1"  # testing/forked_processes.py
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureNames(config))
    if missing := missing_paths():
        raise pytest.UsageError(f"tests/long.py names {', '.join(missing)}, which do not exist. Correct the list.")


class FailureNames:
    """Writes the name of a test as soon as it fails: a run that is ended before its summary would not name it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write it where the results of all processes come together."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the collector of cycles away from what lives as long as the run: the tests, half a million objects, and
    each module that they import. It would take a tenth of the CPU to look at them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the options do not ask for, and begin with files that take minutes: one that began last would run
    alone at the end."""
    if not config.getoption("--exhaustive"):
        chosen = long_items(items) if config.getoption("--all") else usual_items(items)
        config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
        items[:] = chosen
    items.sort(key=lambda each: not lies_in_long_file(each))


@pytest.fixture
def anyio_backend() -> str:
    """Molecule runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of this test run."""
    yield from postgres_server()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which a Chromium of this test run takes orders."""
    program = find_browser()
    if program is None:
        if os.environ.get("CI") or os.environ.get("MOLECULE_INTEROP") == "required":
            pytest.fail("there is no browser on this machine; scripts/browser gets one")
        pytest.skip("no browser: install Chromium, or set MOLECULE_BROWSER to the path of one")
    with browsing(program, tmp_path_factory.mktemp("profile")) as address:
        yield address


@pytest.fixture(autouse=True)
def databases_go() -> Iterator[None]:
    """Nothing of a test stays in the PostgreSQL server of the run."""
    with databases_dropped():
        yield


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture
async def place(engine: Engine, tmp_path: Path, postgres: str) -> str:
    """Where a new store may live. (tests/store has empty places, and opens them first.)"""
    return await prepared_place_for(engine, tmp_path, postgres)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock()


@pytest.fixture
async def store(engine: Engine, place: str, clock: FakeClock) -> AsyncIterator[Store]:
    """An open, empty store."""
    store = open_store(engine, place, clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that listens on a loopback port, with a real clock."""
    async with running(engine, place, tmp_path) as running_server:
        yield running_server


@pytest.fixture
async def poller(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[PollingAgent]:
    """A polling agent on a server whose time only the test moves."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield PollingAgent(await server.seat("Ops"), await server.person(), clock, server)
