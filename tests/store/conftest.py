"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine, place_for
from tests.store.instrumented_store import Bench, bench_on


@pytest.fixture
async def place(engine: Engine, tmp_path: Path, postgres: str) -> str:
    """Where a store is made from nothing."""
    return await place_for(engine, tmp_path, postgres)


@pytest.fixture
async def bench(engine: Engine, place: str, clock: FakeClock) -> AsyncIterator[Bench]:
    """An open, empty store with its groups and rings on record."""
    async with bench_on(engine, place, clock=clock) as bench:
        yield bench
