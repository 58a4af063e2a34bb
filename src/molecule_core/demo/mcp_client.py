"""Client of an MCP server that runs as a local process, in lines of JSON-RPC on its stdin and stdout.

The official MCP client for Python is only a test dependency, since it brings thirty packages."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from molecule_core.demo.shutdown import wait_or_kill

_VERSION = "2025-11-25"
_MAX_LINE_BYTES = 16 << 20
# 2 s: a server ends when its input does; one that hangs must not delay shutdown.
_END_SECONDS = 2.0


class ToolCallError(Exception):
    """A tool returned an error; the message is its text."""


class McpServerEndedError(Exception):
    """The server's process has ended."""


class McpServerProcess:
    """A running MCP server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._has_ended = False

    async def initialize(self, name: str) -> None:
        """Perform the handshake. Raises McpServerEndedError."""
        client = {"name": name, "version": "1"}
        await self._request("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})
        self._write_message({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call_tool(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result. Raises ToolCallError, McpServerEndedError."""
        result = await self._request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ToolCallError(" ".join(str(part.get("text", "")) for part in result.get("content", [])))
        found: dict[str, Any] = result["structuredContent"]
        return found

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._has_ended:
            raise McpServerEndedError
        id_ = next(self._ids)
        pending = self._waiting[id_] = asyncio.get_running_loop().create_future()
        try:
            self._write_message({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            response = await pending
        finally:
            del self._waiting[id_]
        if "error" in response:
            raise ToolCallError(str(response["error"].get("message", response["error"])))
        found: dict[str, Any] = response["result"]
        return found

    def _write_message(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def read_responses(self) -> None:
        """Read responses and resolve their requests, until the server ends or writes an invalid line.

        All requests that are pending then fail."""
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                message = json.loads(line)
                waiting = self._waiting.get(message.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except ValueError as error:  # not JSON, or a line without end
            sys.stderr.write(f"the MCP server sent an invalid message: {error}\n")
        finally:
            self._has_ended = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(McpServerEndedError())


@asynccontextmanager
async def start_mcp_server(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[McpServerProcess]:
    """Start a server and perform the handshake; stop it at the end of the block. It shares our stderr."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, env=dict(environment), limit=_MAX_LINE_BYTES
    )
    server = McpServerProcess(process)
    reader_task = asyncio.create_task(server.read_responses())
    try:
        await server.initialize("molecule-demo")
        yield server
    finally:
        reader_task.cancel()
        assert process.stdin is not None
        process.stdin.close()
        await wait_or_kill(process, _END_SECONDS)
