"""Channels of streams over ASGI: a queue, and one task that sends from it.

An ASGI server lets `send` wait while the client reads slowly. What waits in the queue counts as unread; the handler
bounds it, as it does on our own server.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from molecule_core.api.http.held_connection import CLOSE_GRACE_SECONDS

# Unread bytes above which `wait_drained` waits: the high-water mark of asyncio's own transports.
_HIGH_WATER_BYTES = 64 << 10
NORMAL_CLOSE = 1000
"""WebSocket close code (RFC 6455, 7.4.1)."""


class QueuedChannel:
    """Channel of an event stream."""

    def __init__(self) -> None:
        self._queue: deque[bytes] = deque()
        self._unread = 0
        self._written = 0
        self._is_finishing = False
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._aborted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._abort_timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        if self.is_closing():
            return
        self._queue.append(data)
        self._unread += len(data)
        self._written += len(data)
        if self._unread > _HIGH_WATER_BYTES:
            self._drained.clear()
        self._changed.set()

    def unread_bytes(self) -> int:
        """Return the number of bytes that the server has not taken yet."""
        return self._unread

    def delivered_bytes(self) -> int:
        """Return the number of bytes that the server has taken."""
        return self._written - self._unread

    async def wait_drained(self) -> None:
        """Wait until the server has taken nearly everything."""
        await self._drained.wait()

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""
        return self._is_finishing or self._aborted.done()

    def finish(self) -> None:
        """End the stream once everything is sent."""
        self._is_finishing = True
        self._changed.set()

    def close_gracefully(self) -> None:
        """End the stream once everything is sent; abort after `CLOSE_GRACE_SECONDS`."""
        self.finish()
        if self._abort_timer is None:
            self._abort_timer = asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self.abort)

    def abort(self) -> None:
        """End the stream at once and drop unread bytes."""
        if not self._aborted.done():
            self._aborted.set_result(None)
        self._queue.clear()
        self._drained.set()

    async def run(self, send: Callable[[bytes], Awaitable[None]], lost: Coroutine[Any, Any, None]) -> bool:
        """Send until the stream ends. Returns whether the client was gone before.

        `lost` returns when the client is gone."""
        sender, watcher = asyncio.ensure_future(self._send_all(send)), asyncio.ensure_future(lost)
        try:
            await asyncio.wait((sender, watcher, self._aborted), return_when=asyncio.FIRST_COMPLETED)
            if watcher.done():
                watcher.result()
                return True
            return sender.done() and sender.result()
        finally:
            for each in (sender, watcher):
                each.cancel()
            await asyncio.wait((sender, watcher), timeout=CLOSE_GRACE_SECONDS)
            if self._abort_timer is not None:
                self._abort_timer.cancel()
            self.abort()

    async def _send_all(self, send: Callable[[bytes], Awaitable[None]]) -> bool:
        """Send the queue until the stream is finished. Returns whether the client was gone before."""
        while self._queue or not self._is_finishing:
            if not self._queue:
                self._changed.clear()
                await self._changed.wait()
                continue
            data = self._queue.popleft()
            try:
                await send(data)
            except OSError:  # ASGI: the client is gone
                return True
            self._unread -= len(data)
            if self._unread <= _HIGH_WATER_BYTES:
                self._drained.set()
        return False


class QueuedWebSocketChannel(QueuedChannel):
    """Channel of a WebSocket. Each queued item is one text message."""

    def __init__(self) -> None:
        super().__init__()
        self.close_code, self.close_reason = NORMAL_CLOSE, ""

    def encode_text(self, data: bytes) -> bytes:
        """Return the message as it is; the server frames it."""
        return data

    def close(self, code: int, reason: str) -> None:
        """Close with a code once everything is sent; abort after `CLOSE_GRACE_SECONDS`."""
        if not self.is_closing():
            self.close_code, self.close_reason = code, reason
            self.close_gracefully()
