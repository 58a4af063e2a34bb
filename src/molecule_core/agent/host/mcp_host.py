"""Presents the agent to its MCP host: name, tools, instructions.

Light; a call waits until the runtime is loaded.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.agent.config import Configuration
from molecule_core.agent.host.detection import runtime_of
from molecule_core.client.host_context_file import HostContextFile
from molecule_core.common.version import VERSION
from molecule_core.tools import docs
from molecule_core.tools.host_context import render_host_contexts
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.mcp_features import CallerWorkspace
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import ToolSpec
from molecule_core.wire.schemas.runtimes import Runtime


class ToolWorker(Protocol):
    """Runner of tools, loaded after the handshake."""

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool. Raises ToolError."""

    def caller_workspaces(self) -> tuple[CallerWorkspace, ...]:
        """Return the workspaces of the agent."""


class AgentHost:
    """A `ToolHost` of the MCP dispatcher. `client`: returns what the connected host reported about itself."""

    name = "molecule"
    version = VERSION

    def __init__(self, config: Configuration) -> None:
        self.client: Callable[[], dict[str, Any]] = dict
        self._config = config
        self._worker: asyncio.Future[ToolWorker] = asyncio.get_running_loop().create_future()

    @property
    def instructions(self) -> str:
        """Return the server instructions, with the tool names as this host's model knows them."""
        return docs.server_instructions(
            runtime_of(self.client()),
            several=not self._config.single,
            workspace_ids=[workspace.id for workspace in self._config.workspaces],
            poll_seconds=self._config.settings.poll_timeout_secs,
        )

    async def load_instructions(self) -> str:
        """Return the instructions, then the surroundings of the workspaces as of the last contact with the server.

        The host is answered before the server is reached: a start must not wait for a network."""
        state, workspaces = self._config.state, self._config.workspaces
        copies = [HostContextFile.of_workspace(each.id, each.token_file, state).read() for each in workspaces]
        contexts = [each for each in copies if each is not None]
        text = self.instructions
        left = self._config.settings.instruction_length - len(text) - 2
        surroundings = render_host_contexts(contexts, runtime_of(self.client()), left) if contexts else ""
        return f"{text}\n\n{surroundings}" if surroundings else text

    def tools(self) -> Sequence[ToolSpec]:
        """Return all tools, always in the same order."""
        return TOOLS

    def set_worker(self, worker: ToolWorker) -> None:
        """Set the worker; waiting and later calls are served by it."""
        self._worker.set_result(worker)

    def set_failed(self, error: Exception) -> None:
        """Fail waiting and later calls with `error`: there will be no worker."""
        if not self._worker.done():
            self._worker.set_exception(error)
            self._worker.exception()  # marks it as retrieved: callers get it, and asyncio must not log it

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool. Raises ToolError."""
        worker = await asyncio.shield(self._worker)
        return await worker.call(spec, arguments, context)

    async def caller_workspaces(self) -> tuple[CallerWorkspace, ...]:
        """Return the workspaces of the agent."""
        worker = await asyncio.shield(self._worker)
        return worker.caller_workspaces()

    def runtime(self) -> Runtime:
        """Return the program that the tools are named for."""
        return runtime_of(self.client())

    def card(self) -> dict[str, Any]:
        """Return the agent's card from its environment, with the number of tools as a sign that it is connected."""
        fields: dict[str, Any] = {"name": self._config.name, "description": self._config.description}
        fields["skills"] = [{"id": name, "name": name} for name in self._config.skills]
        return {**{name: value for name, value in fields.items() if value}, "tools": len(TOOLS)}
