"""A server with a stand-in for its network. The test moves the time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import PushNetwork
from testing.running_server import running
from tests.messages.delivery.push_server import URL, PushServer


@pytest.fixture
def limits() -> Limits:
    """The usual ones; a test module may have its own."""
    return Limits()


@pytest.fixture
async def post(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, limits: Limits
) -> AsyncIterator[PushServer]:
    """A server with one push agent, which is not there yet."""
    net = PushNetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, limits=limits) as server:
        ops = await server.seat("Ops", delivery_mode="push", url=URL)
        yield PushServer(server, await server.person(), clock, net, ops)
