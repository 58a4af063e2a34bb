"""Row 4: a delegation from the request that gives work to its result, acknowledged, against a2a-sdk's own server.

Both are measured over sockets, in turns within a round, with 64 delegations under way at any time; the CPU time of each
server process is divided by the delegations that came to an end. Ours takes a delegation into a ledger, sends the task
to the inbox of another workspace, hands it out with instructions on a long-poll, takes the answer by its handle, puts
the result into the first inbox, hands it out and takes the acknowledgement: five requests, less where several are
claimed at once. A run in which delegations, completed rows, results and acknowledged results are not the same number is
an error. The peer does the work in its own process within the one request (`peer_a2a`). It stores its tasks in memory,
in SQLite, or in PostgreSQL; ours stands beside the first two on SQLite and beside the last on PostgreSQL, each time
durable.

Then the same work with A2A 1.0 on both sides (`a2a_delegating`), without and with streams: clients send messages to our
endpoint, workers claim and answer them as before. A run in which messages answered and tasks ended are not the same
number is an error.
"""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import apsw
from msgspec import Struct

from benchmarks.a2a_delegating import A2APlan
from benchmarks.databases import count_in, empty_database, postgres
from benchmarks.delegating import TaskOutcome, TaskPlan
from benchmarks.drive import run_client
from benchmarks.figures import Bar, Failed, Figure, Options, Say
from benchmarks.machine import median
from benchmarks.row_01_full_path import WrongCount
from benchmarks.seats import make_seats
from benchmarks.servers import Place, Server, a2a_agent, molecule, new_place, peers_python

SOURCES, WORKERS, CONNECTIONS = 32, 8, 64
_TASKS, _FEW = 2000, 800
_PEERS_TASKS, _PEERS_FEW = 300, 150
# One at a time writes to SQLite: more connections cost the peer no less, and wait for seconds.
_SQLITE_CONNECTIONS = 8
_SENT = "A2A, a blocking SendMessage to an agent that polls"
_STREAMED = "A2A, SendStreamingMessage to an agent that polls"
_TEXT = "please read the report on stock and tell the team what to order before noon"
_DUE_SECONDS = "86400"
_ROWS = "SELECT count(*) FROM delegations"
_COMPLETED = "SELECT count(*) FROM delegations WHERE status = 'completed'"
_ACKNOWLEDGED = "SELECT sum(acked_no) FROM inboxes WHERE workspace_id IN (SELECT source_id FROM delegations)"
_ANSWERED = "SELECT count(*) FROM obligations WHERE state = 'answered'"
_PEER_ROWS = "SELECT count(*) FROM tasks"


class Load(Struct, frozen=True, kw_only=True):
    """How many delegate, over how many connections in all, to how many workers."""

    sources: int = SOURCES
    workers: int = WORKERS
    connections: int = CONNECTIONS


class AgentPlan(Struct, frozen=True, kw_only=True):
    """As `peer_a2a` reads it; that file is for another environment."""

    port: int
    count: int
    connections: int
    text: str
    streams: bool = False


class AgentOutcome(Struct, frozen=True, kw_only=True):
    """As `peer_a2a` tells it."""

    replies: int
    seconds: float
    client_cpu: float
    trip_p50_ms: float
    trip_p99_ms: float


class Trips(Struct, frozen=True):
    """What a run cost, and how long a delegation took."""

    cpu_seconds: float
    went: TaskOutcome | AgentOutcome

    @property
    def each_us(self) -> float:
        """CPU microseconds of the server for each delegation that came to its end."""
        return self.cpu_seconds / self.went.replies * 1e6


class Ours:
    """`molecule serve` as shipped, on a store; every run has workspaces of its own."""

    def __init__(self, server: Server, place: Place, database: str = "") -> None:
        self._server = server
        self._place = place
        self._database = database
        self._runs = 0
        self._done = 0

    def run(self, count: int, *, waits: bool = False, load: Load | None = None) -> Trips:
        """So many delegations; with `waits` each request waits for its result, which then is in its answer."""
        self._runs += 1
        load = load or Load()
        sources = make_seats(self._server, self._place, f"Lead {self._runs}", load.sources)
        workers = make_seats(self._server, self._place, f"Worker {self._runs}", load.workers)
        plan = TaskPlan(
            port=self._server.port,
            count=count,
            text=_TEXT,
            sources=sources,
            workers=workers,
            connections=load.connections // load.sources,
            hands=load.connections // load.workers,
            waits=waits,
        )
        went, cpu = run_client(self._server, "benchmarks.delegating", plan, TaskOutcome)
        self._done += count
        self._check(went, count)
        return Trips(cpu, went)

    def run_a2a(self, count: int, *, streams: bool) -> Trips:
        """So many tasks over the A2A endpoint, each waited for in its request or followed by a stream."""
        self._runs += 1
        before = self._count(_ANSWERED)
        plan = A2APlan(
            port=self._server.port,
            count=count,
            text=_TEXT,
            sources=make_seats(self._server, self._place, f"Client {self._runs}", SOURCES),
            workers=make_seats(self._server, self._place, f"Agent {self._runs}", WORKERS),
            connections=CONNECTIONS // SOURCES,
            hands=CONNECTIONS // WORKERS,
            streams=streams,
        )
        went, cpu = run_client(self._server, "benchmarks.a2a_delegating", plan, TaskOutcome)
        answered = self._count(_ANSWERED) - before
        if not answered == went.distinct == went.results == went.replies == count:
            raise WrongCount(
                f"messages answered {answered}; the client has the ends of {went.replies} tasks, {went.distinct} "
                f"different ones; expected {count}"
            )
        return Trips(cpu, went)

    def _check(self, went: TaskOutcome, count: int) -> None:
        rows, done, acked = self._count(_ROWS), self._count(_COMPLETED), self._count(_ACKNOWLEDGED)
        if not rows == done == acked == self._done or not went.distinct == went.results == went.replies == count:
            raise WrongCount(
                f"delegations {rows}, completed {done}, results acknowledged {acked}, expected {self._done}; the "
                f"client began {went.replies}, {went.distinct} different ones, and has {went.results} results, "
                f"expected {count}"
            )

    def _count(self, question: str) -> int:
        return count_in(self._database, question) if self._database else _count_in_file(self._place.database, question)


class Peer:
    """An agent of a2a-sdk, and how its tasks are counted; in memory nobody can."""

    def __init__(self, server: Server, connections: int, *, file: Path | None = None, database: str = "") -> None:
        self._server = server
        self._connections = connections
        self._file = file
        self._database = database
        self._done = 0

    def run(self, count: int, *, streams: bool = False) -> Trips:
        """So many tasks, each sent and waited for in one request, or followed by a stream."""
        plan = AgentPlan(
            port=self._server.port, count=count, connections=self._connections, text=_TEXT, streams=streams
        )
        module, python = "benchmarks.peer_a2a", peers_python()
        went, cpu = run_client(self._server, module, plan, AgentOutcome, python=python)
        self._done += count
        rows = self._rows()
        if went.replies != count or rows not in (None, self._done):
            raise WrongCount(f"the peer has {rows} tasks and answered {went.replies}; expected {self._done}, {count}")
        return Trips(cpu, went)

    def _rows(self) -> int | None:
        if self._file is not None:
            return _count_in_file(self._file, _PEER_ROWS)
        return count_in(self._database, _PEER_ROWS) if self._database else None


def _count_in_file(path: Path, question: str) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute(question).get or 0)
    finally:
        connection.close()


class Round(Struct, frozen=True):
    """Everything once, compared with itself and with no other round."""

    sqlite: Trips
    memory: Trips
    their_sqlite: Trips
    waited: Trips
    postgres: Trips
    their_postgres: Trips
    a2a: Trips
    a2a_streams: Trips
    memory_streams: Trips
    their_sqlite_streams: Trips


def _molecule(place: Place, **settings: str) -> AbstractContextManager[Server]:
    told = {"push_instructions_enabled": "true", "limit_reply_seconds": _DUE_SECONDS}
    return molecule(place, is_lifted=True, flushes=True, source=None, **told, **settings)


class Bench:
    """Five servers, and one run on each in turn."""

    def __init__(self, stack: ExitStack, options: Options) -> None:
        self._count = _FEW if options.quick else _TASKS
        self._peers_count = _PEERS_FEW if options.quick else _PEERS_TASKS
        server, folders = stack.enter_context(postgres()), [stack.enter_context(new_place()) for _ in range(5)]
        self.sqlite = Ours(stack.enter_context(_molecule(folders[0])), folders[0])
        ours, theirs = empty_database(server), empty_database(server)
        running = stack.enter_context(_molecule(folders[1], database=ours))
        self.postgres = Ours(running, folders[1], ours)
        self.memory = Peer(stack.enter_context(a2a_agent(folders[2])), CONNECTIONS)
        file = folders[3].folder / "tasks.db"
        address = f"sqlite+aiosqlite:///{file}"
        self.their_sqlite = Peer(stack.enter_context(a2a_agent(folders[3], address)), _SQLITE_CONNECTIONS, file=file)
        address = theirs.replace("postgresql:", "postgresql+asyncpg:", 1)
        agent = stack.enter_context(a2a_agent(folders[4], address))
        self.their_postgres = Peer(agent, CONNECTIONS, database=theirs)

    def round(self, *, share: int = 1) -> Round:
        """One round, or with a share a part of it, to warm up."""
        count, peers_count = self._count // share, self._peers_count // share
        return Round(
            self.sqlite.run(count),
            self.memory.run(peers_count),
            self.their_sqlite.run(peers_count),
            self.sqlite.run(count, waits=True),
            self.postgres.run(count),
            self.their_postgres.run(peers_count),
            self.sqlite.run_a2a(count, streams=False),
            self.sqlite.run_a2a(count, streams=True),
            self.memory.run(peers_count, streams=True),
            self.their_sqlite.run(peers_count, streams=True),
        )


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    peers_python()
    with ExitStack() as stack:
        bench = Bench(stack, options)
        first = bench.round(share=4)
        say(
            f"  {SOURCES} workspaces that delegate over {CONNECTIONS} connections, {WORKERS} that work, each claim on "
            f"one long-poll; {_requests(first.sqlite):.1f} requests a delegation"
        )
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(bench.round())
            say(f"  round {number}: {_tale(rounds[-1])}")
    return _figures(rounds)


def _requests(found: Trips) -> float:
    if not isinstance(found.went, TaskOutcome):
        raise Failed("only our own requests are counted")
    return found.went.requests / found.went.replies


def _tale(found: Round) -> str:
    sides = {
        "ours": found.sqlite,
        "waited for": found.waited,
        "on PostgreSQL": found.postgres,
        "a2a-sdk in memory": found.memory,
        "with SQLite": found.their_sqlite,
        "with PostgreSQL": found.their_postgres,
        "our A2A endpoint": found.a2a,
        "its streams": found.a2a_streams,
        "streams of a2a-sdk in memory": found.memory_streams,
        "with SQLite in streams": found.their_sqlite_streams,
    }
    return "; ".join(f"{name} {_cost(side)}" for name, side in sides.items())


def _cost(side: Trips) -> str:
    went = side.went
    return (
        f"{side.each_us:,.0f} us CPU, {went.replies / went.seconds:,.0f}/s, p50 {went.trip_p50_ms:.1f} "
        f"p99 {went.trip_p99_ms:.1f} ms"
    )


def _figures(rounds: list[Round]) -> list[Figure]:
    ours, postgres_ = [each.sqlite for each in rounds], [each.postgres for each in rounds]
    return [
        _against("in memory", ours, [each.memory for each in rounds], 12, 25),
        _against("with its SQLite store", ours, [each.their_sqlite for each in rounds], 60, 120),
        _against("with its PostgreSQL store", postgres_, [each.their_postgres for each in rounds], 60, 120),
        Figure(
            row=4,
            name="the same where the request waits for its result: CPU of a2a-sdk in memory / ours",
            value=median([each.memory.each_us / each.waited.each_us for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"ours {median([each.waited.each_us for each in rounds]):,.0f} us",
        ),
        *_a2a_figures(rounds),
    ]


def _a2a_figures(rounds: list[Round]) -> list[Figure]:
    """The same with A2A on both sides, against each store of the peer."""
    sent, streamed = [each.a2a for each in rounds], [each.a2a_streams for each in rounds]
    return [
        _against("in memory", sent, [each.memory for each in rounds], name=_SENT),
        _against("with its SQLite store", sent, [each.their_sqlite for each in rounds], name=_SENT),
        _against("in memory", streamed, [each.memory_streams for each in rounds], name=_STREAMED),
        _against("with its SQLite store", streamed, [each.their_sqlite_streams for each in rounds], name=_STREAMED),
    ]


def _against(
    store: str,
    ours: list[Trips],
    theirs: list[Trips],
    must: float | None = None,
    goal: float | None = None,
    name: str = "delegation, there and back",
) -> Figure:
    ratios = [their.each_us / our.each_us for our, their in zip(ours, theirs, strict=True)]
    return Figure(
        row=4,
        name=f"{name}: CPU of a2a-sdk {store} / ours",
        value=median(ratios),
        unit="x",
        bar=Bar.AT_LEAST,
        must=must,
        goal=goal,
        beside=f"ours {_middle(ours)}; a2a-sdk {_middle(theirs)}",
    )


def _middle(sides: list[Trips]) -> str:
    p50 = median([each.went.trip_p50_ms for each in sides])
    return f"{median([each.each_us for each in sides]):,.0f} us, p50 {p50:.1f} ms"
