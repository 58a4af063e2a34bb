"""Servers that share one PostgreSQL."""

import pytest

from testing.engines import Engine, new_database


@pytest.fixture
def engine() -> Engine:
    """Only PostgreSQL takes several processes."""
    return "postgres"


@pytest.fixture
async def place(postgres: str) -> str:
    """A new, empty database."""
    return await new_database(postgres)
