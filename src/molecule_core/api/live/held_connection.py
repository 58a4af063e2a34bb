"""A connection on which a client is told what happens: what WebSocket and event streams have in common.

Above: `api/http/connection.py` hands the connection over. Below: `api/live/hub.py`.
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

# A client that does not take our farewell has this long before the line is cut.
CLOSE_GRACE_SECONDS = 1.0
CLOSE_RESTARTING = 1012
"""The close code of a server that stops."""
# What operators call them.
_DISCONNECT_REASONS = {
    CLOSE_SESSION_ENDED: "session ended",
    CLOSE_TOO_SLOW: "too slow",
    CLOSE_INTERNAL: "trouble",
    CLOSE_RESTARTING: "restart",
}
_log = logging.getLogger("molecule.live")


class HeldConnection(asyncio.Protocol):
    """A connection that was taken over from HTTP, and on which the server goes on speaking. It knows whether the client
    keeps reading; one that does not is not listened to either."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._drained: asyncio.Future[None] | None = None
        self._connections: set[Any] = set()
        self._written = 0

    def _hold_connection(self, transport: asyncio.Transport, connections: set[Any], head: bytes) -> None:
        """The connection is ours from here on: the head of our answer goes out."""
        self._transport, self._connections = transport, connections
        limit_unsent_bytes(transport)
        transport.set_protocol(self)
        connections.add(self)
        self._send(head)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client is gone."""
        self._connections.discard(self)
        self.resume_writing()

    def _close_gracefully(self) -> None:
        """Closes once the client has taken what was said last; one that does not is cut off."""
        asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._transport.abort)
        self._transport.close()

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client has read."""
        self._send(data)

    def _send(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def unread_bytes(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()  # control: unread-bytes

    def delivered_bytes(self) -> int:
        """Bytes that it has taken."""
        return self._written - self.unread_bytes()

    async def wait_drained(self) -> None:
        """Returns once the client has taken nearly all."""
        if self._drained is not None:
            await asyncio.wait((self._drained,))  # not awaited itself: who is cancelled must not cancel it for others

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._drained = asyncio.get_running_loop().create_future()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client has read."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        if not self._transport.is_closing():
            self._transport.resume_reading()


class LiveConnection(HeldConnection, ABC):
    """Holds the listener of a connection, and serves one wish at a time."""

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
        """The head of our answer, then the first wish, which nothing replaces."""
        self._hold_connection(transport, connections, head)
        self._first_task = self._current_task = asyncio.get_running_loop().create_task(self._run_work(first, None))

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Does something for this channel, in place of what is being done for it."""
        self._current_task = asyncio.get_running_loop().create_task(self._run_work(work, self._current_task))

    async def _run_work(self, work: Callable[[], ChannelWork], previous: "asyncio.Task[None] | None") -> None:
        try:
            if previous is not None:
                if previous is not self._first_task:
                    previous.cancel()
                await asyncio.wait(
                    (previous, self._first_task)
                )  # one that was cancelled may not have waited for the greeting
            await work()
        except asyncio.CancelledError:
            # Not handed on: a cancelled task keeps where it stood, with the page that it was telling, and is itself
            # kept by this connection, which stands there too. The collector comes by such circles late.
            return
        except StoreUnavailable:
            self.disconnect(CLOSE_INTERNAL, "the store does not answer; resume")
        except Exception:
            _log.exception("a live channel has met a mistake of ours, and is closed to start over")
            self.disconnect(CLOSE_INTERNAL, "the server made a mistake; resume")

    def disconnect(self, code: int, reason: str) -> None:
        """Ends the channel."""
        self._live.disconnects[_DISCONNECT_REASONS[code]] += 1
        self._close_protocol(code, reason)

    @abstractmethod
    def _close_protocol(self, code: int, reason: str) -> None:
        """Ends the connection in the way of its protocol."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._live.remove_subscriber(self._subscriber)  # control: sink-leaves
        for task in (
            self._first_task,
            self._current_task,
        ):  # a wish may be waiting for the greeting, which would register again
            task.cancel()
        super().connection_lost(exc)
