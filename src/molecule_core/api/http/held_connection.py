"""Connection on which the server keeps sending: event streams, and the base of WebSockets.

Takes connections over from `api/http/connection.py`; implements the channel of a handler.
"""

import asyncio
from typing import Any

from molecule_core.api.http.response import EventStreamHandler, WebSocketHandler
from molecule_core.api.http.socket_options import limit_unsent_bytes

# 1 s: a client that does not read the last data must not delay the close.
CLOSE_GRACE_SECONDS = 1.0


class HeldConnection(asyncio.Protocol):
    """Connection taken over from HTTP.

    Tracks whether the client keeps reading; while it does not, its input is not read either."""

    _transport: asyncio.Transport

    def __init__(self, handler: EventStreamHandler | WebSocketHandler) -> None:
        self._handler = handler
        self._drained: asyncio.Future[None] | None = None
        self._connections: set[Any] = set()
        self._written = 0
        self._abort_timer: asyncio.TimerHandle | None = None

    def _hold_connection(self, transport: asyncio.Transport, connections: set[Any], head: bytes) -> None:
        """Take the connection over and send the response head."""
        self._transport, self._connections = transport, connections
        limit_unsent_bytes(transport)
        transport.set_protocol(self)
        connections.add(self)
        self.write(head)

    # -- transport callbacks -------------------------------------------------------------------------------------------

    def connection_lost(self, _exc: Exception | None) -> None:
        """Remove the connection. Its abort is cancelled: asyncio's transport cannot be aborted any more."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._connections.discard(self)
        self._handler.on_lost()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Stop reading input while the client reads slowly."""
        self._drained = asyncio.get_running_loop().create_future()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Wake waiters and read input again."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def shutdown(self) -> None:
        """Notify the handler that the server stops."""
        self._handler.on_shutdown()

    # -- channel -------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""
        self._written += len(data)
        self._transport.write(data)

    def unread_bytes(self) -> int:
        """Return the number of bytes that the client has not read yet."""
        return self._transport.get_write_buffer_size()  # control: unread-bytes

    def delivered_bytes(self) -> int:
        """Return the number of bytes that the client has read."""
        return self._written - self.unread_bytes()

    async def wait_drained(self) -> None:
        """Wait until the client has read nearly everything."""
        if self._drained is not None:
            # wait(), not await: a cancelled waiter must not cancel the future for the others.
            await asyncio.wait((self._drained,))

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""
        return self._transport.is_closing()

    def finish(self) -> None:
        """Close once the client has read everything."""
        self._transport.close()

    def close_gracefully(self) -> None:
        """Close once the client has read everything; abort after `CLOSE_GRACE_SECONDS`."""
        self._abort_after_grace()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _abort_after_grace(self) -> None:
        """Abort after `CLOSE_GRACE_SECONDS` if the connection is still there."""
        self._abort_timer = asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._transport.abort)


class EventStreamConnection(HeldConnection):
    """Event stream of one client. Its input is ignored."""

    def __init__(self, handler: EventStreamHandler) -> None:
        super().__init__(handler)
        self._stream_handler = handler

    def take_over(self, transport: asyncio.Transport, connections: set[Any], head: bytes) -> None:
        """Send the response head, then let the handler send."""
        self._hold_connection(transport, connections, head)
        self._stream_handler.on_open(self)
