"""Fixtures of delegations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.clocks import FakeClock
from testing.delegation_entrances import NAMES, Entrance, Giving, tested_entrances
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import running


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A server that sends its agents instructions."""
    net = PushNetwork()
    told: dict[str, Any] = {"push_instructions_enabled": True, "instruction_adaptive": True}
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, **told) as server:
        yield MessageWorld(server, await server.person(), clock, net)


@pytest.fixture(params=NAMES)
def entrance(request: pytest.FixtureRequest) -> Entrance:
    """Each entrance in turn."""
    (found,) = [each for each in tested_entrances() if each.name == request.param]
    return found


@pytest.fixture
async def giving(entrance: Entrance, world: MessageWorld) -> AsyncIterator[Giving]:
    """The world through each entrance in turn."""
    through = Giving(world, entrance)
    yield through
    await through.close()
