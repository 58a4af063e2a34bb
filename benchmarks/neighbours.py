"""Agents that work at an even pace while others may misbehave: a light client in a process of its own.

    python -m benchmarks.neighbours

converses as `benchmarks.load` does. Each message leaves at its own time, whether or not the ones before it were
answered. Half of the targets poll; the others are pushed to, and this process is their agent. A message has arrived
when its claim, or its push, has been read here. Every message must arrive; anything else is an error.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from typing import TypeVar, cast

from msgspec import Struct

from benchmarks.exchange import Exchange
from benchmarks.load import (
    DEADLINE_SECONDS,
    Claimed,
    Plan,
    Receiver,
    Seat,
    Sender,
    Work,
    await_go,
    converse,
    number_of,
)
from benchmarks.machine import percentile

_MARK = b'"messageId":"'
# A message id ends with the message's number.
_NUMBER_BEGINS, _NUMBER_ENDS = len(_MARK) + 24, len(_MARK) + 36
E = TypeVar("E", bound=Exchange)
_TAKEN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class PacePlan(Struct, frozen=True, kw_only=True):
    """`load`: who writes to whom, in turn, and how much; `per_second` of it. `ports`: where those of the targets
    listen that are pushed to, by the target's place in the list."""

    load: Plan
    per_second: float
    ports: dict[int, int]


class PaceOutcome(Struct, frozen=True, kw_only=True):
    """What happened: from the moment at which a message was due to its receipt, and to its arrival."""

    arrived: int
    receipt_p50_ms: float
    receipt_p99_ms: float
    polled_p50_ms: float
    polled_p99_ms: float
    pushed_p50_ms: float
    pushed_p99_ms: float


class Pace(Work):
    """Messages that are due, and when each arrived."""

    def __init__(self, plan: PacePlan, done: "asyncio.Future[None]") -> None:
        super().__init__(plan.load, done)
        self.pushed_to = plan.ports
        self.polled_times: list[float] = []
        self.pushed_times: list[float] = []

    def claimed(self, rows: list[Claimed]) -> None:
        self.claims += 1
        for row in rows:
            self._arrived(number_of(row), self.polled_times)

    def pushed(self, numbers: Iterable[int]) -> None:
        """An agent that is pushed to was called."""
        for number in numbers:
            self._arrived(number, self.pushed_times)
            self.acknowledged(1)

    def _arrived(self, number: int, times: list[float]) -> None:
        if number in self.seen:
            self.fail(f"message {number} arrived twice")
        self.seen.add(number)
        times.append(time.perf_counter() - self.sent_at[number])


class Paced(Sender):
    """Sends when it is told to; what is due while an answer is awaited leaves right after it."""

    def __init__(self, work: Pace, sender: Seat) -> None:
        super().__init__(work, sender)
        self._due: list[int] = []
        self._is_waiting = False

    def start(self) -> None:
        """Waits to be told."""

    def due(self, number: int) -> None:
        """The time of a message has come."""
        self.work.sent_at[number] = time.perf_counter()
        self._due.append(number)
        if not self._is_waiting:
            self._send()

    def _send(self) -> None:
        self._is_waiting = True
        self._number = number = self._due.pop(0)
        self.write(self.request(number, self.name(number).encode()))

    def answered(self, body: bytes) -> None:
        self.work.replied(self._number)
        self._is_waiting = False
        if self._due:
            self._send()


class Pushed(asyncio.Protocol):
    """An agent that the server calls: it takes each message at once and has nothing to say."""

    def __init__(self, work: Pace) -> None:
        self._work = work
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or len(self._buffer) < end + 4 + _content_length(bytes(self._buffer[:end])):
            return
        self._work.pushed(_numbers(self._buffer))
        self._buffer.clear()
        self._transport.write(_TAKEN)


def _content_length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(b"content-length:") + 15
    return int(lower[start:].partition(b"\r")[0])


def _numbers(text: bytes | bytearray) -> Iterator[int]:
    """The numbers of the messages that a body holds."""
    start = text.find(_MARK)
    while start >= 0:
        yield int(text[start + _NUMBER_BEGINS : start + _NUMBER_ENDS], 16)
        start = text.find(_MARK, start + 1)


async def run(plan: PacePlan) -> PaceOutcome:
    """Does what is planned. Raises ConnectionError or TimeoutError."""
    loop = asyncio.get_running_loop()
    work = Pace(plan, loop.create_future())
    async with AsyncExitStack() as stack:
        for port in plan.ports.values():
            listener = await loop.create_server(lambda: Pushed(work), "127.0.0.1", port)
            stack.callback(listener.close)
        exchanges, senders = await _connect(work)
        await_go()
        for exchange in exchanges:
            exchange.start()
        start, gap = loop.time(), 1 / plan.per_second
        for number in range(plan.load.count):
            loop.call_at(start + number * gap, senders[number % len(senders)].due, number)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await work.done
    return _outcome(work)


async def _connect(work: Pace) -> tuple[list[Receiver], list[Paced]]:
    plan = work.plan
    polling = [seat for place, seat in enumerate(plan.targets) if place not in work.pushed_to]
    receivers = [await _connected(Receiver(work, seat), plan.port) for seat in polling]
    return receivers, [await _connected(Paced(work, seat), plan.port) for seat in plan.senders]


async def _connected(exchange: E, port: int) -> E:
    await asyncio.get_running_loop().create_connection(lambda: exchange, "127.0.0.1", port)
    return exchange


def _outcome(work: Pace) -> PaceOutcome:
    return PaceOutcome(
        arrived=len(work.seen),
        receipt_p50_ms=percentile(work.reply_times, 50) * 1000,
        receipt_p99_ms=percentile(work.reply_times, 99) * 1000,
        polled_p50_ms=percentile(work.polled_times, 50) * 1000,
        polled_p99_ms=percentile(work.polled_times, 99) * 1000,
        pushed_p50_ms=percentile(work.pushed_times, 50) * 1000,
        pushed_p99_ms=percentile(work.pushed_times, 99) * 1000,
    )


if __name__ == "__main__":
    converse(PacePlan, run)
