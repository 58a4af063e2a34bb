"""Servers that tell agents how to answer, with their time in the test's hand, on both engines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running
from tests.instructions.instructed_agent import InstructedAgent, Telling
from tests.instructions.template_trials import TemplateTrial


@pytest.fixture
def telling(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> Telling:
    """Opens a server with these settings and an agent; the layer is on unless they say otherwise."""

    @asynccontextmanager
    async def open_desk(runtime: str = "claude-code", seat: dict[str, Any] | None = None, **settings: Any) -> Any:
        usual = {"push_instructions_enabled": True, "public_url": "https://molecule.example"}
        more = {"allowed_hosts": ("127.0.0.1",), **usual, **settings}
        async with running(engine, place, tmp_path, clock=clock, **more) as server:
            own = await server.seat("Ops", runtime=runtime, **(seat or {}))
            peer = await server.seat("Lead", role="leads")
            agent = InstructedAgent(server, own, peer, await server.person(), clock)
            await agent.register()
            yield agent

    return open_desk


@pytest.fixture
async def agent(telling: Telling) -> AsyncIterator[InstructedAgent]:
    """An agent of a deployment that has switched the layer on and nothing else."""
    async with telling() as opened:
        yield opened


@pytest.fixture
async def trial(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[TemplateTrial]:
    """With the gate open and the adaptive form, as `molecule up` has it."""
    async with running(
        engine, place, tmp_path, clock=clock, push_instructions_enabled=True, instruction_adaptive=True
    ) as server:
        yield TemplateTrial(server, await server.person("owner"), clock)
