"""A server that tells its agents how to answer, with its time in the test's hand."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clocks import FakeClock
from tests.engines import Engine
from tests.measuring.trials import House
from tests.running import running


@pytest.fixture
async def house(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """With the gate open and the adaptive form, as `molecule up` has it."""
    async with running(
        engine, place, tmp_path, clock=clock, push_instructions_enabled=True, instruction_adaptive=True
    ) as server:
        yield House(server, await server.person("owner"), clock)
