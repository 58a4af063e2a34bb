"""Wake-ups carry no data: they only ask a waiter to poll again. Losing one costs latency, nothing else.

Every wait is this one primitive: register, read after the cursor, sleep. Where processes share a store, `store/bus.py`
brings the wake-ups of the others; as they may be lost, no waiter sleeps for long.
"""

import asyncio
import base64
import hashlib
import heapq
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from molecule_core.common import crash_points
from molecule_core.common.clock import Clock

T = TypeVar("T")
_SLOTS_PER_SECOND = 10
CHANNEL_ID_LENGTH = 8


def channel_id_of(key: str) -> str:
    """Return the short name of a wake-up key between processes. A collision would cost a useless poll."""
    return base64.urlsafe_b64encode(hashlib.blake2b(key.encode(), digest_size=6).digest()).decode()


class Poll(NamedTuple, Generic[T]):
    """Result of a poll. `next_poll_in`: seconds after which to poll again without a wake-up."""

    result: T | None
    next_poll_in: float | None = None


class Waiter:
    """One waiter. A notification before the wait lets the next wait return at once."""

    __slots__ = ("_future", "_notified")

    def __init__(self) -> None:
        self._notified = False
        self._future: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake the waiter, now or at its next wait."""
        self._notified = True  # control: early-ring
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, timer_wheel: "TimerWheel", seconds: float) -> None:
        """Return once notified, or after `seconds`."""
        if not self._notified:
            self._future = asyncio.get_running_loop().create_future()
            slot = timer_wheel.add(self, seconds)
            try:
                await self._future
            finally:
                self._future = None
                timer_wheel.remove(self, slot)
        self._notified = False


class TimerWheel:
    """Notifies waiters when their time is up, with one timer for all of them: a wait costs neither a timer nor a task.

    Times are rounded up to the next tenth of a second."""

    def __init__(self, clock: Clock) -> None:
        self.sleeping = 0
        self._clock = clock
        self._slots: dict[int, dict[Waiter, None]] = {}
        self._slot_heap: list[int] = []
        self._changed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, waiter: Waiter, seconds: float) -> int:
        """Schedule a waiter; return its slot."""
        slot = math.ceil((self._clock.monotonic() + seconds) * _SLOTS_PER_SECOND)  # control: alarm-slot
        slot_waiters = self._slots.get(slot)
        if slot_waiters is None:
            slot_waiters = self._slots[slot] = {}
            heapq.heappush(self._slot_heap, slot)
        slot_waiters[waiter] = None
        self.sleeping += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        elif self._slot_heap[0] == slot:
            self._recheck()
        return slot

    def remove(self, waiter: Waiter, slot: int) -> None:
        """Remove a waiter from its slot."""
        self.sleeping -= 1
        slot_waiters = self._slots.get(slot)
        if slot_waiters is not None:
            slot_waiters.pop(waiter, None)
            if not slot_waiters:
                del self._slots[slot]
        if not self.sleeping:
            self._recheck()

    def _recheck(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _run(self) -> None:
        """Run while there are waiters that were not notified."""
        while self.sleeping and self._slot_heap:
            slot = self._slot_heap[0]
            left = slot / _SLOTS_PER_SECOND - self._clock.monotonic()
            if left > 0 and slot in self._slots:
                self._changed = asyncio.get_running_loop().create_future()
                await self._clock.wait(self._changed, left)
                continue
            heapq.heappop(self._slot_heap)
            for waiter in self._slots.pop(slot, ()):
                waiter.notify()
        self._slot_heap.clear()


class Notifier:
    """Waiters by key, within this process.

    `look_again_seconds`: maximum sleep of a waiter, where wake-ups come from other processes and may be lost."""

    def __init__(self, clock: Clock, *, look_again_seconds: float | None = None) -> None:
        self._clock = clock
        self._max_sleep_seconds = look_again_seconds
        self._key_by_channel: dict[str, str] = {}
        self._timer_wheel = TimerWheel(clock)
        # In order of arrival: the longest waiting is woken first, and a simulation is deterministic.
        self._waiters: dict[str, dict[Waiter, None]] = {}
        self.closing = False

    @property
    def sleeping(self) -> int:
        """Return the number of waiters that sleep now."""
        return self._timer_wheel.sleeping

    def notify(self, keys: Iterable[str]) -> None:
        """Wake all waiters of these keys."""
        for key in keys:
            for waiter in self._waiters.get(key, ()):
                waiter.notify()

    def notify_remote(self, channel_ids: Iterable[str]) -> None:
        """Wake the waiters of keys that another process named by their channel ids."""
        self.notify(
            [self._key_by_channel[channel_id] for channel_id in channel_ids if channel_id in self._key_by_channel]
        )

    def notify_all(self) -> None:
        """Wake all waiters."""
        self.notify(list(self._waiters))

    def close(self) -> None:
        """End every wait at once with what it has: the server is stopping."""
        self.closing = True
        self.notify_all()

    def count_waiters(self, key: str) -> int:
        """Return the number of waiters of a key."""
        return len(self._waiters.get(key, ()))

    async def wait_until(self, key: str, poll: Callable[[], Awaitable[Poll[T]]], seconds: float) -> T | None:
        """Poll until something is found, for at most `seconds`. Misses nothing: it registers before it polls."""
        return await self.wait_until_any((key,), poll, seconds)

    async def wait_until_any(
        self, keys: Iterable[str], poll: Callable[[], Awaitable[Poll[T]]], seconds: float
    ) -> T | None:
        """Poll as `wait_until`; a notification of any of the keys causes a poll."""
        waiter, keys = Waiter(), tuple(dict.fromkeys(keys))
        self._register(keys, waiter)  # control: bell-before-look
        deadline = self._clock.monotonic() + seconds
        try:
            while True:
                polled = await poll()  # control: look-after-bell
                left = deadline - self._clock.monotonic()
                if polled.result is not None or left <= 0 or self.closing:
                    return polled.result
                bounds = (left, polled.next_poll_in, self._max_sleep_seconds)
                await waiter.wait(self._timer_wheel, min(each for each in bounds if each is not None))
                crash_points.mark_reached("waiter.woken")
        finally:
            for key in keys:
                self._unregister(key, waiter)

    def _register(self, keys: Iterable[str], waiter: Waiter) -> None:
        for key in keys:
            self._waiters.setdefault(key, {})[waiter] = None
            if self._max_sleep_seconds is not None:
                self._key_by_channel[channel_id_of(key)] = key

    def _unregister(self, key: str, waiter: Waiter) -> None:
        waiters = self._waiters[key]
        waiters.pop(waiter, None)
        if not waiters:
            del self._waiters[key]
            if self._max_sleep_seconds is not None:
                self._key_by_channel.pop(channel_id_of(key), None)
