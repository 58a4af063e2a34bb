"""The body of one request as its handler reads it: piece by piece, while it comes.

Above: `edges/protocol.py` feeds it. Below: handlers of routes that stream.
"""

import asyncio

# So much waits for the handler at most, and what one read of the socket brings on top; then the client has to wait.
MOST_HELD = 256 << 10


class Body:
    """An async iterator over what has come since the last look. For one reader."""

    def __init__(self, transport: asyncio.Transport, *, expects: bool) -> None:
        self._transport = transport
        self._expects = expects
        self._pieces: list[bytes] = []
        self._held = 0
        self._over = False
        self._closed = False
        self._reader: asyncio.Future[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether the client waits for us, and not we for it."""
        return self._held > 0

    def feed(self, piece: bytes) -> None:
        """More has come. Once too much waits, the client's next bytes stay where they are."""
        if self._closed:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > MOST_HELD:
            self._transport.pause_reading()
        self._wake()

    def end(self) -> None:
        """All has come."""
        self._over = True
        self._wake()

    def close(self) -> None:
        """Nobody reads the rest."""
        self._closed = True
        self._pieces.clear()
        self._go_on()

    def __aiter__(self) -> "Body":
        return self

    async def __anext__(self) -> bytes:
        if self._expects:  # the client has waited for this word: whoever was refused has not sent a byte
            self._expects = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._pieces:
            if self._over or self._closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._go_on()
        return piece

    def _go_on(self) -> None:
        held, self._held = self._held, 0
        if held > MOST_HELD and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
