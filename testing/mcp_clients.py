"""Hosts of the endpoint: the official SDK's client in both eras, and requests written by hand."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

import httpx2
import msgspec
from anyio.lowlevel import checkpoint
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from molecule_core.common.limits import Limits
from testing.live_clients import HandMade, hand_made, streaming
from testing.raw_http import Reply, Wire, request, wire
from testing.running_server import UNHURRIED, Running, Seat
from testing.waits import IN_PROCESS_SECONDS, bounded

Era = Literal["handshake", "stateless"]
ERAS: tuple[Era, ...] = ("handshake", "stateless")
_MODES = {"handshake": "legacy", "stateless": "auto"}
STATELESS = "2026-07-28"
LATEST = "2025-11-25"
BOTH_KINDS = "application/json, text/event-stream"
_numbers = itertools.count(1)


def within(**limits: int) -> Limits:
    """Small limits for a server that otherwise hurries nobody."""
    return msgspec.structs.replace(UNHURRIED, **limits)


async def until(what: Callable[[], bool]) -> None:
    """Until something is so, which other tasks bring about."""
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while not what():
            await checkpoint()


async def until_answering(server: Running, count: int) -> None:
    """Until so many requests of MCP are being answered, or streams stand open."""
    await until(lambda: len(server.server.mcp_routes.open_responses) == count)


async def until_kept(server: Running, count: int) -> None:
    """Until so many sessions are kept."""
    await until(lambda: len(server.server.mcp_routes.sessions) == count)


def path_of(seat: Seat) -> str:
    """The endpoint's address of one workspace."""
    return f"/workspaces/{seat.id}/mcp"


class Hosted:
    """A client of the official SDK that is connected. Every wait is bounded."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """What a tool gives. A refusal is a failure of the test."""
        result = await self.result(tool, meta=meta, **arguments)
        assert not result.is_error, result
        found: dict[str, Any] = result.structured_content
        return found

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The text with which a tool must refuse."""
        result = await self.result(tool, **arguments)
        assert result.is_error, result
        return str(result.content[0].text)  # type: ignore[union-attr]

    async def result(self, tool: str, /, meta: dict[str, Any] | None = None, **arguments: Any) -> CallToolResult:
        """The whole result."""
        return await bounded(self.client.call_tool(tool, arguments, meta=meta))  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def hosted(
    server: Running, token: str, era: Era, path: str = "/mcp", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Hosted]:
    """The official SDK's client at an address of the endpoint, with nothing but a token."""
    sent = {"Authorization": f"Bearer {token}"} if headers is None else headers
    # 20 ms of CPU for each client: reading all certificates of the machine, which an http address need not pay.
    tls = server.url.startswith("https:")
    async with httpx2.AsyncClient(headers=sent, timeout=IN_PROCESS_SECONDS * 6, verify=tls) as http:
        transport = streamable_http_client(server.url + path, http_client=http)
        async with Client(transport, mode=_MODES[era]) as client:
            yield Hosted(client)


# -- by hand -----------------------------------------------------------------------------------------------------------


def rpc(method: str, params: dict[str, Any] | None = None, *, id_: Any = None) -> dict[str, Any]:
    """A request; its id is a new one."""
    return {"jsonrpc": "2.0", "id": next(_numbers) if id_ is None else id_, "method": method, "params": params or {}}


def told(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def greeting(version: str = LATEST) -> dict[str, Any]:
    """What a client of the first era begins with."""
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    return rpc("initialize", about)


def calling(tool: str, arguments: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A call of a tool."""
    return rpc("tools/call", {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})})


def stateless(method: str, params: dict[str, Any] | None = None, version: str = STATELESS) -> dict[str, Any]:
    """A request of the second era."""
    given = dict(params or {})
    key = "io.modelcontextprotocol/"
    envelope = {f"{key}protocolVersion": version, f"{key}clientCapabilities": {}, **given.pop("_meta", {})}
    return rpc(method, {**given, "_meta": envelope})


def headers_of(message: Any, session: str | None = None, **more: str) -> dict[str, str]:
    """The headers that belong to a message."""
    found = {"Content-Type": "application/json", "Accept": BOTH_KINDS}
    envelope = message.get("params", {}).get("_meta", {}) if isinstance(message, dict) else {}
    version = envelope.get("io.modelcontextprotocol/protocolVersion")
    if version is not None:
        found |= {"MCP-Protocol-Version": version, "Mcp-Method": message["method"]}
        named = next((each for each in ("name", "uri", "taskId") if each in message["params"]), None)
        if named is not None:
            found["Mcp-Name"] = message["params"][named]
    if session is not None:
        found["Mcp-Session-Id"] = session
    return {**found, **{name.replace("_", "-"): value for name, value in more.items()}}


class Line:
    """One client by hand: a token, an address, and, in the first era, its session."""

    def __init__(self, server: Running, token: str, path: str) -> None:
        self.server = server
        self.token = token
        self.path = path
        self.session: str | None = None

    async def post(self, message: Any, connection: Wire | None = None, **headers: str) -> Reply:
        """Sends a message and reads the answer."""
        data = self.bytes_of(message, **headers)
        if connection is not None:
            await connection.send(data)
            return await connection.reply()
        async with wire(self.server.port) as own:
            await own.send(data)
            return await own.reply()

    def bytes_of(self, message: Any, **headers: str) -> bytes:
        """The request that carries a message."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = headers_of(message, self.session, **headers)
        return request("POST", self.path, data, token=self.token, headers={k: v for k, v in sent.items() if v})

    async def begin(self, version: str = LATEST) -> Reply:
        """Begins a session."""
        self.session = None
        reply = await self.post(greeting(version))
        assert reply.status == 200, reply
        self.session = reply.headers["mcp-session-id"]
        assert (await self.post(told("notifications/initialized"))).status == 202
        return reply

    async def ask(self, method: str, **headers: str) -> Reply:
        """A request without a body."""
        sent = {"Accept": "text/event-stream", **({} if self.session is None else {"Mcp-Session-Id": self.session})}
        async with wire(self.server.port) as own:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            await own.send(request(method, self.path, token=self.token, headers={**sent, **named}))
            return await own.reply()


def line_of(server: Running, seat: Seat, path: str | None = None) -> Line:
    """A client by hand with the token of a seat."""
    return Line(server, seat.token, path_of(seat) if path is None else path)


@contextlib.asynccontextmanager
async def listening(line: Line, **headers: str) -> AsyncIterator[HandMade]:
    """The standing stream of a session, whose head has been read."""
    assert line.session is not None
    async with streaming(line.server, line.path, line.token, Mcp_Session_Id=line.session, **headers) as opened:
        yield opened


@contextlib.asynccontextmanager
async def answering(line: Line, message: Any, *, reads: int | None = None, **headers: str) -> AsyncIterator[HandMade]:
    """A connection on which a message was sent, and nothing read yet."""
    async with hand_made(line.server, reads=reads) as opened:
        await opened.send(line.bytes_of(message, **headers))
        yield opened
