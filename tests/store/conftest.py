"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.clocks import FakeClock
from tests.engines import Engine
from tests.store.bench import Bench, bench_on


@pytest.fixture
async def bench(engine: Engine, place: str, clock: FakeClock) -> AsyncIterator[Bench]:
    """An open, empty store with its groups and rings on record."""
    async with bench_on(engine, place, clock=clock) as bench:
        yield bench
