"""The platform's tools as LangChain tools. Needs the optional extra `langchain`.

    from molecule_core.langchain import tools
    agent = create_agent(model, tools())

Called by programs that use LangChain or LangGraph; calls the tool registry and `ToolRunner`.
"""

import asyncio
import importlib.metadata
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any

import msgspec

from molecule_core.common.extras import install_advice

try:
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ModuleNotFoundError as _error:
    _advice = f"the package langchain_core is not installed. {install_advice('langchain')}"
    raise ModuleNotFoundError(_advice, name=_error.name) from None

from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.config import Configuration, WorkspaceConfig, read_configuration
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.claims import ActingWorkspace
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.settings import environment
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners.file_tools import local_files
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError, ToolSpec
from molecule_core.wire.schemas.agent_cards import LOADED_TOOLS_MEMBER

# Longer than the longest poll of a tool, so that a timeout means that the server does not respond.
_TIMEOUT_SECONDS = 60.0


def tools(environ: Mapping[str, str] | None = None) -> list[BaseTool]:
    """Return all tools, for the workspaces that the environment names (WORKSPACE_ID etc., or MOLECULE_WORKSPACES).

    The connections stay open until the program ends; a program that must close them earlier uses Toolkit. Raises
    ConfigurationError if the environment does not name a workspace."""
    return Toolkit(environ).tools


class Toolkit:
    """The tools, their connections, and a thread with an event loop for both. A context manager.

    LangChain calls a tool from any loop or thread, while connections belong to one loop."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Read the configuration and start the thread. Raises ConfigurationError."""
        self._configuration = read_configuration(environment() if environ is None else environ)
        self._clock = SystemClock()
        self._randomness = SystemRandomness()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="molecule-tools", daemon=True)
        self._stack = AsyncExitStack()
        self._runner: ToolRunner | None = None
        self._apis: list[ApiClient] = []
        self._heartbeats: list[asyncio.Task[None]] = []
        self._thread.start()
        self.tools: list[BaseTool] = [_to_langchain_tool(spec, self._run) for spec in TOOLS]

    def __enter__(self) -> "Toolkit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and thread; calls in progress end with an error."""
        asyncio.run_coroutine_threadsafe(self._close_connections(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close_connections(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._runner is not None:
            await self._runner.close()
        await self._stack.aclose()

    def _run(self, spec: ToolSpec, arguments: dict[str, Any]) -> Future[dict[str, Any]]:
        """Start a call on the toolkit's own loop."""
        return asyncio.run_coroutine_threadsafe(self._call(spec, arguments), self._loop)

    async def _call(self, spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._runner is None:
            self._runner = self._create_runner(self._configuration)
            self._start_heartbeats()
        try:
            return await self._runner.call(spec, spec.parse_arguments(arguments))
        except ToolError as error:
            raise ToolException(error.text) from None

    def _start_heartbeats(self) -> None:
        """Show the workspaces as online from the first call until the toolkit is closed."""
        settings = self._configuration.settings
        if not settings.disable_heartbeat:
            self._heartbeats = [
                asyncio.create_task(self._send_heartbeats(each.id, api, settings.heartbeat_seconds))
                for each, api in zip(self._configuration.workspaces, self._apis, strict=True)
            ]

    async def _send_heartbeats(self, workspace_id: str, api: ApiClient, seconds: float) -> None:
        """Send heartbeats. A lost one is made up by the next; calls of tools report why they fail."""
        body = {"workspace_id": workspace_id, "presence_only": True, LOADED_TOOLS_MEMBER: [spec.name for spec in TOOLS]}
        while True:
            with suppress(NoAnswerError, ApiError):
                await api.post("/registry/heartbeat", body)
            await self._clock.wait(asyncio.get_running_loop().create_future(), seconds)

    def _create_runner(self, configuration: Configuration) -> ToolRunner:
        return ToolRunner(
            [self._connect_workspace(each) for each in configuration.workspaces],
            clock=self._clock,
            ids=IdGenerator(self._clock, self._randomness),
            runtime="langchain",
            version=importlib.metadata.version("molecule-core"),
            lease=configuration.settings.lease_seconds,
            files=local_files(configuration.state),
        )

    def _connect_workspace(self, connection: WorkspaceConfig) -> ActingWorkspace:
        api = ApiClient(connection.url, connection.token, seconds=_TIMEOUT_SECONDS)
        self._stack.push_async_callback(api.close)
        self._apis.append(api)
        return ActingWorkspace(
            connection.id,
            connection.url,
            RetryingRequester(api, BoundedRetry(clock=self._clock, randomness=self._randomness)),
            api,
        )


_RunTool = Callable[[ToolSpec, dict[str, Any]], Future[dict[str, Any]]]


def _to_langchain_tool(spec: ToolSpec, run: _RunTool) -> BaseTool:
    """Convert a tool: the model reads the result as JSON, the program gets it as the artifact.

    A ToolError is a result too."""

    def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _to_content_and_artifact(run(spec, arguments).result())

    async def acall(**arguments: Any) -> tuple[str, dict[str, Any]]:
        return _to_content_and_artifact(await asyncio.wrap_future(run(spec, arguments)))

    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=spec.input_schema,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _to_content_and_artifact(result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return msgspec.json.encode(result).decode(), result
