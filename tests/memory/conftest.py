"""Fixtures of memory."""

from collections.abc import Iterator

import pytest

from testing.engines import ENGINES
from testing.machines.memory_store import World, world_on


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A world on each engine; every test brings its own organisation."""
    with world_on(request.param, tmp_path_factory.mktemp("world"), postgres) as world:
        yield world
