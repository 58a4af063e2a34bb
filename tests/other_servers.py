"""What may stand where a Molecule server is looked for: something that leads callers on, or another web server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from msgspec import Struct, field

from testing.waits import PROCESS_START_SECONDS


class Other(Struct):
    """A web server that is none of ours, and the first lines of what it was asked."""

    url: str = ""
    asked: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def other_server(status: str, *headers: str, body: str = "<p>hello</p>") -> AsyncIterator[Other]:
    """It answers everything with that."""
    other = Other()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        other.asked.append(head.partition("\r\n")[0])
        lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", body)
        writer.write("\r\n".join(lines).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    other.url = f"http://{host}:{port}"
    try:
        yield other
    finally:
        server.close()


def leading_to(location: str) -> contextlib.AbstractAsyncContextManager[Other]:
    """A redirect, as proxies give it that want https or a login first."""
    return other_server("301 Moved Permanently", f"Location: {location}", "Content-Type: text/html")
