"""Fixtures of budgets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.budgets import BudgetWorld
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import PushNetwork
from testing.running_server import running


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[BudgetWorld]:
    """A server, an operator, and the time in the test's hand."""
    network = PushNetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=network) as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        yield BudgetWorld(server, await server.person(), clock, network, org_id)
