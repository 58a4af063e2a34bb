"""A proxy in front of servers for clients without credentials: it adds one, and its root is one workspace.

Each request gets an idempotency key. If its server ends before it has sent anything, another server gets it.
"""

import asyncio
import contextlib
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator

from testing.waits import PROCESS_START_SECONDS, eventually

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CREDENTIAL = re.compile(rb"\r\nauthorization:", re.IGNORECASE)
_VERSION = re.compile(rb"\r\na2a-version:", re.IGNORECASE)
_KEY = re.compile(rb"\r\nidempotency-key:", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
_READ_BYTES = 64 << 10
# Requests of a kit are answered within milliseconds, or wait for the agent.
_BUSY_SECONDS = 10.0


class CredentialProxy:
    """A proxy for one workspace. Each connection carries one request, so that its response may be a stream."""

    def __init__(self, token: str, workspace_id: str, *, version: str = "") -> None:
        """Build it. `version`: the line that requests without one are given; without it they get older leniency."""
        self.targets: list[int] = []
        """Ports of the servers, which get the requests in turn."""
        self._token = token
        self._version = version
        place = f"/workspaces/{workspace_id}"
        self._paths = dict.fromkeys(CARD_PATHS, f"{place}/.well-known/agent-card.json") | {"/": f"{place}/a2a"}
        self.repeated = 0
        """How many requests were sent again, because their server ended."""
        self._count = 0
        self._open = Counter[int]()
        """Requests that have no complete response, by the port of their server."""
        self._begun = Counter[int]()
        """Those whose response has begun."""
        self._connections: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Serve until the block ends."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", port):
            yield
            for task in self._connections:
                task.cancel()

    @contextlib.asynccontextmanager
    async def without(self, port: int) -> AsyncIterator[None]:
        """Send requests to the other servers. The block begins when this one is in the middle of no response.

        It begins while the server works on a request, if one comes in time."""

        async def look() -> tuple[int, int]:
            return self._open[port] - self._begun[port], self._begun[port]

        with contextlib.suppress(TimeoutError, AssertionError):
            await eventually(look, lambda found: found[0] > 0 and not found[1], _BUSY_SECONDS)
        self.targets.remove(port)
        await eventually(look, lambda found: not found[1], PROCESS_START_SECONDS)
        yield
        self.targets.append(port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._relay(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
        head = _CONNECTION.sub(b"", head) + b"\r\nConnection: close"
        if not _CREDENTIAL.search(head):
            head += f"\r\nAuthorization: Bearer {self._token}".encode()
        if self._version and not _VERSION.search(head):
            head += f"\r\nA2A-Version: {self._version}".encode()
        method, path, rest = head.split(b" ", 2)
        path = self._paths.get(path.decode("latin-1"), path.decode("latin-1")).encode("latin-1")
        body = await self._read_body(head, reader)
        if not _KEY.search(rest):
            rest += f"\r\nIdempotency-Key: {uuid.uuid4()}".encode()
        request = b" ".join((method, path, rest)) + b"\r\n\r\n" + body
        gone = asyncio.ensure_future(_until_gone(reader))
        try:
            while not await self._exchange(request, writer, gone):
                self.repeated += 1
        finally:
            gone.cancel()

    async def _exchange(self, request: bytes, writer: asyncio.StreamWriter, gone: "asyncio.Future[None]") -> bool:
        """Send a request to the next server and relay the response; return whether there is nothing left to do."""
        self._count += 1
        port = self.targets[self._count % len(self.targets)]
        try:
            upstream, sending = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        self._open[port] += 1
        try:
            sending.write(request)
            try:
                data = await self._next(upstream, gone)
            except OSError:
                data = b""
            if not data:
                return gone.done()
            self._begun[port] += 1
            try:
                while data:
                    writer.write(data)
                    await writer.drain()
                    data = await self._next(upstream, gone)
            finally:
                self._begun[port] -= 1
            return True
        finally:
            self._open[port] -= 1
            sending.close()

    async def _next(self, upstream: asyncio.StreamReader, gone: "asyncio.Future[None]") -> bytes:
        """Return what the server sends next; nothing at the end, or once the client is gone."""
        reading = asyncio.ensure_future(upstream.read(_READ_BYTES))
        await asyncio.wait((reading, gone), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return b""
        return reading.result()

    async def _read_body(self, head: bytes, reader: asyncio.StreamReader) -> bytes:
        if found := _LENGTH.search(head):
            return await reader.readexactly(int(found[1]))
        body = b""
        if _CHUNKED.search(head):
            while not body.endswith(b"0\r\n\r\n"):
                body += await reader.readuntil(b"\r\n")
        return body


async def _until_gone(reader: asyncio.StreamReader) -> None:
    """Wait until a client has closed its connection, in order or not: nothing else comes behind its request."""
    with contextlib.suppress(OSError):
        await reader.read(1)
