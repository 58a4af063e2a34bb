"""A small internet, and what a fetch is given where a test does not care."""

from collections.abc import AsyncIterator

import pytest

from testing.loopback_internet import Internet, internet


@pytest.fixture
async def net() -> AsyncIterator[Internet]:
    """The small internet, whose honest servers answer 200."""
    async with internet() as found:
        yield found
