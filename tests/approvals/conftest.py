"""Fixtures of approvals."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.approval_world import ApprovalWorld
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import running


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[ApprovalWorld]:
    """A server, a person, and the time in the test's hand."""
    async with running(engine, place, tmp_path, clock=clock, push_instructions_enabled=True) as server:
        yield ApprovalWorld(server, await server.person(), clock)
