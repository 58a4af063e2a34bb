"""The load: a light client in a process of its own, so that its work is never counted as the server's.

    python -m benchmarks.load

reads a plan (one line of JSON), opens its connections, prints `ready`, waits for a line, does what is planned, prints
the outcome (one line of JSON), and hangs up once its input ends. Each sending connection has one request under way at
any time.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import uvloop
from msgspec import Struct

from benchmarks.exchange import Exchange, head
from benchmarks.machine import percentile

DEADLINE_SECONDS = 300.0  # no segment of a run takes a fifth of that; a longer one hangs
_ID_LENGTH, _NUMBER_DIGITS = 36, 12
_LEASE, _WAIT, _PAGE = 60, 25, 500

P = TypeVar("P", bound=Struct)


class Seat(Struct, frozen=True):
    """A workspace that takes part: its id and its token."""

    id: str
    token: str


class Plan(Struct, frozen=True, kw_only=True):
    """What to do: `count` messages from `senders` (a connection each) in turn to `targets`.

    Message ids are random (version 4 UUIDs, as most clients make them), or with `ordered_ids` begin with the time
    (version 7). With `receive`, a connection for each target claims and acknowledges every message; `include`: what it
    wishes with each. With `requests`, no messages but these ready requests, a connection each, so often that there are
    `count` in all."""

    port: int
    count: int
    seed: int = 0
    ordered_ids: bool = False
    text: str = ""
    senders: list[Seat] = []
    targets: list[Seat] = []
    receive: bool = False
    include: str = ""
    requests: list[str] = []


class Outcome(Struct, frozen=True, kw_only=True):
    """What happened. Times from the first request to the last answer or acknowledgement. `instructed`: deliveries that
    said how to answer."""

    replies: int
    deliveries: int
    distinct: int
    instructed: int
    claims: int
    body_bytes: int
    seconds: float
    client_cpu: float
    reply_p50_ms: float
    reply_p99_ms: float
    delivery_p50_ms: float | None = None
    delivery_p99_ms: float | None = None


class _Message(Struct):
    messageId: str


class _Params(Struct):
    message: _Message


class _Request(Struct):
    params: _Params


class _Instructions(Struct):
    text: str


class Claimed(Struct):
    """A message that was handed out, as far as it matters here."""

    seq: int
    request_body: _Request
    instructions: _Instructions | None = None


_CLAIMED = msgspec.json.Decoder(list[Claimed])


def number_of(row: Claimed) -> int:
    """The number of a message."""
    return int(row.request_body.params.message.messageId[-_NUMBER_DIGITS:], 16)


class Work:
    """What is left to do, what was done, and when."""

    def __init__(self, plan: Plan, done: "asyncio.Future[None]") -> None:
        self.plan = plan
        self.done = done
        self.chance = random.Random(plan.seed)
        self.taken = 0
        self.replies = 0
        self.deliveries = 0
        self.claims = 0
        self.instructed = 0
        self.body_bytes = 0
        self.sent_at = [0.0] * plan.count
        self.reply_times: list[float] = []
        self.delivery_times: list[float] = []
        self.seen: set[int] = set()

    def take(self) -> int | None:
        """The number of the next message; None if all are sent."""
        if self.taken == self.plan.count:
            return None
        self.taken += 1
        return self.taken - 1

    def replied(self, number: int) -> None:
        """A receipt came."""
        self.replies += 1
        self.reply_times.append(time.perf_counter() - self.sent_at[number])
        self._look()

    def claimed(self, rows: list[Claimed]) -> None:
        """Messages were handed out."""
        now = time.perf_counter()
        self.claims += 1
        for row in rows:
            number = number_of(row)
            self.seen.add(number)
            self.instructed += row.instructions is not None and bool(row.instructions.text)
            self.delivery_times.append(now - self.sent_at[number])

    def acknowledged(self, count: int) -> None:
        """So many deliveries are settled."""
        self.deliveries += count
        self._look()

    def fail(self, why: str) -> None:
        """Gives up: a measurement with an error in it is none."""
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))

    def _look(self) -> None:
        expected = self.plan.count if self.plan.receive else 0
        if self.replies >= self.plan.count and self.deliveries >= expected:
            self.finish()

    def finish(self) -> None:
        """All is done."""
        if not self.done.done():
            self.done.set_result(None)


class Sender(Exchange):
    """Sends one message after the other, each when the last was answered. Each id ends with the message's number."""

    def __init__(self, work: Work, sender: Seat) -> None:
        super().__init__(work)
        self.work = work
        start, end = _body_around(work.plan)
        self._number = 0
        self._tail = end
        length = len(start) + len(end) + 2 * _ID_LENGTH + len(_BETWEEN)
        work.body_bytes = length
        self._heads = [
            head("POST", f"/workspaces/{target.id}/a2a", sender.token, work.plan.port, length) + start
            for target in work.plan.targets
        ]

    def start(self) -> None:
        number = self.work.take()
        if number is None:
            return
        self._number = number
        name = self.name(number).encode()
        self.work.sent_at[number] = time.perf_counter()
        self.write(self.request(number, name))

    def request(self, number: int, name: bytes) -> bytes:
        """A message as it travels; its number says to whom."""
        return self._heads[number % len(self._heads)] + name + _BETWEEN + name + self._tail

    def name(self, number: int) -> str:
        """An id that ends with a number."""
        start = f"{self.work.chance.getrandbits(72):018x}"
        version = 4
        if self.work.plan.ordered_ids:
            start, version = f"{time.time_ns() // 1_000_000:012x}{start[12:]}", 7
        return f"{start[:8]}-{start[8:12]}-{version}{start[12:15]}-a{start[15:]}-{number:0{_NUMBER_DIGITS}x}"

    def answered(self, body: bytes) -> None:
        self.work.replied(self._number)
        self.start()


_BETWEEN = b'","method":"message/send","params":{"message":{"role":"user","messageId":"'


def _body_around(plan: Plan) -> tuple[bytes, bytes]:
    parts = msgspec.json.encode([{"kind": "text", "text": plan.text}])
    return b'{"jsonrpc":"2.0","id":"', b'","parts":' + parts + b',"metadata":{"intent":"request"}}}}'


class Receiver(Exchange):
    """Claims what there is, waiting for it, and acknowledges it."""

    def __init__(self, work: Work, seat: Seat) -> None:
        super().__init__(work)
        self.work = work
        self._seat = seat
        wish = f"&include={work.plan.include}" if work.plan.include else ""
        path = f"/workspaces/{seat.id}/activity?claim={_LEASE}&wait={_WAIT}&limit={_PAGE}{wish}"
        self._claim = head("GET", path, seat.token, work.plan.port, 0)
        self._unacknowledged = 0

    def start(self) -> None:
        self.write(self._claim)

    def answered(self, body: bytes) -> None:
        if self._unacknowledged:
            self.work.acknowledged(self._unacknowledged)
            self._unacknowledged = 0
            self.start()
            return
        rows = _CLAIMED.decode(body)
        self.work.claimed(rows)
        if not rows:
            self.start()
            return
        self._unacknowledged = len(rows)
        ack = b'{"acked_seq":%d}' % rows[-1].seq
        path = f"/workspaces/{self._seat.id}/activity/ack"
        self.write(head("POST", path, self._seat.token, self.work.plan.port, len(ack)) + ack)


class Repeater(Exchange):
    """Asks the same again and again."""

    def __init__(self, work: Work, request: str) -> None:
        super().__init__(work)
        self.work = work
        self._request = request.encode()
        self._number = 0

    def start(self) -> None:
        number = self.work.take()
        if number is None:
            return
        self._number = number
        self.work.sent_at[number] = time.perf_counter()
        self.write(self._request)

    def answered(self, body: bytes) -> None:
        self.work.replied(self._number)
        self.start()


async def _connect(work: Work) -> list[Exchange]:
    """All connections of a plan; receivers first, so that they wait when the first message comes."""
    plan, loop = work.plan, asyncio.get_running_loop()
    makers: list[Any] = []
    if plan.receive:
        makers += [lambda seat=seat: Receiver(work, seat) for seat in plan.targets]
    makers += [lambda seat=seat: Sender(work, seat) for seat in plan.senders]
    makers += [lambda request=request: Repeater(work, request) for request in plan.requests]
    return [(await loop.create_connection(maker, "127.0.0.1", plan.port))[1] for maker in makers]


async def run(plan: Plan) -> Outcome:
    """Does what is planned. Raises ConnectionError or TimeoutError."""
    work = Work(plan, asyncio.get_running_loop().create_future())
    exchanges = await _connect(work)
    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    for exchange in exchanges:
        exchange.start()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await work.done
    return _outcome(work, time.perf_counter() - start, time.process_time() - cpu)


def _outcome(work: Work, seconds: float, cpu: float) -> Outcome:
    delivered = [each * 1000 for each in work.delivery_times]
    return Outcome(
        replies=work.replies,
        deliveries=work.deliveries,
        distinct=len(work.seen),
        instructed=work.instructed,
        claims=work.claims,
        body_bytes=work.body_bytes,
        seconds=seconds,
        client_cpu=cpu,
        reply_p50_ms=percentile(work.reply_times, 50) * 1000,
        reply_p99_ms=percentile(work.reply_times, 99) * 1000,
        delivery_p50_ms=percentile(delivered, 50) if delivered else None,
        delivery_p99_ms=percentile(delivered, 99) if delivered else None,
    )


def await_go() -> None:
    """All is set up: says so, and begins when it is told to."""
    print("ready", flush=True)
    sys.stdin.readline()


def converse(shape: type[P], work: Callable[[P], Awaitable[Struct]]) -> None:
    """Takes a plan, works it off, tells the outcome. Connections stand until the input ends: by then the server's CPU
    has been read, and what our hanging up costs it is not part of it."""
    plan = msgspec.json.decode(sys.stdin.readline(), type=shape)

    async def talk() -> None:
        print(msgspec.json.encode(await work(plan)).decode(), flush=True)
        sys.stdin.readline()

    uvloop.run(talk())


if __name__ == "__main__":
    converse(Plan, run)
