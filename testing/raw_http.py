"""HTTP/1.1 written and read by hand: no client library stands between a test and the bytes it means."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

from testing.waits import IN_PROCESS_SECONDS

_LONGEST_LINE = 1 << 20
Headers = Iterable[tuple[str, str]] | Mapping[str, str]


class Reply(NamedTuple):
    """An answer. Header names are in lower case; of a header that stands twice, the last; cookies on a line
    each."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        return str(self.json["error"])


def request(
    method: str, target: str, body: bytes | None = None, *, token: str | None = None, headers: Headers = ()
) -> bytes:
    """The bytes of a request. `host` is filled in unless it is among the headers."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", "127.0.0.1"))
    if token is not None:
        pairs.append(("Authorization", f"Bearer {token}"))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    head = "".join([f"{method} {target} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in pairs), "\r\n"])
    return head.encode("latin-1") + (body or b"")


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Wire:
    """One connection. Every wait is bounded by IN_PROCESS_SECONDS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def port(self) -> int:
        """The port it leads to."""
        return int(self._writer.get_extra_info("peername")[1])

    async def send(self, data: bytes) -> None:
        """Writes bytes as they are."""
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            self._writer.write(data)
            await self._writer.drain()

    async def reply(self, seconds: float = IN_PROCESS_SECONDS) -> Reply:
        """Reads one answer."""
        async with asyncio.timeout(seconds):
            first = await self._reader.readuntil(b"\r\n")
            headers: dict[str, str] = {}
            while (line := await self._reader.readuntil(b"\r\n")) != b"\r\n":
                name, _, value = line.decode("latin-1").partition(":")
                name, value = name.strip().lower(), value.strip()
                headers[name] = f"{headers[name]}\n{value}" if name in headers and name == "set-cookie" else value
            return Reply(int(first.split()[1]), headers, await self._body(headers))

    async def some(self, seconds: float = IN_PROCESS_SECONDS) -> bytes:
        """The first bytes of whatever comes."""
        async with asyncio.timeout(seconds):
            return await self._reader.read(1)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        parts = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append(await self._reader.readexactly(size + 2))
        await self._reader.readuntil(b"\r\n")
        return b"".join(part[:-2] for part in parts)

    async def ask(
        self, method: str, target: str, body: Any = None, *, token: str | None = None, headers: Headers = ()
    ) -> Reply:
        """Sends one request, with a body of JSON if it has one (bytes are sent as they are), and reads its answer."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        await self.send(request(method, target, data, token=token, headers=headers))
        return await self.reply()

    async def hung_up(self) -> bool:
        """Waits until the other side closes; True if it sent nothing before."""
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True

    @property
    def answered(self) -> bool:
        """Whether bytes have arrived that were not read yet, or the other side has closed."""
        return bool(self._reader._buffer) or self._reader.at_eof()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Hangs up."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    """A connection to a port of this machine, closed at the end of the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LONGEST_LINE)
    connection = Wire(reader, writer)
    try:
        yield connection
    finally:
        await connection.close()


async def ask(
    port: int, method: str, target: str, body: Any = None, *, token: str | None = None, headers: Headers = ()
) -> Reply:
    """One request on a connection of its own."""
    async with wire(port) as connection:
        return await connection.ask(method, target, body, token=token, headers=headers)
