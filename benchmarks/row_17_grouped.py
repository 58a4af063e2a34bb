"""Row 17: rows that PostgreSQL takes in groups, against the same rows one by one.

Both sides are in this process, on one PostgreSQL server that waits for its disk, in databases of their own with our
schema, and 64 callers each have one row under way. Ours is the store as shipped: it takes the organisation's lock,
looks whether others wrote, gives each row the next number of its log, writes all that wait as one set, and commits.
One by one: a pool of connections, for each row the very same statement, which commits by itself and does nothing else.
Each side has the size of pool that is best for it.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import msgspec
from msgspec import Struct

from benchmarks.databases import count_in, empty_database, postgres
from benchmarks.figures import Bar, Failed, Figure, Options, Say
from benchmarks.machine import median
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity
from molecule_core.store.database import Command, CommandSteps, JournalEvent, NextNumber, WriteSet
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.queries import lazy_queries

CALLERS = 64
_ROWS, _FEW = 12_000, 3_000
_POOLS = (1, 10, 32)
"""One connection, as many as the library's pool has unless it is told otherwise, and as many as help."""
_ORG = "org"
_BODY = msgspec.json.encode({"text": "please read the report on stock and tell the team what to order " * 4}).decode()
_COUNT = "SELECT count(*) FROM activities"

Write = Callable[[int], Awaitable[object]]
"""Has a row written into the log of a caller."""


class Speed(Struct, frozen=True):
    """How so many rows went."""

    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Rows a second, on the clock."""
        return self.rows / self.seconds

    @property
    def each_us(self) -> float:
        """CPU microseconds of this process for a row; PostgreSQL's own count for nobody."""
        return self.cpu_seconds / self.rows * 1e6


def _row(caller: int, seq: int, name: str) -> Activity:
    return Activity(
        id=name,
        org_id=_ORG,
        workspace_id=f"workspace-{caller}",
        seq=seq,
        activity_type="a2a_receive",
        sender="bench",
        created_at=0,
        request_body=_BODY,
    )


@asynccontextmanager
async def _grouped(address: str, *, told: bool) -> AsyncIterator[Write]:
    """The store as shipped; with `told` each row is an event of the journal too."""
    ids = IdGenerator(SystemClock(), SystemRandomness())
    store = PostgresStore(address, clock=SystemClock(), ids=ids, limits=Limits(), notify=lambda _keys: None)
    await store.open()

    def write(caller: int) -> Awaitable[object]:
        name = ids.new()

        def decide() -> CommandSteps[int]:
            seq = yield NextNumber("last_seq", f"workspace-{caller}")
            events = [JournalEvent("ACTIVITY_LOGGED", f"workspace-{caller}", "activity", name)] if told else []
            return WriteSet(seq, [("insert_activity", _row(caller, seq, name))], events)

        return store.run(Command(_ORG, (), decide))

    try:
        yield write
    finally:
        await store.close()


@asynccontextmanager
async def _single(address: str, connections: int) -> AsyncIterator[Write]:
    """A pool, and a statement that commits by itself for each row."""
    query, numbers, ids = (
        lazy_queries("postgres")["insert_activity"],
        itertools.count(1),
        IdGenerator(SystemClock(), SystemRandomness()),
    )
    async with asyncpg.create_pool(address, min_size=connections, max_size=connections) as pool:

        async def write(caller: int) -> None:
            await pool.execute(query.sql, *query.bind(_row(caller, next(numbers), ids.new())))

        yield write


async def _speed(write: Write, count: int) -> Speed:
    """All callers write, each one row after the other."""
    left = itertools.count()

    async def call(caller: int) -> None:
        while next(left) < count:
            await write(caller)

    cpu, start = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            group.create_task(call(caller))
    return Speed(count, time.perf_counter() - start, time.process_time() - cpu)


class Bench:
    """An empty database with our schema for every run, so that none inherits another's rows."""

    def __init__(self, server: str) -> None:
        self._server = server

    async def grouped(self, count: int, *, told: bool = False) -> Speed:
        """Ours."""
        address = await asyncio.to_thread(empty_database, self._server)
        async with _grouped(address, told=told) as write:
            return await self._checked(address, write, count)

    async def single(self, count: int, connections: int) -> Speed:
        """The same rows, one by one."""
        address = await asyncio.to_thread(empty_database, self._server)
        async with _grouped(address, told=False):
            pass  # the schema stands
        async with _single(address, connections) as write:
            return await self._checked(address, write, count)

    async def _checked(self, address: str, write: Write, count: int) -> Speed:
        warm = count // 10
        await _speed(write, warm)
        found = await _speed(write, count)
        rows = await asyncio.to_thread(count_in, address, _COUNT)
        if rows != warm + count:
            raise Failed(f"the database has {rows} rows, expected {warm + count}")
        return found


class Round(Struct, frozen=True):
    """Each once, one after the other."""

    grouped: Speed
    single: Speed
    told: Speed

    @property
    def times(self) -> float:
        """How many times as many rows a second."""
        return self.grouped.per_second / self.single.per_second


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    count = _FEW if options.quick else _ROWS
    with postgres() as server:
        return asyncio.run(_measure(Bench(server), count, options, say))


async def _measure(bench: Bench, count: int, options: Options, say: Say) -> list[Figure]:
    tried = {size: (await bench.single(count // 2, size)).per_second for size in _POOLS}
    best = max(tried, key=lambda size: tried[size])
    say(f"  one by one, by connections: {', '.join(f'{size}: {speed:,.0f}/s' for size, speed in tried.items())}")
    rounds = []
    for number in range(1, options.rounds + 1):
        grouped, single = await bench.grouped(count), await bench.single(count, best)
        rounds.append(Round(grouped, single, await bench.grouped(count, told=True)))
        say(f"  round {number}: {_tale(rounds[-1])}")
    return _figures(rounds, best, tried)


def _tale(found: Round) -> str:
    return (
        f"groups {found.grouped.per_second:,.0f}/s, {found.grouped.each_us:.0f} us; one by one "
        f"{found.single.per_second:,.0f}/s, {found.single.each_us:.0f} us = {found.times:.2f}; with events "
        f"{found.told.per_second:,.0f}/s, {found.told.each_us:.0f} us"
    )


def _figures(rounds: list[Round], connections: int, tried: dict[int, float]) -> list[Figure]:
    grouped, single = (
        median([each.grouped.per_second for each in rounds]),
        median([each.single.per_second for each in rounds]),
    )
    return [
        Figure(
            row=17,
            name="PostgreSQL: rows a second in groups / one by one",
            value=median([each.times for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            must=5,
            goal=8,
            beside=f"{grouped:,.0f} and {single:,.0f} rows/s; {CALLERS} callers, {connections} connections one by one",
        ),
        *(_with(number, grouped, speed) for number, speed in tried.items() if number != connections),
        Figure(
            row=17,
            name="the same: CPU one by one / in groups",
            value=median([each.single.each_us / each.grouped.each_us for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"{median([each.single.each_us for each in rounds]):.0f} and "
            f"{median([each.grouped.each_us for each in rounds]):.0f} us a row, without PostgreSQL's own",
        ),
        Figure(
            row=17,
            name="the same where each row is an event of the journal too",
            value=median([each.told.per_second / each.single.per_second for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"{median([each.told.per_second for each in rounds]):,.0f} rows/s",
        ),
    ]


def _with(connections: int, grouped: float, speed: float) -> Figure:
    return Figure(
        row=17,
        name=f"the same against one by one over {connections} connection{'s' if connections > 1 else ''}",
        value=grouped / speed,
        unit="x",
        bar=Bar.AT_LEAST,
        beside=f"{speed:,.0f} rows/s",
    )
