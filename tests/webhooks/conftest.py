"""Fixtures of the tests of webhooks."""

from collections.abc import AsyncIterator

import pytest

from molecule_core.store.database import Store
from testing.clocks import FakeClock
from tests.webhooks.webhook_world import WebhookWorld


@pytest.fixture
async def world(store: Store, clock: FakeClock) -> AsyncIterator[WebhookWorld]:
    """A store without webhooks."""
    world = WebhookWorld(store, clock)
    yield world
    await world.close()
