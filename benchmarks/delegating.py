"""The load of row 4: who delegates, who does the work, and who takes the results, in a process of its own.

    python -m benchmarks.delegating

Each connection of a source has one delegation under way: it gives work, and gives the next when the result of this one
has come. A source takes its results on one long-poll and acknowledges them; or, where it `waits`, they come with the
answer to its request. A worker claims tasks on one long-poll and answers each by its handle, over connections of its
own.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from benchmarks.exchange import Exchange, head
from benchmarks.load import DEADLINE_SECONDS, Seat, await_go, converse
from benchmarks.machine import percentile

_LEASE, _WAIT, _PAGE = 60, 25, 500
DONE = "done: "


class TaskPlan(Struct, frozen=True, kw_only=True):
    """What to do: `count` delegations of `sources`, over so many connections each, in turn to `workers`, who answer
    over so many connections each."""

    port: int
    count: int
    text: str
    sources: list[Seat]
    workers: list[Seat]
    connections: int
    hands: int
    waits: bool = False


class TaskOutcome(Struct, frozen=True, kw_only=True):
    """What happened. A trip is from the request that delegates to the result in the hands of who delegated."""

    replies: int
    distinct: int
    results: int
    requests: int
    seconds: float
    client_cpu: float
    receipt_p50_ms: float
    trip_p50_ms: float
    trip_p99_ms: float


class Starts(Protocol):
    """One that takes part."""

    def start(self) -> None:
        """Begin to work."""


class _Told(Struct):
    delegation_id: str
    settled: bool = False
    result: str = ""


class _Words(Struct):
    reply_handle: str = ""


class _Row(Struct):
    seq: int
    kind: str
    summary: str | None = None
    request_body: Any = None
    instructions: _Words | None = None

    @property
    def message(self) -> Any:
        return self.request_body["params"]["message"]


_TOLD = msgspec.json.Decoder(_Told)
_ROWS = msgspec.json.Decoder(list[_Row])


class Tasks:
    """What is left to do, what was done, and when."""

    def __init__(self, plan: TaskPlan, done: "asyncio.Future[None]") -> None:
        self.plan = plan
        self.done = done
        self.taken = 0
        self.requests = 0
        self.receipts: list[float] = []
        self.trips: list[float] = []
        self.ids: set[str] = set()
        self.results = 0
        self._under_way: dict[str, Giver] = {}
        self._early: dict[str, str] = {}

    def take(self) -> int | None:
        """The number of the next delegation; None if all have begun."""
        if self.taken == self.plan.count:
            return None
        self.taken += 1
        return self.taken - 1

    def begun(self, delegation_id: str, giver: "Giver") -> None:
        """A receipt came; the result may have been faster, on another connection."""
        self.ids.add(delegation_id)
        self._under_way[delegation_id] = giver
        if delegation_id in self._early:
            self.result(delegation_id, self._early.pop(delegation_id))

    def result(self, delegation_id: str, text: str) -> None:
        """A result came. One that comes twice, or that is not the expected one, spoils the run."""
        giver = self._under_way.pop(delegation_id, None)
        if giver is None:
            if delegation_id in self.ids:
                self.fail(f"delegation {delegation_id} has two results")
            self._early[delegation_id] = text
        elif text != DONE + giver.task:
            self.fail(f"the result is {text}, expected {DONE + giver.task}")
        else:
            self.trips.append(time.perf_counter() - giver.sent_at)
            giver.start()

    def settled(self, count: int) -> None:
        """So many results are acknowledged."""
        self.results += count
        if self.results >= self.plan.count and not self.done.done():
            self.done.set_result(None)

    def fail(self, why: str) -> None:
        """Gives up: a measurement with an error in it is none."""
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))


class Speaker(Exchange):
    """A connection of an agent."""

    def __init__(self, tasks: Tasks, seat: Seat) -> None:
        super().__init__(tasks)
        self.tasks = tasks
        self.seat = seat

    def ask(self, method: str, path: str, body: bytes = b"") -> None:
        """Asks for something of the agent's own workspace."""
        self.tasks.requests += 1
        start = head(method, f"/workspaces/{self.seat.id}{path}", self.seat.token, self.tasks.plan.port, len(body))
        self.write(start + body)

    def claim(self) -> None:
        """Asks for all that waits in the agent's inbox, with how to answer it."""
        self.ask("GET", f"/activity?claim={_LEASE}&wait={_WAIT}&limit={_PAGE}&include=instructions")


class Giver(Speaker):
    """Delegates, one at a time."""

    good = b"200", b"202"

    def start(self) -> None:
        number = self.tasks.take()
        if number is None:
            return
        plan = self.tasks.plan
        self.task = f"{plan.text} {number:08}"
        asked: dict[str, Any] = {"target_id": plan.workers[number % len(plan.workers)].id, "task": self.task}
        self.sent_at = time.perf_counter()
        self.ask("POST", "/delegate", msgspec.json.encode({**asked, "wait": _WAIT} if plan.waits else asked))

    def answered(self, body: bytes) -> None:
        told = _TOLD.decode(body)
        self.tasks.receipts.append(time.perf_counter() - self.sent_at)
        if not self.tasks.plan.waits:
            self.tasks.begun(told.delegation_id, self)
        elif not told.settled or told.result != DONE + self.task:
            self.tasks.fail(f"a delegation came back as {told}")
        else:
            self.tasks.ids.add(told.delegation_id)
            self.tasks.trips.append(self.tasks.receipts[-1])
            self.start()
            self.tasks.settled(1)


class Taker(Speaker):
    """Takes the results of a source, and acknowledges them."""

    _unacknowledged = 0

    def start(self) -> None:
        self.claim()

    def answered(self, body: bytes) -> None:
        if self._unacknowledged:
            count, self._unacknowledged = self._unacknowledged, 0
            self.start()
            self.tasks.settled(count)
            return
        rows = _ROWS.decode(body)
        for row in rows:
            if row.kind != "delegation_result":
                self.tasks.fail(f"a source was sent something else: {row}")
                return
            self.tasks.result(row.message["metadata"]["delegation_id"], row.message["parts"][0]["text"])
        if not rows:
            self.start()
            return
        self._unacknowledged = len(rows)
        self.ask("POST", "/activity/ack", b'{"acked_seq":%d}' % rows[-1].seq)


class Worker(Speaker):
    """Claims the tasks of a target, and hands them to its connections."""

    def __init__(self, tasks: Tasks, seat: Seat) -> None:
        super().__init__(tasks, seat)
        self._work: deque[_Row] = deque()
        self._idle: deque[Hand] = deque()  # who rested longest is next: a server hangs up on who never says anything

    def start(self) -> None:
        self.claim()

    def answered(self, body: bytes) -> None:
        self._work += _ROWS.decode(body)
        while self._work and self._idle:
            self._idle.popleft().do(self._work.popleft())
        self.start()

    def free(self, hand: "Hand") -> None:
        """A connection has nothing to do."""
        if self._work:
            hand.do(self._work.popleft())
        else:
            self._idle.append(hand)


class Hand(Speaker):
    """Answers tasks, one at a time. `kind`: of the rows that they come in."""

    def __init__(self, tasks: Tasks, seat: Seat, worker: Worker, kind: str = "delegation") -> None:
        super().__init__(tasks, seat)
        self._worker = worker
        self._kind = kind

    def start(self) -> None:
        self._worker.free(self)

    def do(self, row: _Row) -> None:
        """Answers a task."""
        if row.kind != self._kind or row.instructions is None:
            self.tasks.fail(f"a worker was sent something else, or not told how to answer: {row}")
            return
        answer = {"handle": row.instructions.reply_handle, "text": DONE + row.message["parts"][0]["text"]}
        self.ask("POST", "/reply", msgspec.json.encode(answer))

    def answered(self, body: bytes) -> None:
        self._worker.free(self)


async def _connect(tasks: Tasks) -> list[Exchange]:
    """All connections of a plan; who waits first, who gives work last."""
    plan, loop = tasks.plan, asyncio.get_running_loop()

    async def connected(made: Exchange) -> Exchange:
        await loop.create_connection(lambda: made, "127.0.0.1", plan.port)
        return made

    made: list[Exchange] = []
    for seat in plan.workers:
        worker = Worker(tasks, seat)
        made += [worker, *(Hand(tasks, seat, worker) for _ in range(plan.hands))]
    if not plan.waits:
        made += [Taker(tasks, seat) for seat in plan.sources]
    made += [Giver(tasks, seat) for seat in plan.sources for _ in range(plan.connections)]
    return [await connected(each) for each in made]


async def run(plan: TaskPlan) -> TaskOutcome:
    """Does what is planned. Raises ConnectionError or TimeoutError."""
    tasks = Tasks(plan, asyncio.get_running_loop().create_future())
    return await work_off(tasks, await _connect(tasks))


async def work_off(tasks: Tasks, starters: Sequence[Starts]) -> TaskOutcome:
    """Start all that take part, and return what happened. Raises ConnectionError or TimeoutError."""
    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    for each in starters:
        each.start()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await tasks.done
    trips = [each * 1000 for each in tasks.trips]
    return TaskOutcome(
        replies=len(tasks.receipts),
        distinct=len(tasks.ids),
        results=tasks.results,
        requests=tasks.requests,
        seconds=time.perf_counter() - start,
        client_cpu=time.process_time() - cpu,
        receipt_p50_ms=percentile(tasks.receipts, 50) * 1000,
        trip_p50_ms=percentile(trips, 50),
        trip_p99_ms=percentile(trips, 99),
    )


if __name__ == "__main__":
    converse(TaskPlan, run)
