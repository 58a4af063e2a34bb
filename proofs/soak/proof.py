"""`prove soak`: minutes of even work with a fault each second, and in the end the server is as it was in the beginning.

The faults are those of people and their lines; the server itself lives through all of it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from statistics import linear_regression, quantiles

from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.ledger import Ledger, read_ledger
from proofs.harness.mutations import Swap
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict, gaps
from proofs.harness.vitals import cpu_of, files_of, memory_of
from proofs.soak.people import Agent, Book, Sender
from proofs.workload.company import Seat
from proofs.workload.shared_controls import MESSAGE_AGAIN
from testing.raw_http import request, wire

_AGENTS, _PER_SECOND, _FAULTS_PER_SECOND = 200, 50, 1
# A control has less time, and so does more in it.
_CONTROL_PER_SECOND, _CONTROL_FAULTS_PER_SECOND = 250, 5
_MEASURED_SECONDS = 2.0
# What comes once, caches and pages of the store, has come by then; after it memory is flat, and rises no more than so.
_WARM_SHARE, _FLAT_BYTES, _SLOPE_BYTES = 1 / 3, 16 << 20, 1 << 20
_MOST_MORE_FILES = 20
# The last minute against the first one: the server's CPU for a message, since a machine that others use too makes
# everybody wait now and then.
_WINDOW_SECONDS, _MOST_DEARER = 60.0, 1.5
_ENOUGH_SECONDS = 400
_END_SECONDS = 60.0
GREW, RISES, FILES, DEARER = "memory grew by more than 16 MiB", "memory rises", "files left open", "dearer in the end"
_NONSENSICAL = "broken requests"
_FAULTS = (
    "agents killed",
    "calls cut",
    _NONSENSICAL,
    "streams left",
    "watchers that read nothing",
    "bodies broken off",
)


class Scene:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting)
        is_control = setting.package is not None
        self._per_second = _CONTROL_PER_SECOND if is_control else _PER_SECOND
        self._faults_per_second = _CONTROL_FAULTS_PER_SECOND if is_control else _FAULTS_PER_SECOND
        self.book = Book()
        self._dice = setting.dice("faults")
        self._agents: list[Agent] = []
        self._measured: list[tuple[float, int, int]] = []
        """(second, bytes of memory, open files)"""
        self._spent: list[tuple[float, float, int]] = []
        """(second, seconds of the server's CPU, messages accepted), both since it began."""
        self._under_way: set[asyncio.Task[None]] = set()

    async def play(self) -> Verdict:
        """All of it."""
        try:
            await self._server.start()
            await self._found()
            await self._work()
            await self._end()
            await self._let_go()
            if await self._server.stop():
                self.book.fault("ended by itself", "unclean")
        finally:
            await self._let_go()
            await self._server.kill()
        return self._verdict(await read_ledger(self._setting))

    async def _let_go(self) -> None:
        await asyncio.gather(*(agent.die() for agent in self._agents))
        self._agents = []

    async def _found(self) -> None:
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            seats = [Seat(await admin.post("/workspaces", {"name": f"Seat {n}"})) for n in range(_AGENTS)]
        self._seats = seats
        self._agents = [Agent(seat, self._server.port, self.book) for seat in seats]
        for agent in self._agents:
            agent.begin()

    async def _work(self) -> None:
        """An even pace of messages, a fault each second, a measure now and then, for `size` seconds."""
        loop, port = asyncio.get_running_loop(), self._server.port
        sender = Sender(port, self._seats, self.book, self._setting.dice("sender"))
        begun, sent, wrong, measured, now = loop.time(), 0, 0, 0.0, 0.0
        while now < self._setting.size:
            now = min(loop.time() - begun, self._setting.size)
            while sent < now * self._per_second:
                sent += 1
                self._start(sender.send(is_cut=False))
            if wrong <= now * self._faults_per_second:
                wrong += 1
                self._start(self._go_wrong(sender))
            if measured <= now:
                measured += _MEASURED_SECONDS
                self._measured.append((now, memory_of(self._server.pid), files_of(self._server.pid)))
                self._spent.append((now, cpu_of(self._server.pid), len(self.book.accepted)))
            await asyncio.wait([loop.create_future()], timeout=1 / self._per_second)
        self._begun = begun

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Future[None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.book.fault("errors that nobody caused", repr(error))

    async def _end(self) -> None:
        """All that was sent is accepted, and all that was accepted is handled."""
        over = asyncio.get_running_loop().time() + _END_SECONDS
        while self._under_way and asyncio.get_running_loop().time() < over:
            await asyncio.wait([*self._under_way], timeout=1.0)
        book = self.book
        while set(book.accepted) - book.handled:
            if not await book.progress.after("handled", 1, seconds=_END_SECONDS):
                break
        self._measured.append((self._setting.size, memory_of(self._server.pid), files_of(self._server.pid)))

    # -- faults --------------------------------------------------------------------------------------------------------

    async def _go_wrong(self, sender: Sender) -> None:
        kinds: tuple[Callable[[Sender], Awaitable[None]], ...] = (
            self._kill_agent,
            self._cut_call,
            self._say_nonsense,
            self._leave_stream,
            self._read_nothing,
            self._break_off,
        )
        place = self._dice.randrange(len(kinds))
        self.book.figures[_FAULTS[place]] += 1
        await kinds[place](sender)

    async def _kill_agent(self, _sender: Sender) -> None:
        agent = self._dice.choice(self._agents)
        await agent.die()
        agent.begin()

    async def _cut_call(self, sender: Sender) -> None:
        await sender.send(is_cut=True)

    async def _say_nonsense(self, _sender: Sender) -> None:
        async with wire(self._server.port) as connection:
            await connection.send(self._dice.choice(_NONSENSE))
            if not 400 <= (await connection.reply(_END_SECONDS)).status < 500:
                self.book.fault("errors that nobody caused", "nonsense was not refused")

    async def _leave_stream(self, _sender: Sender) -> None:
        async with wire(self._server.port) as connection:
            await connection.send(request("GET", "/events/stream", token=self._dice.choice(self._seats).token))
            await connection.some(_END_SECONDS)

    async def _read_nothing(self, _sender: Sender) -> None:
        async with wire(self._server.port) as connection:
            await connection.send(request("GET", "/openapi.json", token=ADMIN_TOKEN) * 40)
            await connection.some(_END_SECONDS)

    async def _break_off(self, _sender: Sender) -> None:
        seat = self._dice.choice(self._seats)
        head = request("POST", f"/workspaces/{seat.id}/a2a", token=seat.token, headers={"Content-Length": "9000"})
        async with wire(self._server.port) as connection:
            await connection.send(head + b"{" * self._dice.randrange(100))

    # -- the judgement -------------------------------------------------------------------------------------------------

    def _verdict(self, ledger: Ledger) -> Verdict:
        book, is_whole = self.book, self._setting.size >= _ENOUGH_SECONDS
        warm = [each for each in self._measured if each[0] >= self._setting.size * _WARM_SHARE]
        grown = max(memory for _, memory, _ in warm) - warm[0][1]
        slope = linear_regression([second for second, _, _ in warm], [memory for _, memory, _ in warm]).slope * 60
        more_files = warm[-1][2] - warm[0][2]
        first, last = self._late(before=_WINDOW_SECONDS), self._late(after=self._setting.size - _WINDOW_SECONDS)
        dear = self._cost(0.0), self._cost(self._setting.size - _WINDOW_SECONDS)
        rows = [row for row in ledger.rows if row.inbound_no is not None]
        kept = {row.id for row in rows}
        zeros = {
            "errors that nobody caused": book.faults["errors that nobody caused"],
            "accepted but missing": len(set(book.accepted) - kept),
            "twice in an inbox": len(rows) - len({_words(row.request_body) for row in rows}),
            "unhandled at the end": sum(not ledger.is_handled(row) for row in rows),
            "numbers missing": sum(gaps([row.seq for row in log]) for log in ledger.logs().values())
            + sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
            GREW: int(grown > _FLAT_BYTES),
            RISES: int(is_whole and slope > _SLOPE_BYTES),
            FILES: int(more_files > _MOST_MORE_FILES),
            DEARER: int(is_whole and dear[-1] > dear[0] * _MOST_DEARER),
            "errors in the server's log": len(self._server.errors),
            "ended by itself": self._server.ended_by_itself + book.faults["ended by itself"],
        }
        figures: dict[str, Figure] = {"seconds": self._setting.size, "messages": len(book.accepted)}
        figures |= {name: book.figures[name] for name in (*_FAULTS, "calls asked again", "redelivered")}
        figures |= {
            "MiB in the beginning": self._measured[0][1] >> 20,
            "MiB warm": warm[0][1] >> 20,
            "MiB in the end": warm[-1][1] >> 20,
            "KiB more each minute": round(slope / 1024),
            "files open": f"{warm[0][2]} and {warm[-1][2]}",
            "us of CPU for a message, first": round(dear[0] * 1e6),
            "us of CPU for a message, last": round(dear[1] * 1e6),
            "ms by 99 of 100, first": round(first * 1e3, 1),
            "ms by 99 of 100, last": round(last * 1e3, 1),
        }
        return Verdict(figures, zeros, [*book.notes, *self._server.errors[:5]])

    def _cost(self, after: float) -> float:
        """The server's CPU for a message in the part of the run that begins then, in seconds: with all that agents ask
        for beside it."""
        some = [each for each in self._spent if after <= each[0] < after + _WINDOW_SECONDS] or self._spent
        messages = some[-1][2] - some[0][2]
        return (some[-1][1] - some[0][1]) / messages if messages else 0.0

    def _late(self, *, after: float = 0.0, before: float = float("inf")) -> float:
        """What 99 of 100 calls of a part of the run took at most, in seconds."""
        waits = [wait for at, wait in self.book.waits if after <= at - self._begun < before]
        return quantiles(waits, n=100)[98] if len(waits) > 1 else 0.0


_NONSENSE = (
    b"GET  / HTTP/9\r\n\r\n",
    request("POST", "/orgs", b"{", token=ADMIN_TOKEN),
    request("GET", "/nowhere", token=ADMIN_TOKEN),
    request("GET", "/orgs", token="wrong"),
    request("POST", "/workspaces", b'{"name": 7}', token=ADMIN_TOKEN),
)


def _words(body: str | None) -> str:
    found = re.search(r"m-\d+", body or "")
    return found[0] if found else ""


async def run(setting: Setting) -> Verdict:
    """`setting.size` seconds."""
    return await Scene(setting).play()


_CONTROLS = (
    Control(
        name="what was answered is kept",
        marker="answered-dropped",
        change=Swap("$popleft()", 'vars(self.application).setdefault("kept", []).append($popleft())'),
        breaks=GREW,
    ),
    MESSAGE_AGAIN,
)

PROOF = Proof(
    name="soak",
    claim="Under steady load with constant faults, memory, open files and CPU per message do not grow.",
    shows="Two hundred agents wait for mail, claim it and acknowledge it; fifty messages a second come at an even "
    "pace, each over a connection of its own; and each second something goes wrong: an agent dies, a call is cut, a "
    "stream is left, large answers are asked for and not read, a request is nonsense or breaks off. Nobody sees an "
    "error that was not caused on purpose, all that was accepted is handled once, and when it has gone on for "
    "minutes the server has no more memory and no more open files than before, and a message costs it no more.",
    engines=("sqlite",),
    unit="seconds",
    sizes={"sqlite": 540, "postgres": 540},
    control_sizes={"sqlite": 20, "postgres": 20},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    faults=tuple(name for name in _FAULTS if name != _NONSENSICAL),
    hostile=(_NONSENSICAL,),
)
