"""Fixtures of the answers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.answers.office import Office
from tests.clocks import FakeClock
from tests.delivery.agents import Desk
from tests.engines import Engine
from tests.running import running


@pytest.fixture
async def office(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    """An office whose agents are told how to answer."""
    net = Desk()
    told: dict[str, Any] = {"push_instructions_enabled": True, "instruction_adaptive": True}
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, **told) as server:
        yield Office(server, await server.person(), clock, net)
