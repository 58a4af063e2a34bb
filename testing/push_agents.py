"""Agents that are pushed to: real ones on loopback, and a fetcher that stays at home."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from molecule_core.common.errors import FetchFailed
from molecule_core.common.net.safe_fetch import Fetcher, FetchResult
from testing.waits import IN_PROCESS_SECONDS

A = TypeVar("A", bound="HttpAgent")
Reply = tuple[int, dict[str, str], bytes]


class Pushed(msgspec.Struct):
    """What an agent was sent."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The words of the message."""
        return str(self.body["params"]["message"]["parts"][0]["text"])

    @property
    def attempt(self) -> int:
        """The hand-over that the server says this is."""
        return int(self.headers["x-molecule-attempt"])

    @property
    def activity(self) -> str:
        """The message's id at the server."""
        return self.headers["x-molecule-activity"]


def said(text: str) -> Reply:
    """An agent's message as its answer."""
    message = {"kind": "message", "role": "agent", "messageId": "a", "parts": [{"kind": "text", "text": text}]}
    return 200, {}, msgspec.json.encode({"jsonrpc": "2.0", "id": "the agent's own", "result": message})


def plain(status: int, headers: dict[str, str] | None = None, **members: Any) -> Reply:
    """Any other answer."""
    return status, headers or {}, msgspec.json.encode(members)


class PushNetwork(Fetcher):
    """Stands where the network is. Each url has an agent: a function from what was pushed to a reply."""

    def __init__(self) -> None:
        self.agents: dict[str, Callable[[Pushed], Awaitable[Reply]]] = {}
        self.pushed: list[Pushed] = []
        self.under_way = 0
        self.most_under_way = 0

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        pushed = Pushed(url, {name.lower(): value for name, value in headers.items()}, msgspec.json.decode(body))
        self.pushed.append(pushed)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            if url not in self.agents:
                raise FetchFailed(reason="nobody there", sent=False, status=None)
            return FetchResult(*await self.agents[url](pushed))
        finally:
            self.under_way -= 1

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        raise FetchFailed(reason="nobody asks", sent=False, status=None)

    async def check_url(self, url: str) -> None:
        """Every url is good."""

    def answers(self, url: str, *replies: Reply) -> None:
        """An agent that gives these replies in turn, and the last one for ever."""
        left = list(replies)

        async def reply(_pushed: Pushed) -> Reply:
            return left.pop(0) if len(left) > 1 else left[0]

        self.agents[url] = reply

    def breaks(self, url: str, reason: str, *, sent: bool, status: int | None = None) -> None:
        """An agent whose connections break: before anything was sent, behind it, or with an answer that is none."""

        async def reply(_pushed: Pushed) -> Reply:
            raise FetchFailed(reason=reason, sent=sent, status=status)

        self.agents[url] = reply

    def hangs(self, url: str) -> asyncio.Event:
        """An agent that answers nobody before the event is set."""
        gate = asyncio.Event()

        async def reply(_pushed: Pushed) -> Reply:
            await gate.wait()
            return said("at last")

        self.agents[url] = reply
        return gate

    def of(self, url: str) -> list[Pushed]:
        """What one agent was sent."""
        return [each for each in self.pushed if each.url == url]


class HttpAgent:
    """An agent that listens on loopback and speaks HTTP, as a stranger would write one."""

    def __init__(self) -> None:
        self.port = 0
        self.pushed: list[Pushed] = []
        self.reply: Callable[[Pushed], Awaitable[Reply]] = self._echo

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/agent"

    async def _echo(self, pushed: Pushed) -> Reply:
        return said(f"re: {pushed.text}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            pushed = Pushed(self.url, headers, msgspec.json.decode(body))
            self.pushed.append(pushed)
            status, more, answer = await self.reply(pushed)
            lines = [f"HTTP/1.1 {status} said", f"Content-Length: {len(answer)}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in more.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def http_agent(agent: A) -> AsyncIterator[A]:
    """An agent that listens until the block ends."""
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    agent.port = server.sockets[0].getsockname()[1]
    try:
        yield agent
    finally:
        server.close()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await server.wait_closed()
