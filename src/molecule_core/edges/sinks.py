"""A connection on which a listener is told what happens: what WebSocket and event stream have in common.

Above: `edges/protocol.py` hands the connection over. Below: `edges/live.py`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from molecule_core.edges.live import INTERNAL, Listener, Live
from molecule_core.ground.errors import StoreUnavailable

Work = Coroutine[Any, Any, None]


class LiveConnection(asyncio.Protocol):
    """Holds the connection and its listener, serves one wish at a time, knows whether the client keeps reading."""

    _transport: asyncio.Transport
    _listener: Listener

    def __init__(self, live: Live) -> None:
        self._live = live
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._connections: set[Any] = set()

    def _take(self, transport: asyncio.Transport, connections: set[Any], head: bytes, first: Work) -> None:
        """The connection is ours from here on: the head of our answer, then the first wish."""
        self._transport, self._connections = transport, connections
        transport.set_protocol(self)
        connections.add(self)
        transport.write(head)
        self._serve(first)

    def _serve(self, wish: Work) -> None:
        """Serves a wish; a newer one takes the place of one that is still being served."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._served(wish))

    async def _served(self, wish: Work) -> None:
        try:
            await wish
        except StoreUnavailable:
            self.cut(INTERNAL, "the store does not answer; resume")

    def cut(self, code: int, reason: str) -> None:
        """Ends the channel."""
        raise NotImplementedError

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client is gone."""
        self._connections.discard(self)
        self._live.leave(self._listener)
        if self._task is not None:
            self._task.cancel()
        self.resume_writing()

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client has read."""
        self._transport.write(data)

    def unread(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Returns once the client has taken nearly all."""
        if self._drained is not None:
            await self._drained

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The client has read."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
