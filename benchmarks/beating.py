"""Agents that say that they are there, at an even pace: a light client in a process of its own.

    python -m benchmarks.beating

converses as `benchmarks.load` does. Each seat beats once in a period, all of them evenly spread over it, on a few kept
connections that take turns. One that was not answered with success, or left more than a second late, spoils the run.
"""

import asyncio
import time
from collections import deque

import msgspec
from msgspec import Struct

from benchmarks.exchange import Exchange, head
from benchmarks.load import DEADLINE_SECONDS, Seat, await_go, converse
from benchmarks.machine import percentile

_LATE_SECONDS = 1.0


class BeatPlan(Struct, frozen=True, kw_only=True):
    """What to do: each of `seats` beats once in `every` seconds, for so many `seconds`, over so many connections."""

    port: int
    seats: list[Seat]
    every: float
    seconds: float
    connections: int


class BeatOutcome(Struct, frozen=True, kw_only=True):
    """What happened."""

    beats: int
    seconds: float
    answer_p50_ms: float
    answer_p99_ms: float


class Beats:
    """When which seat is due, and what was answered."""

    def __init__(self, plan: BeatPlan, done: "asyncio.Future[None]") -> None:
        self.plan = plan
        self.done = done
        self.times: list[float] = []
        self.count = round(len(plan.seats) * plan.seconds / plan.every)
        self._loop = asyncio.get_running_loop()
        self._gap = plan.every / len(plan.seats)
        self._next = 0
        self._idle: deque[Beater] = deque()

    def run(self, beaters: "list[Beater]") -> None:
        """From now on."""
        self._idle.extend(beaters)
        self._began = self._loop.time()
        self._due()

    def _due(self) -> None:
        """Lets all leave whose time has come, and waits for the next."""
        while self._next < self.count:
            at = self._began + self._next * self._gap
            late = self._loop.time() - at
            if late < 0:
                self._loop.call_at(at, self._due)
                return
            if late > _LATE_SECONDS:
                self.fail("heartbeats leave late: the server, or this client, does not keep up")
                return
            if not self._idle:
                return  # the next answer goes on
            self._idle.popleft().beat(self._next)
            self._next += 1

    def answered(self, beater: "Beater", seconds: float) -> None:
        """One was answered."""
        self.times.append(seconds)
        was_short = not self._idle
        self._idle.append(beater)
        if len(self.times) == self.count and not self.done.done():
            self.done.set_result(None)
        elif was_short:
            self._due()

    def fail(self, why: str) -> None:
        """Gives up."""
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))


class Beater(Exchange):
    """A connection that beats for one seat after the other."""

    def __init__(self, beats: Beats) -> None:
        super().__init__(beats)
        self._beats = beats
        self._sent_at = 0.0

    def beat(self, number: int) -> None:
        """For the seat whose turn it is, what an agent with nothing to do says."""
        plan = self._beats.plan
        seat = plan.seats[number % len(plan.seats)]
        body = msgspec.json.encode({"workspace_id": seat.id, "active_tasks": 0, "uptime_seconds": number})
        self._sent_at = time.perf_counter()
        self.write(head("POST", "/registry/heartbeat", seat.token, plan.port, len(body)) + body)

    def answered(self, body: bytes) -> None:
        self._beats.answered(self, time.perf_counter() - self._sent_at)


async def run(plan: BeatPlan) -> BeatOutcome:
    """Beats as planned. Raises ConnectionError or TimeoutError."""
    loop = asyncio.get_running_loop()
    beats = Beats(plan, loop.create_future())
    beaters = [
        (await loop.create_connection(lambda: Beater(beats), "127.0.0.1", plan.port))[1]
        for _ in range(plan.connections)
    ]
    await_go()
    start = time.perf_counter()
    beats.run(beaters)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await beats.done
    seconds = time.perf_counter() - start
    p50, p99 = (percentile(beats.times, each) * 1000 for each in (50, 99))
    return BeatOutcome(beats=len(beats.times), seconds=seconds, answer_p50_ms=p50, answer_p99_ms=p99)


if __name__ == "__main__":
    converse(BeatPlan, run)
