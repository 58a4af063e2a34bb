"""A clock that stands still until a test moves it, and randomness that repeats."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Awaitable

from molecule_core.common.clock import SECOND, SystemClock

START = 1_800_000_000 * SECOND


class FakeClock:
    """Time passes only in `advance`. A wait ends when its signal comes or when the test has moved past its end."""

    def __init__(self) -> None:
        self.at = START
        self.set_by = 0
        """By how many microseconds somebody has set the clock on the wall; time itself passes as before."""
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        return self.at + self.set_by

    def monotonic(self) -> float:
        return self.at / SECOND

    async def wait(self, signal: Awaitable[object], seconds: float) -> bool:
        end = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._order), end))
        waiting = asyncio.ensure_future(signal)
        done, _ = await asyncio.wait((waiting, end), return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if waiting not in done:
            waiting.cancel()
        return waiting in done

    async def advance(self, seconds: float) -> None:
        """Moves time, and lets everything that has become due run."""
        self.at += round(seconds * SECOND)
        while self._sleepers and self._sleepers[0][0] <= self.monotonic():
            end = heapq.heappop(self._sleepers)[2]
            if not end.done():
                end.set_result(None)
        await settle()

    @property
    def sleepers(self) -> int:
        """How many wait at this moment."""
        return sum(not end.done() for _, _, end in self._sleepers)


class ShiftedClock(SystemClock):
    """The machine's clock, set wrong by some seconds."""

    def __init__(self, ahead_seconds: int) -> None:
        self._ahead = ahead_seconds * SECOND

    def now(self) -> int:
        return super().now() + self._ahead


async def settle(turns: int = 20) -> None:
    """Lets the loop take so many turns: everything that is ready has then run."""
    for _ in range(turns):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


class SeededRandomness:
    """The same bits for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def secret(self, count: int) -> bytes:
        return self._random.randbytes(count)
