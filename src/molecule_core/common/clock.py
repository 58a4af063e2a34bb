"""Time sources. Other packages receive a Clock and never read the machine's clock themselves."""

import asyncio
import time
import types
from collections.abc import Awaitable, Generator
from typing import Protocol

MICROSECOND = 1
SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR


class Clock(Protocol):
    """Two clocks and a wait.

    Wall time is for timestamps, monotonic time for waits: a jump of the wall clock must not expire a wait early or
    extend one."""

    def now(self) -> int:
        """Return wall time in microseconds since 1970-01-01 UTC."""

    def monotonic(self) -> float:
        """Return seconds that never decrease; only differences are meaningful."""

    async def wait(self, signal: Awaitable[object], seconds: float) -> bool:
        """Return whether the signal came within this many seconds. The signal is cancelled on timeout."""


class SystemClock(Clock):
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> int:
        return time.time_ns() // 1000

    async def wait(self, signal: Awaitable[object], seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await signal
        except TimeoutError:
            return False
        return True


@types.coroutine
def yield_to_others() -> Generator[None, None, None]:
    """Yield until all ready tasks of the loop have run once. Cancellation is safe."""
    yield


_cached_second = -1
_cached_prefix = ""


def to_rfc3339(at: int) -> str:
    """Format microseconds since 1970 as RFC 3339 text in UTC with six digits: `2026-11-21T22:41:07.000042Z`."""
    global _cached_second, _cached_prefix
    second, micros = divmod(at, SECOND)
    if second != _cached_second:
        _cached_second, _cached_prefix = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_cached_prefix}.{micros:06d}Z"


def to_optional_rfc3339(at: int | None) -> str | None:
    """Format a time as `to_rfc3339` does; None stays None."""
    return None if at is None else to_rfc3339(at)
