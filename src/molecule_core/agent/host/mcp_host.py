"""What a host of MCP sees first: name, tools, instructions. Light; a call waits until the heavy half is loaded.

Above: main. Below: the registry of tools and what is said about it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.agent.config import Configuration
from molecule_core.agent.host.detection import runtime_of
from molecule_core.common.version import VERSION
from molecule_core.tools import docs
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import ToolSpec


class ToolWorker(Protocol):
    """The heavy half: runs tools."""

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Runs a tool. Raises ToolError."""


class AgentHost:
    """A Host of wire.mcp. `client` tells what the host on the other side said of itself."""

    name = "molecule"
    version = VERSION

    def __init__(self, config: Configuration) -> None:
        self.client: Callable[[], dict[str, Any]] = dict
        self._config = config
        self._worker: asyncio.Future[ToolWorker] = asyncio.get_running_loop().create_future()

    @property
    def instructions(self) -> str:
        """The convention, with the tools' names as this host's model knows them."""
        return docs.server_instructions(
            runtime_of(self.client()),
            several=not self._config.single,
            workspace_ids=[workspace.id for workspace in self._config.workspaces],
            poll_seconds=self._config.settings.poll_timeout_secs,
        )

    def tools(self) -> Sequence[ToolSpec]:
        """All of them, always in the same order."""
        return TOOLS

    def set_worker(self, worker: ToolWorker) -> None:
        """From now on calls are served; those that came before are too."""
        self._worker.set_result(worker)

    def set_failed(self, error: Exception) -> None:
        """There will be no worker; every call is told so."""
        if not self._worker.done():
            self._worker.set_exception(error)
            self._worker.exception()  # it is told to whoever calls, and to nobody else

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Runs a tool. Raises ToolError."""
        worker = await asyncio.shield(self._worker)
        return await worker.call(spec, arguments, context)

    def card(self) -> dict[str, Any]:
        """What the agent says of itself when it takes a seat: as far as its environment says it, and how many tools it
        was given, by which people see that it is really connected."""
        fields: dict[str, Any] = {"name": self._config.name, "description": self._config.description}
        fields["skills"] = [{"id": name, "name": name} for name in self._config.skills]
        return {**{name: value for name, value in fields.items() if value}, "tools": len(TOOLS)}
