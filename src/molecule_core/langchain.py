"""The platform's tools as LangChain objects, made from the registry. Needs the optional extra `langchain`.

    from molecule_core.langchain import tools
    agent = create_agent(model, tools())

Above: a program that uses LangChain or LangGraph. Below: the registry, and the caller that runs its tools.
"""

import asyncio
import importlib.metadata
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import msgspec
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from molecule_core.agent.config import Configuration, SeatConfig, read_configuration
from molecule_core.agent.speaking import Speaker
from molecule_core.client.api import Api
from molecule_core.client.calling import Caller
from molecule_core.client.claiming import Seat
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.ids import Ids, SystemRandomness
from molecule_core.ground.settings import environment
from molecule_core.wire.tools import TOOLS
from molecule_core.wire.toolspec import ToolError, ToolSpec

# Longer than the longest poll that a tool makes, so that a silent answer is the server's doing and not ours.
_PATIENCE_SECONDS = 60.0


def tools(environ: Mapping[str, str] | None = None) -> list[BaseTool]:
    """All tools, as the workspaces that the environment names (WORKSPACE_ID and its fellows, or MOLECULE_WORKSPACES),
    for a program that runs until it ends; one that goes on without them takes a Toolkit and closes it.

    Raises BadConfiguration if the environment does not say who calls."""
    return Toolkit(environ).tools


class Toolkit:
    """The tools, their connections, and a thread for both: LangChain calls a tool from whatever loop or thread it
    likes, while connections belong to one loop. A context manager."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Raises BadConfiguration."""
        self._configuration = read_configuration(environment() if environ is None else environ)
        self._clock = SystemClock()
        self._randomness = SystemRandomness()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="molecule-tools", daemon=True)
        self._stack = AsyncExitStack()
        self._caller: Caller | None = None
        self._thread.start()
        self.tools: list[BaseTool] = [_tool(spec, self._run) for spec in TOOLS]

    def __enter__(self) -> "Toolkit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections and thread; calls that are under way end with an error."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._caller is not None:
            await self._caller.close()
        await self._stack.aclose()

    def _run(self, spec: ToolSpec, given: dict[str, Any]) -> Future[dict[str, Any]]:
        """A call on the toolkit's own loop, to be waited for from any other place."""
        return asyncio.run_coroutine_threadsafe(self._call(spec, given), self._loop)

    async def _call(self, spec: ToolSpec, given: dict[str, Any]) -> dict[str, Any]:
        if self._caller is None:
            self._caller = self._connected(self._configuration)
        try:
            return await self._caller.call(spec, spec.arguments(given))
        except ToolError as error:
            raise ToolException(error.text) from None

    def _connected(self, configuration: Configuration) -> Caller:
        return Caller(
            [self._seat(each) for each in configuration.seats],
            clock=self._clock,
            ids=Ids(self._clock, self._randomness),
            runtime="langchain",
            version=importlib.metadata.version("molecule-core"),
            lease=configuration.wishes.lease_seconds,
        )

    def _seat(self, seat: SeatConfig) -> Seat:
        api = Api(seat.url, seat.token, seconds=_PATIENCE_SECONDS)
        self._stack.push_async_callback(api.close)
        return Seat(seat.id, seat.url, Speaker(api, clock=self._clock, randomness=self._randomness))


_Run = Callable[[ToolSpec, dict[str, Any]], Future[dict[str, Any]]]


def _tool(spec: ToolSpec, run: _Run) -> BaseTool:
    """A tool: the model reads the result as JSON, the program has it as the artifact; a refusal is a result too."""

    def call(**given: Any) -> tuple[str, dict[str, Any]]:
        return _told(run(spec, given).result())

    async def acall(**given: Any) -> tuple[str, dict[str, Any]]:
        return _told(await asyncio.wrap_future(run(spec, given)))

    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=spec.input_schema,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _told(result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return msgspec.json.encode(result).decode(), result
