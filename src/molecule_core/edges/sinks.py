"""A connection on which a client is told what happens: what WebSocket and event streams have in common.

Above: `edges/protocol.py` hands the connection over. Below: `edges/live.py`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from molecule_core.edges.listeners import Listener, Work
from molecule_core.edges.live import INTERNAL, SESSION_ENDED, TOO_SLOW, Live
from molecule_core.edges.unsent import bound_unsent
from molecule_core.ground.errors import StoreUnavailable

# A client that does not take our farewell has this long before the line is cut.
FAREWELL_SECONDS = 1.0
RESTARTING = 1012
"""The close code of a server that stops."""
# What operators call them.
_CUTS = {SESSION_ENDED: "session ended", TOO_SLOW: "too slow", INTERNAL: "trouble", RESTARTING: "restart"}
_log = logging.getLogger("molecule.live")


class HeldConnection(asyncio.Protocol):
    """A connection that was taken over from HTTP, and on which the server goes on speaking. It knows whether the client
    keeps reading; one that does not is not listened to either."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._drained: asyncio.Future[None] | None = None
        self._connections: set[Any] = set()
        self._written = 0

    def _hold(self, transport: asyncio.Transport, connections: set[Any], head: bytes) -> None:
        """The connection is ours from here on: the head of our answer goes out."""
        self._transport, self._connections = transport, connections
        bound_unsent(transport)
        transport.set_protocol(self)
        connections.add(self)
        self._send(head)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client is gone."""
        self._connections.discard(self)
        self.resume_writing()

    def _close_soon(self) -> None:
        """Closes once the client has taken what was said last; one that does not is cut off."""
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.abort)
        self._transport.close()

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client has read."""
        self._send(data)

    def _send(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def unread(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()  # control: unread-bytes

    def taken(self) -> int:
        """Bytes that it has taken."""
        return self._written - self.unread()

    async def drained(self) -> None:
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
    resubscribes = False
    has_snapshot = True
    _listener: Listener
    _first: "asyncio.Task[None]"
    _task: "asyncio.Task[None]"

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    def _take(
        self, transport: asyncio.Transport, connections: set[Any], head: bytes, first: Callable[[], Work]
    ) -> None:
        """The head of our answer, then the first wish, which nothing replaces."""
        self._hold(transport, connections, head)
        self._first = self._task = asyncio.get_running_loop().create_task(self._served(first, None))

    def serve(self, work: Callable[[], Work]) -> None:
        """Does something for this channel, in place of what is being done for it."""
        self._task = asyncio.get_running_loop().create_task(self._served(work, self._task))

    async def _served(self, work: Callable[[], Work], before: "asyncio.Task[None] | None") -> None:
        try:
            if before is not None:
                if before is not self._first:
                    before.cancel()
                await asyncio.wait((before, self._first))  # one that was cancelled may not have waited for the greeting
            await work()
        except asyncio.CancelledError:
            # Not handed on: a cancelled task keeps where it stood, with the page that it was telling, and is itself
            # kept by this connection, which stands there too. The collector comes by such circles late.
            return
        except StoreUnavailable:
            self.cut(INTERNAL, "the store does not answer; resume")
        except Exception:
            _log.exception("a live channel has met a mistake of ours, and is closed to start over")
            self.cut(INTERNAL, "the server made a mistake; resume")

    def cut(self, code: int, reason: str) -> None:
        """Ends the channel."""
        self._live.cuts[_CUTS[code]] += 1
        self._end(code, reason)

    @abstractmethod
    def _end(self, code: int, reason: str) -> None:
        """Ends the connection in the way of its protocol."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._live.leave(self._listener)  # control: sink-leaves
        for task in (self._first, self._task):  # a wish may be waiting for the greeting, which would register again
            task.cancel()
        super().connection_lost(exc)
