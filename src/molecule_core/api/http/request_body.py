"""Request body that a handler reads in chunks while it arrives."""

import asyncio

# Buffered bytes (plus one socket read) above which reading from the client pauses.
MAX_BUFFERED_BYTES = 256 << 10


class StreamingBody:
    """Async iterator over the received chunks, for a single reader."""

    def __init__(self, transport: asyncio.Transport, *, expects_continue: bool) -> None:
        self._transport = transport
        self._expects_continue = expects_continue
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._is_complete = False
        self._is_closed = False
        self._reader: asyncio.Future[None] | None = None

    @property
    def has_unread(self) -> bool:
        """Return whether bytes wait for the handler."""
        return self._buffered_bytes > 0

    def feed(self, piece: bytes) -> None:
        """Append a chunk. Pauses reading past `MAX_BUFFERED_BYTES`."""
        if self._is_closed:
            return
        self._pieces.append(piece)
        self._buffered_bytes += len(piece)
        if self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._transport.pause_reading()
        self._wake_reader()

    def end(self) -> None:
        """Mark the body as complete."""
        self._is_complete = True
        self._wake_reader()

    def close(self) -> None:
        """Discard the rest; no reader is left."""
        self._is_closed = True
        self._pieces.clear()
        self._resume_reading()

    def __aiter__(self) -> "StreamingBody":
        return self

    async def __anext__(self) -> bytes:
        if self._expects_continue:  # sent only now, so a rejected client never sends its body
            self._expects_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._pieces:
            if self._is_complete or self._is_closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._resume_reading()
        return piece

    def _resume_reading(self) -> None:
        buffered, self._buffered_bytes = self._buffered_bytes, 0
        if buffered > MAX_BUFFERED_BYTES and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
