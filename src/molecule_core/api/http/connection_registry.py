"""Tracks the open connections of a server, signals when the last one has closed, and caches the Date header."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from molecule_core.api.http.streaming_response import new_send_semaphore
from molecule_core.common.clock import SECOND, Clock

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class NotifyingSet(set[Any]):
    """Set that calls back after each removal."""

    def __init__(self, on_removed: Callable[[], None]) -> None:
        super().__init__()
        self._on_removed = on_removed

    def discard(self, member: Any, /) -> None:
        """Remove a member, if present."""
        super().discard(member)
        self._on_removed()


class OpenConnections(NotifyingSet):
    """Open connections. A connection added during shutdown is shut down at once."""

    def __init__(self, on_removed: Callable[[], None]) -> None:
        super().__init__(on_removed)
        self._is_shutting_down = False

    def add(self, member: Any, /) -> None:
        """Add a connection."""
        super().add(member)
        if self._is_shutting_down:  # deferred: it is only being set up, or passed to another protocol
            asyncio.get_running_loop().call_soon(self._shut_down, member)

    def shut_down_all(self) -> None:
        """Shut down all connections."""
        self._is_shutting_down = True
        for each in list(self):
            each.shutdown()

    def abort_all(self) -> None:
        """Abort the connections that are still open."""
        for each in list(self):
            each.abort()

    def _shut_down(self, member: Any) -> None:
        if member in self:
            member.shutdown()


class ConnectionRegistry:
    """Open connections of a server, and the tasks that run their handlers."""

    def __init__(self, clock: Clock) -> None:
        self.connections = OpenConnections(self._on_removed)
        self.tasks = NotifyingSet(self._on_removed)
        self.send_semaphore = new_send_semaphore()
        self._clock = clock
        self._second = -1
        self._date = b""
        self._empty_future: asyncio.Future[None] | None = None

    def date_header(self) -> bytes:
        """Return the Date header line (RFC 9110, 6.6.1)."""
        second = self._clock.now() // SECOND
        if second != self._second:
            self._second = second
            self._date = b"date: %b\r\n" % format_http_date(second)
        return self._date

    async def wait_until_empty(self) -> None:
        """Wait until no connection and no task is left. Only one task may wait at a time."""
        if self.connections or self.tasks:
            self._empty_future = asyncio.get_running_loop().create_future()
            await self._empty_future

    def _on_removed(self) -> None:
        empty_future = self._empty_future
        if empty_future is not None and not (self.connections or self.tasks or empty_future.done()):
            empty_future.set_result(None)


def format_http_date(second: int) -> bytes:
    """Format seconds since 1970 as an HTTP date, in English whatever the locale."""
    at = time.gmtime(second)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return b"%b, %02d %b %04d %02d:%02d:%02d GMT" % (
        *(day.encode(), at.tm_mday, month.encode(), at.tm_year),
        *(at.tm_hour, at.tm_min, at.tm_sec),
    )
