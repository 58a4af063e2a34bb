"""A proxy in front of a server for clients without credentials: it adds one, and its root is one workspace."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CREDENTIAL = re.compile(rb"\r\nauthorization:", re.IGNORECASE)
_VERSION = re.compile(rb"\r\na2a-version:", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
_READ_BYTES = 64 << 10


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
        self._count = 0
        self._connections: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Serve until the block ends."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", port):
            yield
            for task in self._connections:
                task.cancel()

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
        self._count += 1
        upstream, sending = await asyncio.open_connection("127.0.0.1", self.targets[self._count % len(self.targets)])
        gone = asyncio.ensure_future(_until_gone(reader))
        try:
            sending.write(b" ".join((method, path, rest)) + b"\r\n\r\n" + body)
            while data := await self._next(upstream, gone):
                writer.write(data)
                await writer.drain()
        finally:
            gone.cancel()
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
