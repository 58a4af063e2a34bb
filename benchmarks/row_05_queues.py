"""Row 5: a durable message, against the queues that people take instead.

Ours is the full path of row 1, as `molecule serve` is shipped: 64 connections send, each message is authenticated,
checked, made durable, numbered, put into the journal, handed out and acknowledged; the CPU of the server counts. Beside
it, each in its own round and with as many callers:

- NATS JetStream on files, each message flushed to the disk before it is acknowledged, with its own Python client: one
  consumer fetches and acknowledges. Compared are messages a second, from the first to the last acknowledgement; its
  server is written in Go, and what it costs in CPU is told too, because there we lose.
- huey on SQLite (each commit flushed), pgqueuer and procrastinate on PostgreSQL (which waits for its disk): libraries,
  without a server of their own, so producer and worker are one process, and the CPU of that counts. The worker takes
  jobs as they come; what it would cost if all jobs were put first, and then drained in batches, is told beside.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from benchmarks.databases import empty_database, postgres
from benchmarks.drive import Cost, run_client
from benchmarks.figures import Bar, Figure, Options, Say
from benchmarks.jobs import HUEY, PGQUEUER, PROCRASTINATE, JobOutcome, JobPlan
from benchmarks.machine import median
from benchmarks.peer_nats import StreamOutcome, StreamPlan
from benchmarks.row_01_full_path import CONNECTIONS, Bench, WrongCount
from benchmarks.servers import Server, bare_uvicorn, molecule, nats_server, new_place, peers_python

_MESSAGES, _FEW = 10_000, 2_000
_JOBS, _FEW_JOBS = 2_000, 500
_TEXT = "please read the report on stock and tell the team what to order before noon " * 4
_MUST = {HUEY: 4, PGQUEUER: 6, PROCRASTINATE: 20}
_DUE_SECONDS = "86400"


class Streamed(Struct, frozen=True):
    """A run on NATS: what its client saw, and the CPU seconds of its server."""

    went: StreamOutcome
    server_cpu: float

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.went.replies / self.went.seconds


class Round(Struct, frozen=True):
    """Everything once."""

    ours: Cost
    nats: Streamed
    relaxed: Streamed
    jobs: dict[str, JobOutcome]
    drained: dict[str, JobOutcome]

    @property
    def per_second(self) -> float:
        """Our messages a second, over sockets, to the last acknowledgement."""
        return self.ours.outcome.replies / self.ours.outcome.seconds


class Peers:
    """All of them, in turn."""

    def __init__(self, stack: ExitStack, options: Options) -> None:
        self._count = _FEW if options.quick else _MESSAGES
        self._jobs = _FEW_JOBS if options.quick else _JOBS
        place = stack.enter_context(new_place())
        noop = stack.enter_context(bare_uvicorn(stack.enter_context(new_place())))
        server = stack.enter_context(molecule(place, limit_reply_seconds=_DUE_SECONDS))
        self._ours = Bench(server, place, noop, options)
        self._nats = stack.enter_context(_nats(flushes=True))
        self._relaxed = stack.enter_context(_nats(flushes=False))
        self._postgres = stack.enter_context(postgres())
        # A server to read the CPU of, where there is none: a library is its own.
        self._nobody = noop

    def round(self, share: int = 1) -> Round:
        """One round, or with a share a part of it, to warm up."""
        return Round(
            self._ours.ours(CONNECTIONS, self._count // share, receive=True),
            self._streamed(self._nats, self._count // share),
            self._streamed(self._relaxed, self._count // share),
            {kind: self._worked(kind, self._jobs // share, drains=False) for kind in _MUST},
            {kind: self._worked(kind, self._jobs // share, drains=True) for kind in _MUST},
        )

    def _streamed(self, server: Server, count: int) -> Streamed:
        plan = StreamPlan(address=f"nats://127.0.0.1:{server.port}", count=count, callers=CONNECTIONS, text=_TEXT)
        went, cpu = run_client(server, "benchmarks.peer_nats", plan, StreamOutcome)
        if not went.replies == went.distinct == count:
            raise WrongCount(f"NATS took {went.replies} messages and handed out {went.distinct}; expected {count}")
        return Streamed(went, cpu)

    def _worked(self, kind: str, count: int, *, drains: bool) -> JobOutcome:
        with new_place() as folder:
            place = str(folder.folder / "jobs.db") if kind == HUEY else empty_database(self._postgres)
            plan = JobPlan(kind=kind, place=place, count=count, callers=CONNECTIONS, text=_TEXT, drains=drains)
            went, _ = run_client(self._nobody, "benchmarks.peer_jobs", plan, JobOutcome, python=peers_python())
        if not went.replies == went.distinct == count:
            raise WrongCount(f"{kind} took {went.replies} jobs and did {went.distinct}; expected {count}")
        return went


@contextmanager
def _nats(*, flushes: bool) -> Iterator[Server]:
    with new_place() as place, nats_server(place, flushes=flushes) as server:
        yield server


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    peers_python()
    with ExitStack() as stack:
        peers = Peers(stack, options)
        peers.round(share=4)
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(peers.round())
            say(f"  round {number}: {_tale(rounds[-1])}")
    return _figures(rounds)


def _tale(found: Round) -> str:
    jobs = "; ".join(
        f"{kind} {went.each_us:,.0f} us, drained {found.drained[kind].each_us:,.0f}"
        for kind, went in found.jobs.items()
    )
    return (
        f"ours {found.per_second:,.0f}/s, {found.ours.each_us:.0f} us CPU; JetStream flushing "
        f"{found.nats.per_second:,.0f}/s, as shipped {found.relaxed.per_second:,.0f}/s; {jobs}"
    )


def _figures(rounds: list[Round]) -> list[Figure]:
    ours = median([each.ours.each_us for each in rounds])
    return [
        _against_nats(rounds),
        Figure(
            row=5,
            name="the same against JetStream as shipped, which flushes every two minutes",
            value=median([each.per_second / each.relaxed.per_second for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"JetStream {median([each.relaxed.per_second for each in rounds]):,.0f}/s",
        ),
        Figure(
            row=5,
            name="durable message: CPU of NATS's server, flushing / ours",
            value=median([each.nats.server_cpu / each.nats.went.replies * 1e6 / each.ours.each_us for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"ours {ours:.0f} us; its client {_client_us(rounds):.0f} us more, ours is not counted",
        ),
        *(_against(kind, rounds, must) for kind, must in _MUST.items()),
    ]


def _against_nats(rounds: list[Round]) -> Figure:
    waits = median([each.ours.outcome.reply_p50_ms for each in rounds])
    theirs = median([each.nats.went.reply_p50_ms for each in rounds])
    return Figure(
        row=5,
        name=f"durable messages a second, {CONNECTIONS} callers: ours / NATS JetStream that flushes each",
        value=median([each.per_second / each.nats.per_second for each in rounds]),
        unit="x",
        bar=Bar.AT_LEAST,
        must=2,
        beside=f"{median([each.per_second for each in rounds]):,.0f} and "
        f"{median([each.nats.per_second for each in rounds]):,.0f}/s; receipt p50 {waits:.1f} "
        f"and {theirs:.1f} ms",
    )


def _client_us(rounds: list[Round]) -> float:
    return median([each.nats.went.client_cpu / each.nats.went.replies * 1e6 for each in rounds])


def _against(kind: str, rounds: list[Round], must: float) -> Figure:
    went = [each.jobs[kind] for each in rounds]
    return Figure(
        row=5,
        name=f"durable message: CPU of {kind} / ours",
        value=median([each.jobs[kind].each_us / each.ours.each_us for each in rounds]),
        unit="x",
        bar=Bar.AT_LEAST,
        must=must,
        beside=f"{median([each.each_us for each in went]):,.0f} us, "
        f"{median([each.replies / each.seconds for each in went]):,.0f}/s; if all are put first, and then drained: "
        f"{median([each.drained[kind].each_us / each.ours.each_us for each in rounds]):.2f} x",
    )
