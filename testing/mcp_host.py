"""A host of `molecule mcp`, played by a test: the real command as a process of its own, and lines of JSON-RPC."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from testing.processes import MOLECULE
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually

QUICK = {
    "MOLECULE_MCP_RETRY_SECONDS": "0.05",
    "MOLECULE_MCP_RETRY_MOST_SECONDS": "0.2",
    "MOLECULE_MCP_FOLLOW_SECONDS": "0.05",
}
"""For tests: what a person would not mind waiting for."""
_MOST_LINE = 64 << 20


def environment(state: Path, **own: str) -> dict[str, str]:
    """What the process is told, and nothing of a person's own settings."""
    misleading = ("MOLECULE_", "WORKSPACE_ID", "PLATFORM_URL", "CONFIGS_DIR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(misleading)}
    return {**kept, "CONFIGS_DIR": str(state), **QUICK, **own}


def single(server: Running, seat: Seat) -> dict[str, str]:
    """The environment of an agent with one seat."""
    return {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": server.url}


def several(*places: tuple[Running, Seat]) -> dict[str, str]:
    """The environment of an agent with a list of seats."""
    entries = [{"id": seat.id, "token": seat.token, "platform_url": server.url} for server, seat in places]
    return {"MOLECULE_WORKSPACES": json.dumps(entries)}


class Agent:
    """A running `molecule mcp`, as its host sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Event()
        self._said: list[bytes] = []
        self.notifications: list[dict[str, Any]] = []
        self.strange: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())
        self._hearing = asyncio.create_task(self._hear())
        self.pid = process.pid

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" in message:
                self.notifications.append(message)
            elif message.get("id") in self._waiting:
                self._waiting.pop(message["id"]).set_result(message)
            else:
                self.strange.append(message)
            self._news.set()
        for waiting in self._waiting.values():
            waiting.cancel()

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._said.append(line)
            self._news.set()

    @property
    def said(self) -> str:
        """All of standard error so far."""
        return b"".join(self._said).decode()

    def write(self, data: bytes) -> None:
        """Bytes to its standard input, as they are."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Something that wants no answer."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode() + b"\n")

    def begin(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, "asyncio.Future[dict[str, Any]]"]:
        """A request; its number and its answer to come."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        self.write(json.dumps(message).encode() + b"\n")
        return number, answer

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            message = await self.begin(method, params)[1]
        assert "result" in message, message
        return message["result"]

    async def greet(self, name: str = "test", version: str = "2025-11-25") -> dict[str, Any]:
        """The handshake."""
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        result: dict[str, Any] = await self.request("initialize", about)
        self.notify("notifications/initialized")
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool gives."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result["isError"], result
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text with which a tool is refused."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        assert result["isError"], result
        return str(result["content"][0]["text"])

    async def next(self) -> dict[str, Any]:
        """The next message, fetched as a model does it."""
        waited = await self.call("wait_for_message", timeout_secs=30)
        assert waited["message"] is not None, self.said
        message: dict[str, Any] = waited["message"]
        return message

    async def until(self, found: Callable[["Agent"], bool]) -> None:
        """Until what it said or told is as wanted."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            while not found(self):
                assert not self._hearing.done(), f"it has ended:\n{self.said}"
                self._news.clear()
                await self._news.wait()

    async def hears(self, text: str) -> None:
        """Until it says something on standard error."""
        await self.until(lambda agent: text in agent.said)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        self._process.send_signal(number)

    def close(self) -> None:
        """The host closes its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def ended(self) -> int:
        """Waits for its end; returns its exit code."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            code = await self._process.wait()
            await asyncio.gather(self._hearing, self._reading)
        return code

    async def kill(self) -> None:
        """kill -9."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self.ended()


@contextlib.asynccontextmanager
async def agent(state: Path, *, command: Sequence[str] = (MOLECULE, "mcp"), **own: str) -> AsyncIterator[Agent]:
    """A process; killed at the end of the block if it still runs. `command`: what starts it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(state, **own), limit=_MOST_LINE
    )
    running = Agent(process)
    try:
        yield running
    finally:
        await running.kill()


async def seated(server: Running, *seats: Seat) -> None:
    """Until the server sees an agent in each of these seats."""
    for seat in seats:
        look = partial(server.admin.get, f"/workspaces/{seat.id}")
        await eventually(look, lambda found: found["status"] == "online", PROCESS_START_SECONDS)
