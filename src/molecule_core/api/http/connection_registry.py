"""All who are connected to one server at this moment: how many they are, when the last one has gone, and the date that
the heads of their answers carry.

Above: `api/http/connection.py`, the listener. Below: the clock.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from molecule_core.common.clock import SECOND, Clock

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class NotifyingSet(set[Any]):
    """A set that says so when one has gone."""

    def __init__(self, on_removed: Callable[[], None]) -> None:
        super().__init__()
        self._on_removed = on_removed

    def discard(self, member: Any, /) -> None:
        """Lets one go, if it is there."""
        super().discard(member)
        self._on_removed()


class OpenConnections(NotifyingSet):
    """Those who are connected. Once the end has begun, whoever comes still is told of it as all others were."""

    def __init__(self, on_removed: Callable[[], None]) -> None:
        super().__init__(on_removed)
        self._is_shutting_down = False

    def add(self, member: Any, /) -> None:
        """Takes one in."""
        super().add(member)
        if self._is_shutting_down:  # not at once: it has only begun to connect, or to be taken over by another protocol
            asyncio.get_running_loop().call_soon(self._shut_down, member)

    def shut_down_all(self) -> None:
        """The server stops: everybody is told."""
        self._is_shutting_down = True
        for each in list(self):
            each.shutdown()

    def _shut_down(self, member: Any) -> None:
        if member in self:
            member.shutdown()


class ConnectionRegistry:
    """The connections of one server, and the tasks that work on answers to them."""

    def __init__(self, clock: Clock) -> None:
        self.connections = OpenConnections(self._on_removed)
        self.tasks = NotifyingSet(self._on_removed)
        self._clock = clock
        self._second = -1
        self._date = b""
        self._empty_future: asyncio.Future[None] | None = None

    def date_header(self) -> bytes:
        """The line of a head that says when it was written (RFC 9110, 6.6.1)."""
        second = self._clock.now() // SECOND
        if second != self._second:
            self._second = second
            self._date = b"date: %b\r\n" % format_http_date(second)
        return self._date

    async def wait_until_empty(self) -> None:
        """Returns once nobody is connected and nobody works on an answer. One may wait for it at a time."""
        if self.connections or self.tasks:
            self._empty_future = asyncio.get_running_loop().create_future()
            await self._empty_future

    def _on_removed(self) -> None:
        empty_future = self._empty_future
        if empty_future is not None and not (self.connections or self.tasks or empty_future.done()):
            empty_future.set_result(None)


def format_http_date(second: int) -> bytes:
    """Seconds since 1970 as HTTP writes a date, in English wherever the machine stands."""
    at = time.gmtime(second)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return b"%b, %02d %b %04d %02d:%02d:%02d GMT" % (
        *(day.encode(), at.tm_mday, month.encode(), at.tm_year),
        *(at.tm_hour, at.tm_min, at.tm_sec),
    )
