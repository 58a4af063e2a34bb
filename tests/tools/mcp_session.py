"""A client of the dispatcher in the test's own process, and a host whose tools do what a test tells them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.tools.mcp_dispatcher import (
    CAPABILITIES_KEY,
    VERSION_KEY,
    CallContext,
    McpClientSession,
    SessionMode,
    ToolResult,
)
from molecule_core.tools.mcp_features import Changes
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import ToolError, ToolSpec
from testing.waits import IN_PROCESS_SECONDS

Act = Callable[[ToolSpec, Struct, CallContext], Awaitable[ToolResult]]


async def echo(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
    """A tool that says how it was called."""
    return ToolResult({"tool": spec.name, "given": msgspec.to_builtins(arguments)})


class TellingHost:
    """A host of the registry's tools; `act` does their work."""

    def __init__(self, act: Act = echo, tools: Sequence[ToolSpec] = TOOLS) -> None:
        self.name = "molecule"
        self.version = "0"
        self.instructions = "Answer through these tools."
        self.act = act
        self._tools = tools

    async def load_instructions(self) -> str:
        return self.instructions

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        return await self.act(spec, arguments, calling)


class Talk:
    """A session and what came out of it."""

    def __init__(self, host: TellingHost | None = None, eras: SessionMode = SessionMode.BOTH, **more: Any) -> None:
        self.host = host or TellingHost()
        self.sent: list[dict[str, Any]] = []
        self.faults: list[BaseException] = []
        self.session = McpClientSession(self.host, self._send, mode=eras, on_fault=self.faults.append, **more)
        self._more = asyncio.Event()

    async def _send(self, message: dict[str, Any]) -> None:
        msgspec.json.encode(message)  # whatever goes out can be written
        self.sent.append(message)
        self._more.set()

    async def until(self, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that fits, as soon as it is there."""
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            while True:
                for message in self.sent:
                    if found(message):
                        return message
                self._more.clear()
                await self._more.wait()

    async def begin(self, id_: Any, method: str, params: Any = None) -> None:
        """Sends a request without waiting for its answer."""
        message = {"jsonrpc": "2.0", "id": id_, "method": method}
        await self.session.receive(message if params is None else {**message, "params": params})

    async def answer(self, id_: Any) -> dict[str, Any]:
        """The answer to a request."""
        return await self.until(lambda message: message.get("id") == id_ and "method" not in message)

    async def ask(self, id_: Any, method: str, params: Any = None) -> dict[str, Any]:
        """A request and its answer."""
        await self.begin(id_, method, params)
        return await self.answer(id_)

    async def tell(self, method: str, **params: Any) -> None:
        """A notification."""
        await self.session.receive({"jsonrpc": "2.0", "method": method, "params": params})

    async def call(self, id_: Any, tool: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """What a tool's call gives."""
        params = {"name": tool, "arguments": arguments or {}, "_meta": meta}
        result: dict[str, Any] = (await self.ask(id_, "tools/call", params))["result"]
        return result

    async def greet(self, version: str = "2025-11-25") -> dict[str, Any]:
        """The handshake."""
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = await self.ask("hello", "initialize", hello)
        await self.tell("notifications/initialized")
        result: dict[str, Any] = answer["result"]
        return result


def stateless(version: str = "2026-07-28") -> dict[str, Any]:
    """The `_meta` of a request of the second era."""
    return {VERSION_KEY: version, CAPABILITIES_KEY: {}}


async def no_download(path: str, write: Callable[[bytes], object]) -> str:
    """A workspace that has no files."""
    raise ToolError("file not found", "not_found")


async def no_changes() -> Changes:
    """A workspace in which nothing changes after the beginning."""
    yield frozenset()
