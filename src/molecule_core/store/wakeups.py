"""Wake-ups carry no data: they say "look again". Losing one costs latency, nothing else.

Every wait in Molecule is this one primitive: register, read after the cursor, sleep.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from molecule_core.ground.clock import Clock

T = TypeVar("T")


class Look(NamedTuple, Generic[T]):
    """What a look found. `again_in` says after how many seconds it is worth looking without being woken."""

    found: T | None
    again_in: float | None = None


class Bell:
    """One waiter's bell. Rung before it is waited for, it lets the next wait through."""

    __slots__ = ("_rung", "_waiting")

    def __init__(self) -> None:
        self._rung = False
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wakes the waiter, now or at its next wait."""
        self._rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, clock: Clock, seconds: float) -> None:
        """Returns once rung, or after so many seconds."""
        if not self._rung:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await clock.wait(self._waiting, seconds)
            finally:
                self._waiting = None
        self._rung = False


class Wakeups:
    """Who waits for what, within this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiters: dict[str, set[Bell]] = {}
        self.closing = False

    def ring(self, keys: Iterable[str]) -> None:
        """Wakes all who wait for one of the keys."""
        for key in keys:
            for bell in self._waiters.get(key, ()):
                bell.ring()

    def close(self) -> None:
        """Lets every wait end at once with what it has: the server is stopping."""
        self.closing = True
        self.ring(list(self._waiters))

    def waiters(self, key: str) -> int:
        """How many wait for a key."""
        return len(self._waiters.get(key, ()))

    async def until(self, key: str, look: Callable[[], Awaitable[Look[T]]], seconds: float) -> T | None:
        """Looks until something is found, at most for so many seconds. Never misses: it registers before it looks."""
        bell = Bell()
        self._waiters.setdefault(key, set()).add(bell)
        deadline = self._clock.monotonic() + seconds
        try:
            while True:
                looked = await look()
                left = deadline - self._clock.monotonic()
                if looked.found is not None or left <= 0 or self.closing:
                    return looked.found
                await bell.wait(self._clock, left if looked.again_in is None else min(left, looked.again_in))
        finally:
            self._forget(key, bell)

    def _forget(self, key: str, bell: Bell) -> None:
        waiters = self._waiters[key]
        waiters.discard(bell)
        if not waiters:
            del self._waiters[key]
