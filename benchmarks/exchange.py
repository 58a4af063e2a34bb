"""A kept connection of a load client: just enough HTTP for answers with a content-length, as all servers here give."""

import asyncio
from typing import Protocol, cast


class Gives(Protocol):
    """Who hears that all has come to nothing."""

    def fail(self, why: str) -> None:
        """Gives up."""


class Exchange(asyncio.Protocol):
    """A kept connection with one request at a time. An answer is `good`, or the measurement has failed."""

    good: tuple[bytes, ...] = (b"200",)

    def __init__(self, failing: Gives) -> None:
        self._failing = failing
        self._buffer = bytearray()
        self._needed = 0
        self._body_at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._failing.fail(f"the server hung up: {exc}")

    def write(self, request: bytes) -> None:
        """Asks."""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._needed:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_at = end + 4
            self._needed = self._body_at + _content_length(self._buffer[:end])
        if len(self._buffer) < self._needed:
            return
        status, body = bytes(self._buffer[9:12]), bytes(self._buffer[self._body_at : self._needed])
        self._buffer.clear()
        self._needed = 0
        if status in self.good:
            self.answered(body)
        else:
            self._failing.fail(f"the server answered {status.decode()}: {body[:300].decode()}")

    def start(self) -> None:
        """Begins to work."""
        raise NotImplementedError

    def answered(self, body: bytes) -> None:
        """An answer came."""
        raise NotImplementedError


def _content_length(lines: bytearray) -> int:
    lower = bytes(lines).lower()
    start = lower.index(b"content-length:") + 15
    end = lower.find(b"\r", start)
    return int(lower[start : end if end >= 0 else None])


def head(method: str, path: str, token: str, port: int, length: int) -> bytes:
    """The head of a request with a body of so many bytes."""
    body = f"content-type: application/json\r\ncontent-length: {length}\r\n" if length else ""
    return (
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n{body}\r\n"
    ).encode()
