"""Base classes of connections on which the server keeps sending: WebSockets and event streams.

Takes connections over from `api/http/connection.py`; calls `api/live/hub.py`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from molecule_core.api.http.socket_options import limit_unsent_bytes
from molecule_core.api.live.hub import CLOSE_INTERNAL, CLOSE_SESSION_ENDED, CLOSE_TOO_SLOW, LiveHub
from molecule_core.api.live.subscribers import ChannelWork, LiveSubscriber
from molecule_core.common.errors import StoreUnavailable

# 1 s: a client that does not read the last frame must not delay the close.
CLOSE_GRACE_SECONDS = 1.0
CLOSE_RESTARTING = 1012
"""WebSocket close code of a server that stops (IANA: service restart)."""
# Labels of the disconnect metric.
_DISCONNECT_REASONS = {
    CLOSE_SESSION_ENDED: "session ended",
    CLOSE_TOO_SLOW: "too slow",
    CLOSE_INTERNAL: "trouble",
    CLOSE_RESTARTING: "restart",
}
_log = logging.getLogger("molecule.live")


class HeldConnection(asyncio.Protocol):
    """Connection taken over from HTTP, on which the server keeps sending.

    Tracks whether the client keeps reading; while it does not, its input is not read either."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._drained: asyncio.Future[None] | None = None
        self._connections: set[Any] = set()
        self._written = 0

    def _hold_connection(self, transport: asyncio.Transport, connections: set[Any], head: bytes) -> None:
        """Take the connection over and send the response head."""
        self._transport, self._connections = transport, connections
        limit_unsent_bytes(transport)
        transport.set_protocol(self)
        connections.add(self)
        self._send(head)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Remove the connection."""
        self._connections.discard(self)
        self.resume_writing()

    def _close_gracefully(self) -> None:
        """Close once the client has read the last data; abort after `CLOSE_GRACE_SECONDS`."""
        asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._transport.abort)
        self._transport.close()

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""
        self._send(data)

    def _send(self, data: bytes) -> None:
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


class LiveConnection(HeldConnection, ABC):
    """Connection of one live subscriber. Runs one task at a time for it."""

    kind = "stream"
    can_resubscribe = False
    has_snapshot = True
    _subscriber: LiveSubscriber
    _first_task: "asyncio.Task[None]"
    _current_task: "asyncio.Task[None]"

    def __init__(self, live: LiveHub) -> None:
        super().__init__()
        self._live = live

    def _start_channel(
        self, transport: asyncio.Transport, connections: set[Any], head: bytes, first: Callable[[], ChannelWork]
    ) -> None:
        """Send the response head and run `first`, which `replace_work` does not interrupt."""
        self._hold_connection(transport, connections, head)
        self._first_task = self._current_task = asyncio.get_running_loop().create_task(self._run_work(first, None))

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Cancel the current work of this channel and run this instead."""
        self._current_task = asyncio.get_running_loop().create_task(self._run_work(work, self._current_task))

    async def _run_work(self, work: Callable[[], ChannelWork], previous: "asyncio.Task[None] | None") -> None:
        try:
            if previous is not None:
                if previous is not self._first_task:
                    previous.cancel()
                # Both: a cancelled task may not have waited for the first one, which sends the first frame.
                await asyncio.wait((previous, self._first_task))
            await work()
        except asyncio.CancelledError:
            # Swallowed: a cancelled task keeps its stack with the page it was sending, and this connection, a local of
            # that stack, keeps the task. The garbage collector frees such cycles late.
            return
        except StoreUnavailable:
            self.disconnect(CLOSE_INTERNAL, "the store does not answer; resume")
        except Exception:
            _log.exception("a live channel has met a mistake of ours, and is closed to start over")
            self.disconnect(CLOSE_INTERNAL, "the server made a mistake; resume")

    def disconnect(self, code: int, reason: str) -> None:
        """Count the reason and close the channel."""
        self._live.disconnects[_DISCONNECT_REASONS[code]] += 1
        self._close_protocol(code, reason)

    @abstractmethod
    def _close_protocol(self, code: int, reason: str) -> None:
        """Close the connection in the way of its protocol."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the subscriber and cancel its work."""
        self._live.remove_subscriber(self._subscriber)  # control: sink-leaves
        # Both: the current task may wait for the first one, which would register the subscriber again.
        for task in (self._first_task, self._current_task):
            task.cancel()
        super().connection_lost(exc)
