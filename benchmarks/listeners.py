"""Many WebSockets that listen while one connection writes: a light client in a process of its own.

    python -m benchmarks.listeners

converses as `benchmarks.load` does. Every socket must be told every message exactly once and in order; anything else is
an error. Messages leave one at a time, each when all sockets were told the one before, or, `together`, each when the
receipt of the one before came. Times are from the first byte of a message to the last byte of its frame on a socket;
all clocks are in this process, and what it takes to read the sockets before it counts.
"""

import asyncio
import time
from array import array
from typing import cast

from msgspec import Struct

from benchmarks.load import DEADLINE_SECONDS, Plan, Seat, Sender, Work, await_go, converse
from benchmarks.machine import percentile

_OPENED_AT_ONCE = 50
_MARK = b'"messageId":"'
# A message id ends with the message's number.
_NUMBER_BEGINS, _NUMBER_ENDS = len(_MARK) + 24, len(_MARK) + 36
_TWO_BYTES, _EIGHT_BYTES = 126, 127


class ListenPlan(Struct, frozen=True, kw_only=True):
    """Who listens where, and what is written meanwhile. `greeted`: the server begins with a frame of its own."""

    load: Plan
    listeners: int
    port: int
    token: str
    greeted: bool
    together: bool = False


class ListenOutcome(Struct, frozen=True, kw_only=True):
    """What happened. `each`: from the message to a socket; `last`: from the message to its last socket."""

    deliveries: int
    frame_bytes: int
    seconds: float
    client_cpu: float
    receipt_p50_ms: float
    receipt_p99_ms: float
    each_p50_ms: float
    each_p99_ms: float
    last_p50_ms: float
    last_p99_ms: float


class Audience(Work):
    """Messages under way, and who was told."""

    def __init__(self, plan: ListenPlan, done: "asyncio.Future[None]") -> None:
        super().__init__(plan.load, done)
        self.listen = plan
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sender: Sender | None = None
        self.frame_bytes = 0
        self.told_times = array("d")
        self.last_times: list[float] = []
        self._open = 0
        self._told = [0] * plan.load.count

    def one_is_open(self) -> None:
        """Another socket listens."""
        self._open += 1
        if self._open == self.listen.listeners:
            self.opened.set_result(None)

    def told(self, number: int, at: float) -> None:
        """A socket has a message's frame."""
        taken = at - self.sent_at[number]
        self.told_times.append(taken)
        self._told[number] += 1
        if self._told[number] == self.listen.listeners:
            self.last_times.append(taken)
            self._look()

    def fail(self, why: str) -> None:
        """Gives up, also before all sockets are open."""
        super().fail(why)
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(why))

    def _look(self) -> None:
        settled = min(self.replies, len(self.last_times))
        if settled == self.plan.count:
            self.finish()
        elif settled == self.taken and self.sender is not None and not self.listen.together:
            self.sender.start()


class PatientSender(Sender):
    """Leaves it to the audience when the next message goes."""

    def answered(self, body: bytes) -> None:
        self.work.replied(self._number)


class Listener(asyncio.Protocol):
    """One WebSocket that reads."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._rest = b""
        self._upgraded = False
        self._is_open = False
        self._next = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plan = self._audience.listen
        cast(asyncio.Transport, transport).write(socket_request(plan.port, plan.token))

    def connection_lost(self, exc: Exception | None) -> None:
        self._audience.fail(f"the server hung up on a listener: {exc}")

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        data = self._rest + data if self._rest else data
        start = 0 if self._upgraded else self._after_head(data)
        while end := _end_of_frame(data, start):
            self._frame(data, start, end, now)
            start = end
        self._rest = data[start:]

    def _after_head(self, data: bytes) -> int:
        """Where the frames begin; 0 while the head of the answer is not whole."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return 0
        if not data.startswith(b"HTTP/1.1 101"):
            self._audience.fail(f"no WebSocket: {data[:300]!r}")
        self._upgraded = True
        if not self._audience.listen.greeted:
            self._listen()
        return end + 4

    def _listen(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._audience.one_is_open()

    def _frame(self, data: bytes, start: int, end: int, now: float) -> None:
        self._listen()
        mark = data.find(_MARK, start, end)
        if mark < 0:  # a greeting, or a sign of life
            return
        number = int(data[mark + _NUMBER_BEGINS : mark + _NUMBER_ENDS], 16)
        if number != self._next:
            self._audience.fail(f"a listener got message {number} where {self._next} was due")
        self._next += 1
        self._audience.frame_bytes = end - start
        self._audience.told(number, now)


def socket_request(port: int, token: str) -> bytes:
    """The request that opens a WebSocket."""
    return (
        f"GET /ws HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n"
        "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n"
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def _end_of_frame(data: bytes, start: int) -> int:
    """Where a server's frame ends; 0 if it is not whole, or not begun."""
    if len(data) < start + 2:
        return 0
    length, head = data[start + 1], start + 2
    if length == _TWO_BYTES:
        length, head = int.from_bytes(data[head : head + 2], "big"), head + 2
    elif length == _EIGHT_BYTES:
        length, head = int.from_bytes(data[head : head + 8], "big"), head + 8
    end = head + length
    return end if end <= len(data) else 0


async def _open(audience: Audience) -> None:
    """All listeners, some at a time so that no queue of new connections overflows; then the sender."""
    loop, plan = asyncio.get_running_loop(), audience.listen
    for start in range(0, plan.listeners, _OPENED_AT_ONCE):
        some = range(start, min(plan.listeners, start + _OPENED_AT_ONCE))
        await asyncio.gather(
            *(loop.create_connection(lambda: Listener(audience), "127.0.0.1", plan.port) for _ in some)
        )
    await audience.opened
    kind = Sender if plan.together else PatientSender
    seat: Seat = plan.load.senders[0]
    _, audience.sender = await loop.create_connection(lambda: kind(audience, seat), "127.0.0.1", plan.load.port)


async def run(plan: ListenPlan) -> ListenOutcome:
    """Does what is planned. Raises ConnectionError or TimeoutError."""
    audience = Audience(plan, asyncio.get_running_loop().create_future())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await _open(audience)
    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    assert audience.sender is not None
    audience.sender.start()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await audience.done
    return _outcome(audience, time.perf_counter() - start, time.process_time() - cpu)


def _outcome(audience: Audience, seconds: float, cpu: float) -> ListenOutcome:
    def spread(taken: "list[float] | array[float]") -> tuple[float, float]:
        return percentile(taken, 50) * 1000, percentile(taken, 99) * 1000

    receipt, each, last = spread(audience.reply_times), spread(audience.told_times), spread(audience.last_times)
    return ListenOutcome(
        deliveries=len(audience.told_times),
        frame_bytes=audience.frame_bytes,
        seconds=seconds,
        client_cpu=cpu,
        receipt_p50_ms=receipt[0],
        receipt_p99_ms=receipt[1],
        each_p50_ms=each[0],
        each_p99_ms=each[1],
        last_p50_ms=last[0],
        last_p99_ms=last[1],
    )


if __name__ == "__main__":
    converse(ListenPlan, run)
