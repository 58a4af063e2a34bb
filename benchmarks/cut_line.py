"""A line between a browser and a server on this machine that a measurement cuts and mends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK_BYTES = 64 * 1024


class CuttableLine:
    """Forwards connections to a server while it is not cut. `port` is where it accepts them."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._is_cut = False
        self._writers = set[asyncio.StreamWriter]()
        self.port = 0

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until one of its ends is closed."""
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        both = {writer, far_writer}
        self._writers |= both
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    def cut(self) -> None:
        """Abort all connections and refuse new ones."""
        self._is_cut = True
        for each in self._writers:
            each.transport.abort()

    def mend(self) -> None:
        """Forward new connections again."""
        self._is_cut = False


@asynccontextmanager
async def cuttable_line(server_port: int) -> AsyncIterator[CuttableLine]:
    """Open a line to a server; it is cut afterwards."""
    line = CuttableLine(server_port)
    listener = await asyncio.start_server(line.forward, "127.0.0.1", 0)
    line.port = listener.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listener.close()
        line.cut()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the sender has closed, and close behind it."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.close()
