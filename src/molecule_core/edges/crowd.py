"""All who are connected to one server at this moment: how many they are, when the last one has gone, and the date that
the heads of their answers carry.

Above: `edges/protocol.py`, the listener. Below: the clock.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from molecule_core.ground.clock import SECOND, Clock

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Members(set[Any]):
    """A set that says so when one has gone."""

    def __init__(self, one_less: Callable[[], None]) -> None:
        super().__init__()
        self._one_less = one_less

    def discard(self, member: Any, /) -> None:
        """Lets one go, if it is there."""
        super().discard(member)
        self._one_less()


class Connected(Members):
    """Those who are connected. Once the end has begun, whoever comes still is told of it as all others were."""

    def __init__(self, one_less: Callable[[], None]) -> None:
        super().__init__(one_less)
        self._is_ending = False

    def add(self, member: Any, /) -> None:
        """Takes one in."""
        super().add(member)
        if self._is_ending:  # not at once: it has only begun to connect, or to be taken over by another protocol
            asyncio.get_running_loop().call_soon(self._tell, member)

    def end(self) -> None:
        """The server stops: everybody is told."""
        self._is_ending = True
        for each in list(self):
            each.shutdown()

    def _tell(self, member: Any) -> None:
        if member in self:
            member.shutdown()


class Crowd:
    """The connections of one server, and the tasks that work on answers to them."""

    def __init__(self, clock: Clock) -> None:
        self.connections = Connected(self._one_less)
        self.tasks = Members(self._one_less)
        self._clock = clock
        self._second = -1
        self._date = b""
        self._waiting: asyncio.Future[None] | None = None

    def date(self) -> bytes:
        """The line of a head that says when it was written (RFC 9110, 6.6.1)."""
        second = self._clock.now() // SECOND
        if second != self._second:
            self._second = second
            self._date = b"date: %b\r\n" % http_date(second)
        return self._date

    async def gone(self) -> None:
        """Returns once nobody is connected and nobody works on an answer. One may wait for it at a time."""
        if self.connections or self.tasks:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _one_less(self) -> None:
        waiting = self._waiting
        if waiting is not None and not (self.connections or self.tasks or waiting.done()):
            waiting.set_result(None)


def http_date(second: int) -> bytes:
    """Seconds since 1970 as HTTP writes a date, in English wherever the machine stands."""
    at = time.gmtime(second)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return b"%b, %02d %b %04d %02d:%02d:%02d GMT" % (
        *(day.encode(), at.tm_mday, month.encode(), at.tm_year),
        *(at.tm_hour, at.tm_min, at.tm_sec),
    )
