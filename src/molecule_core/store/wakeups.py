"""Wake-ups carry no data: they say "look again". Losing one costs latency, nothing else.

Every wait in Molecule is this one primitive: register, read after the cursor, sleep. Where several processes share a
store, the wake-ups of the others come by way of `store/bus.py`, and as they may be lost, nobody sleeps for long.
"""

import asyncio
import base64
import hashlib
import heapq
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from molecule_core.ground import points
from molecule_core.ground.clock import Clock

T = TypeVar("T")
_SLOTS_A_SECOND = 10
MARK_LENGTH = 8


def mark_of(key: str) -> str:
    """What a wake-up key is called between processes. Two keys with one mark would cost a look in vain."""
    return base64.urlsafe_b64encode(hashlib.blake2b(key.encode(), digest_size=6).digest()).decode()


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
        self._rung = True  # control: early-ring
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, alarm: "Alarm", seconds: float) -> None:
        """Returns once rung, or after so many seconds."""
        if not self._rung:
            self._waiting = asyncio.get_running_loop().create_future()
            slot = alarm.set(self, seconds)
            try:
                await self._waiting
            finally:
                self._waiting = None
                alarm.unset(self, slot)
        self._rung = False


class Alarm:
    """Rings bells when their time is up: one timer of the clock for all of them, so that a wait costs neither a timer
    nor a task. Times are rounded up to the next tenth of a second."""

    def __init__(self, clock: Clock) -> None:
        self.asleep = 0
        self._clock = clock
        self._slots: dict[int, dict[Bell, None]] = {}
        self._order: list[int] = []
        self._changed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def set(self, bell: Bell, seconds: float) -> int:
        """Rings a bell after so many seconds, unless it is unset before; returns the slot that it stands in."""
        slot = math.ceil((self._clock.monotonic() + seconds) * _SLOTS_A_SECOND)  # control: alarm-slot
        bells = self._slots.get(slot)
        if bells is None:
            bells = self._slots[slot] = {}
            heapq.heappush(self._order, slot)
        bells[bell] = None
        self.asleep += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
        elif self._order[0] == slot:
            self._look_again()
        return slot

    def unset(self, bell: Bell, slot: int) -> None:
        """A bell need not be rung any more."""
        self.asleep -= 1
        bells = self._slots.get(slot)
        if bells is not None:
            bells.pop(bell, None)
            if not bells:
                del self._slots[slot]
        if not self.asleep:
            self._look_again()

    def _look_again(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _work(self) -> None:
        """Runs while somebody sleeps who has not been rung."""
        while self.asleep and self._order:
            slot = self._order[0]
            left = slot / _SLOTS_A_SECOND - self._clock.monotonic()
            if left > 0 and slot in self._slots:
                self._changed = asyncio.get_running_loop().create_future()
                await self._clock.wait(self._changed, left)
                continue
            heapq.heappop(self._order)
            for bell in self._slots.pop(slot, ()):
                bell.ring()
        self._order.clear()


class Wakeups:
    """Who waits for what, within this process. `look_again_seconds`: others may ring too, and a wake-up of theirs may
    be lost, so nobody sleeps longer than this."""

    def __init__(self, clock: Clock, *, look_again_seconds: float | None = None) -> None:
        self._clock = clock
        self._longest_sleep = look_again_seconds
        self._keys: dict[str, str] = {}
        self._alarm = Alarm(clock)
        # In the order in which they came: who waits longest is woken first, and the same game has the same course.
        self._waiters: dict[str, dict[Bell, None]] = {}
        self.closing = False

    @property
    def asleep(self) -> int:
        """How many wait at this moment, and do not look."""
        return self._alarm.asleep

    def ring(self, keys: Iterable[str]) -> None:
        """Wakes all who wait for one of the keys."""
        for key in keys:
            for bell in self._waiters.get(key, ()):
                bell.ring()

    def ring_marks(self, marks: Iterable[str]) -> None:
        """The same, for keys that another process has named by their marks."""
        self.ring([self._keys[mark] for mark in marks if mark in self._keys])

    def ring_all(self) -> None:
        """Wakes everybody."""
        self.ring(list(self._waiters))

    def close(self) -> None:
        """Lets every wait end at once with what it has: the server is stopping."""
        self.closing = True
        self.ring_all()

    def waiters(self, key: str) -> int:
        """How many wait for a key."""
        return len(self._waiters.get(key, ()))

    async def until(self, key: str, look: Callable[[], Awaitable[Look[T]]], seconds: float) -> T | None:
        """Looks until something is found, at most for so many seconds. Never misses: it registers before it looks."""
        return await self.until_any((key,), look, seconds)

    async def until_any(self, keys: Iterable[str], look: Callable[[], Awaitable[Look[T]]], seconds: float) -> T | None:
        """The same for several keys: a ring of any of them lets it look again."""
        bell, keys = Bell(), tuple(dict.fromkeys(keys))
        self._register(keys, bell)  # control: bell-before-look
        deadline = self._clock.monotonic() + seconds
        try:
            while True:
                looked = await look()  # control: look-after-bell
                left = deadline - self._clock.monotonic()
                if looked.found is not None or left <= 0 or self.closing:
                    return looked.found
                await bell.wait(self._alarm, self._sleep(left, looked.again_in))
                points.reached("waiter.woken")
        finally:
            for key in keys:
                self._forget(key, bell)

    def _register(self, keys: Iterable[str], bell: Bell) -> None:
        for key in keys:
            self._waiters.setdefault(key, {})[bell] = None
            if self._longest_sleep is not None:
                self._keys[mark_of(key)] = key

    def _sleep(self, left: float, again_in: float | None) -> float:
        return min(each for each in (left, again_in, self._longest_sleep) if each is not None)

    def _forget(self, key: str, bell: Bell) -> None:
        waiters = self._waiters[key]
        waiters.pop(bell, None)
        if not waiters:
            del self._waiters[key]
            if self._longest_sleep is not None:
                self._keys.pop(mark_of(key), None)
