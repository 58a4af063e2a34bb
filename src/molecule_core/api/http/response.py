"""Response of an application, and what it may send instead of a body: a byte source, an event stream, a WebSocket.

A handler of a stream never sees the connection: it gets a `Channel`, which the server implements.
"""

from typing import Protocol

from msgspec import Struct

from molecule_core.api.http.rate_limits import RateStatus


class ByteSource(Protocol):
    """Source of a response body of known size."""

    size: int

    async def read(self, count: int) -> bytes:
        """Read at most `count` bytes; empty at the end."""

    def close(self) -> None:
        """Close the source."""


class Channel(Protocol):
    """Sending half of an open stream."""

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""

    def unread_bytes(self) -> int:
        """Return the number of bytes that the client has not read yet."""

    def delivered_bytes(self) -> int:
        """Return the number of bytes that the client has read."""

    async def wait_drained(self) -> None:
        """Wait until the client has read nearly everything."""

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""

    def finish(self) -> None:
        """Close once the client has read everything."""

    def close_gracefully(self) -> None:
        """Close once the client has read everything; abort if it does not."""

    def abort(self) -> None:
        """Close at once and drop unread bytes."""


class WebSocketChannel(Channel, Protocol):
    """Sending half of an open WebSocket. Each `write` takes one encoded text message."""

    def encode_text(self, data: bytes) -> bytes:
        """Encode a text message. Channels of one class encode it alike."""

    def close(self, code: int, reason: str) -> None:
        """Send a close code and close; abort if the client does not close its side."""


class EventStreamHandler(Protocol):
    """Handler of an event stream."""

    def on_open(self, channel: Channel) -> None:
        """Start to send. The response head has been sent."""

    def on_lost(self) -> None:
        """Clean up; the connection is gone."""

    def on_shutdown(self) -> None:
        """End the stream, because the server stops."""


class WebSocketHandler(Protocol):
    """Handler of a WebSocket."""

    @property
    def max_message_bytes(self) -> int:
        """Return the limit in bytes of a message from the client."""

    def on_open(self, channel: WebSocketChannel) -> None:
        """Start to send. The handshake has been answered."""

    def accept_frames(self, count: int) -> bool:
        """Count received frames. Return False after closing the channel, if there were too many."""

    def on_text(self, data: bytes) -> None:
        """Handle a text message of the client."""

    def on_lost(self) -> None:
        """Clean up; the connection is gone."""

    def on_shutdown(self) -> None:
        """End the stream, because the server stops."""


class StreamedBody(Struct):
    """Body that is read from a source while it is sent."""

    source: ByteSource


class EventStream(Struct):
    """Body without an end, written by a handler."""

    handler: EventStreamHandler


class WebSocketUpgrade(Struct):
    """Upgrade of the connection to a WebSocket."""

    handler: WebSocketHandler


class Response(Struct):
    """HTTP response.

    `headers` are added to the standard ones. `takeover` is sent instead of `body`; the connection serves nothing else
    afterwards. `rate_status` is set if another limit than the one of the request's own rate applies."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = b"application/json"
    content_security_policy: bytes = b"default-src 'none'; frame-ancestors 'none'"
    takeover: StreamedBody | EventStream | WebSocketUpgrade | None = None
    rate_status: RateStatus | None = None
    keeps_opener: bool = False
    """Whether the site that opened the page in a window keeps its connection to this window."""


def event_stream_response(handler: EventStreamHandler) -> Response:
    """Return the response that opens an event stream."""
    # nginx and its kind would otherwise hold events back until a buffer is full.
    headers = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
    return Response(
        b"", headers=headers, content_type=b"text/event-stream; charset=utf-8", takeover=EventStream(handler)
    )
