"""Fixtures of A2A: a server whose agents a test plays by hand, and a client of A2A."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import running


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A server that sends its agents instructions."""
    net = PushNetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, push_instructions_enabled=True) as server:
        yield MessageWorld(server, await server.person(), clock, net)
