"""A connection of one's own for bytes of any kind: what comes back, or that nothing does."""

import asyncio
import contextlib
from collections.abc import Callable

from testing.raw_http import Reply

# An unfinished request is given up by its sender after so long; the server itself waits up to a second for its rest.
_GIVEN_UP_SECONDS = 2.5
# Longer than any answer takes on a busy machine; reaching it counts as left without one.
PATIENCE_SECONDS = 30.0
_LONGEST_LINE = 1 << 20


class Unanswered(Exception):
    """Neither an answer nor an end within the bound."""


class Garbled(Exception):
    """What came back is not HTTP."""


class Line:
    """One connection, kept while the other side keeps it. Opens when it has to."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, data: bytes, *, gives_up: bool = False) -> Reply | None:
        """The last answer to these bytes (those before may be 100); None if the other side hung up instead.

        `gives_up`: what is sent may be unfinished; then its end is said, should no answer come.
        Raises Unanswered, Garbled."""
        reply: Reply | None = None
        for fresh in (self._streams is None, True):
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    reply = await self._exchange(data, gives_up)
            except TimeoutError:
                self.hang_up()
                raise Unanswered(repr(data[:120])) from None
            except (OSError, EOFError):
                reply = None
            except ValueError as error:
                self.hang_up()
                raise Garbled(f"{error} behind {data[:120]!r}") from None
            if reply is not None or fresh:
                break
            self.hang_up()  # the other side had closed a connection that was kept: once more on a new one
        if reply is None or reply.headers.get("connection") == "close" or _endless(reply) or gives_up:
            self.hang_up()
        return reply

    async def _exchange(self, data: bytes, gives_up: bool) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=_LONGEST_LINE)
        reader, writer = self._streams
        writer.write(data)
        later = asyncio.get_running_loop().call_later(_GIVEN_UP_SECONDS, _finish(writer)) if gives_up else None
        try:
            while (reply := await _reply(reader, is_head=data.startswith(b"HEAD "))).status == 100:
                pass
        finally:
            if later is not None:
                later.cancel()
        return reply

    def hang_up(self) -> None:
        """Ends the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def _finish(writer: asyncio.StreamWriter) -> Callable[[], None]:
    def finish() -> None:
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()

    return finish


def _endless(reply: Reply) -> bool:
    kind = reply.headers.get("content-type", "")
    return reply.status == 101 or (kind.startswith("text/event-stream") and "content-length" not in reply.headers)


async def _reply(reader: asyncio.StreamReader, *, is_head: bool) -> Reply:
    """One answer; of one without an end only its head. ValueError: it is none."""
    first = await reader.readuntil(b"\r\n")
    if not first.startswith(b"HTTP/1.1 "):
        raise ValueError(f"it begins with {first[:60]!r}")
    headers: dict[str, str] = {}
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    reply = Reply(int(first.split()[1]), headers, b"")
    if is_head or reply.status in (100, 101, 204, 304) or _endless(reply):
        return reply
    if headers.get("transfer-encoding") != "chunked":
        if "content-length" not in headers and headers.get("connection") == "close":
            return reply._replace(body=await reader.read())
        if "content-length" not in headers:
            raise ValueError(f"its head says neither its length nor that it is chunked: {reply.status} {headers}")
        return reply._replace(body=await reader.readexactly(int(headers["content-length"])))
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return reply._replace(body=b"".join(parts))
