"""Drivers of the scripted agent that has one fault."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from molecule_core.agent.bridges.acp.driver import AcpDriver
from molecule_core.agent.bridges.process_runner import ProcessStarter
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.common.clock import SystemClock

AGENT = Path(__file__).resolve().parents[3] / "testing" / "faulty_acp_agent.py"


class ListPeers:
    """A tool of the platform."""

    name = "list_peers"
    description = "List the peers."
    always_load = False
    input_schema: Mapping[str, Any] = MappingProxyType({"type": "object", "properties": {}})


def agent_command(fault: str, folder: Path) -> tuple[str, ...]:
    """What starts the agent; its sessions are in the folder."""
    (folder / "sessions").mkdir(exist_ok=True)
    return (sys.executable, str(AGENT), fault, str(folder / "sessions"))


def prompts(folder: Path) -> list[str]:
    """All prompts that the agent has had, also over restarts."""
    file = folder / "sessions" / "prompts"
    return [msgspec.json.decode(line, type=str) for line in file.read_bytes().splitlines()] if file.exists() else []


@asynccontextmanager
async def driving(fault: str, folder: Path, **wishes: float) -> AsyncIterator[AcpDriver]:
    """A driver of the agent, until the block ends."""
    settings = BridgeSettings(**{"end_seconds": 1, "stop_seconds": 1, **wishes})  # type: ignore[arg-type]
    environment = {"PATH": os.defpath}
    starter = ProcessStarter(agent_command(fault, folder), environment, folder, clock=SystemClock(), settings=settings)
    driver = AcpDriver(
        starter, [ListPeers()], slot="w-1", clock=SystemClock(), settings=settings, environment=environment
    )
    try:
        yield driver
    finally:
        await driver.close()
