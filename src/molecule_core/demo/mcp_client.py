"""A client of an MCP server that is a process on this machine: starts it, shakes hands, calls its tools.

Above: hosted. Below: the protocol, in lines of JSON-RPC on the process's standard input and output. (The protocol's
official client for Python is a test dependency and not one of the product's: it brings thirty packages.)
"""

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
# A server that has lost its input ends by itself; one that hangs must not hold up the end of all.
_END_SECONDS = 2.0


class ToolCallError(Exception):
    """A tool said no; the text is what it said."""


class McpServerEndedError(Exception):
    """The server's process has ended."""


class McpServerProcess:
    """A server that runs, and has been greeted."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._has_ended = False

    async def initialize(self, name: str) -> None:
        """The handshake. Raises ServerEnded."""
        client = {"name": name, "version": "1"}
        await self._request("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})
        self._write_message({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call_tool(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool gives back. Raises ToolRefused, ServerEnded."""
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
        """Hands every answer to whoever waits for it, until the server ends, or says what is no answer; from then on
        nobody waits any more."""
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                message = json.loads(line)
                waiting = self._waiting.get(message.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except ValueError as error:  # no JSON, or a line without end
            sys.stderr.write(f"the MCP server said what is no message: {error}\n")
        finally:
            self._has_ended = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(McpServerEndedError())


@asynccontextmanager
async def start_mcp_server(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[McpServerProcess]:
    """Starts a server and greets it; at the end of the block it ends. What it logs goes where ours goes."""
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
