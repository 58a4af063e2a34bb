"""Fixtures that every folder may use: an engine, a store on it, a running server on it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from molecule_core.store.database import Store
from tests.clocks import FakeClock
from tests.engines import ENGINES, Engine, databases_dropped, open_store, postgres_server, prepared_place_for
from tests.long import is_long, lies_in_long_file, missing_paths
from tests.running import Running, running


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`."""
    parser.addoption("--all", action="store_true", help="also run the tests that take long (tests/long.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse paths of long tests that do not exist: a renamed file would become part of each usual run."""
    if missing := missing_paths():
        raise pytest.UsageError(f"tests/long.py names {', '.join(missing)}, which do not exist. Correct the list.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests unless --all was given, and begin with files that take minutes: one that began last would
    run alone at the end."""
    if not config.getoption("--all"):
        left_out = [each for each in items if is_long(each)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if not is_long(each)]
    items.sort(key=lambda each: not lies_in_long_file(each))


@pytest.fixture
def anyio_backend() -> str:
    """Molecule runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of this test run."""
    yield from postgres_server()


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
