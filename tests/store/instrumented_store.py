"""A store on a test bench: what it groups and rings is on record, its commits can be held, outsiders can look in."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import apsw
import asyncpg
from anyio.lowlevel import checkpoint

from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity
from molecule_core.store.database import Command, CommandSteps, JournalEvent, NextNumber, ReadQuery, Statement, WriteSet
from molecule_core.store.group_commit import PendingCommand
from testing.clocks import settle
from testing.engines import Engine, open_store
from testing.waits import IN_PROCESS_SECONDS

_HOLD_LOCK = 4711


class WriterDied(Exception):
    """The store will never write again."""


class Bench:
    """An open store of a test. `groups` holds the commands of each group in the order the store took them."""

    def __init__(
        self,
        engine: Engine,
        place: str,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        ring: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self.engine = engine
        self.place = place
        self._died = False
        self.rung: list[str] = []
        self.groups: list[list[Command[Any]]] = []
        store = open_store(engine, place, clock=clock, limits=limits, rung=self.rung)
        self.store = cast(Any, store)
        if ring is not None:
            self.store._notify = ring
        self._commit: Callable[[list[PendingCommand]], Awaitable[None]] = self.store._commit
        self.store._commit = self._on_record

    async def _on_record(self, group: list[PendingCommand]) -> None:
        self.groups.append([pending.command for pending in group])
        await self._commit(group)

    @property
    def sizes(self) -> list[int]:
        """How many commands each group had."""
        return [len(group) for group in self.groups]

    async def run(self, command: Command[Any]) -> Any:
        """One command, bounded."""
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            return await self._run(command)

    async def together(self, *commands: Command[Any]) -> list[Any]:
        """Hands commands in at the same moment; their answers and refusals in order, bounded."""
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            return await asyncio.gather(*map(self._run, commands), return_exceptions=True)

    async def started(self, *commands: Command[Any]) -> list["asyncio.Task[Any]"]:
        """Hands commands in and does not wait for their answers."""
        tasks = [asyncio.create_task(self._run(each)) for each in commands]
        await settle(1)
        return tasks

    async def _run(self, command: Command[Any]) -> Any:
        future = self.store.run(command)
        try:
            await asyncio.wait((future, self.store._worker), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            future.cancel()
            raise
        if future.done():
            return future.result()
        self._died = True
        raise WriterDied("the store's one writer has ended, and this command is never answered") from (
            self.store._worker.exception()
        )

    async def seen(self, sql: str) -> list[tuple[Any, ...]]:
        """What a connection of its own sees: only what is committed."""
        return await seen_from_outside(self.engine, self.place, sql)

    async def notes(self) -> dict[str, str]:
        """What the commands of `note` have left, seen from outside."""
        return dict(await self.seen("SELECT name, value FROM meta WHERE name LIKE 'note %'"))

    async def close(self) -> None:
        """Closes the store; what a broken one leaves open is cut off, so that no later test trips over it."""
        try:
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                await self.store.close()
        except BaseException:
            if self.engine == "postgres":
                for left_open in filter(None, (self.store._pool, self.store._write_connection)):
                    left_open.terminate()
            if not self._died:  # that was said already
                raise


@asynccontextmanager
async def bench_on(engine: Engine, place: str, **choices: Any) -> AsyncIterator[Bench]:
    """An open store on the bench until the block ends; the choices are those of `Bench`."""
    bench = Bench(engine, place, **choices)
    await bench.store.open()
    try:
        yield bench
    finally:
        await bench.close()


async def seen_from_outside(engine: Engine, place: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows that a new connection sees."""
    if engine == "postgres":
        connection = await asyncpg.connect(place)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()
    reading = apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(reading.execute(sql))
    finally:
        reading.close()


# -- commits that wait -------------------------------------------------------------------------------------------------


class Hold:
    """Commits stop just before they are done, until they are released."""

    def __init__(self, reached: Callable[[], Awaitable[bool]], release: Callable[[], Awaitable[None]]) -> None:
        self._reached = reached
        self.release = release

    async def reached(self) -> None:
        """Returns once a commit has been stopped."""
        await eventually(self._reached)


@asynccontextmanager
async def commits_held(bench: Bench) -> AsyncIterator[Hold]:
    """Stops commits at their last step: by a hook on SQLite, by a deferred trigger on `meta` on PostgreSQL."""
    holding = _held_on_postgres if bench.engine == "postgres" else _held_on_sqlite
    async with holding(bench) as hold:
        try:
            yield hold
        finally:
            await hold.release()


@asynccontextmanager
async def _held_on_sqlite(bench: Bench) -> AsyncIterator[Hold]:
    stopped, gate = threading.Event(), threading.Event()

    def hook() -> bool:
        stopped.set()
        return not gate.wait(IN_PROCESS_SECONDS * 2)

    async def reached() -> bool:
        return stopped.is_set()

    async def release() -> None:
        gate.set()

    bench.store._disk_latency.is_slow = lambda: True  # on the loop the hook would hold the test itself
    bench.store._write_connection.set_commit_hook(hook)
    yield Hold(reached, release)


@asynccontextmanager
async def _held_on_postgres(bench: Bench) -> AsyncIterator[Hold]:
    holder = await asyncpg.connect(bench.place)
    await holder.execute(
        f"""
        CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_advisory_xact_lock({_HOLD_LOCK}); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER held AFTER INSERT OR UPDATE ON meta DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION hold();
        SELECT pg_advisory_lock({_HOLD_LOCK});
        """
    )

    async def reached() -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
        return bool(await holder.fetchval(waiting, _HOLD_LOCK))

    async def release() -> None:
        await holder.execute("SELECT pg_advisory_unlock_all()")

    try:
        yield Hold(reached, release)
    finally:
        await holder.close()


async def eventually(true: Callable[[], Awaitable[bool]]) -> None:
    """Returns once a question is answered with yes; looks in every turn of the loop, bounded."""
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while not await true():
            await checkpoint()


# -- small commands ----------------------------------------------------------------------------------------------------


def write(
    *statements: Statement,
    answer: Any = None,
    org: str = "org",
    keys: tuple[Hashable, ...] = (),
    alone: bool = False,
    events: Sequence[JournalEvent] = (),
    rings: tuple[str, ...] = (),
    then: Callable[[], None] | None = None,
) -> Command[Any]:
    """A command that reads nothing and writes these statements."""

    def decide() -> CommandSteps[Any]:
        yield from ()
        return WriteSet(answer, list(statements), list(events), rings, then)

    return Command(org, keys, decide, alone)


def refuse(error: Exception) -> Command[Any]:
    """A command that ends in an error while it decides."""

    def decide() -> CommandSteps[Any]:
        yield ReadQuery("meta_value", {"name": "schema"})
        raise error

    return Command("org", (), decide)


def note(name: str, value: str = "") -> Statement:
    """The simplest statement: keeps a value under a name."""
    return "set_meta", {"name": f"note {name}", "value": value}


def person(key: object) -> Statement:
    """A statement that breaks a constraint if it runs twice."""
    return "insert_person", {"id": f"p{key}", "org_id": "org", "name": "P", "role": "viewer", "created_at": 0}


def adding(
    name: str, amount: int = 1, *, keys: tuple[Hashable, ...], alone: bool = False, org: str = "org"
) -> Command[int]:
    """Reads a number, adds to it, writes it: loses what others added if it does not see it."""

    def decide() -> CommandSteps[int]:
        rows = yield ReadQuery("meta_value", {"name": f"note {name}"})
        total = (int(rows[0][0]) if rows else 0) + amount
        return WriteSet(total, [note(name, str(total))])

    return Command(org, keys, decide, alone)


def numbered(workspace_id: str, *, org: str = "org", refusal: Exception | None = None) -> Command[int]:
    """Takes the next number of a log and writes its row; or takes it and refuses."""

    def decide() -> CommandSteps[int]:
        seq = yield NextNumber("last_seq", workspace_id)
        if refusal is not None:
            raise refusal
        return WriteSet(seq, numbered_writes(workspace_id, seq, org))

    return Command(org, (), decide)


def numbered_writes(workspace_id: str, seq: int, org: str = "org") -> list[Statement]:
    """The row of a log that has a number."""
    row = Activity(
        id=f"{workspace_id}/{seq}",
        org_id=org,
        workspace_id=workspace_id,
        seq=seq,
        activity_type="agent_log",
        sender="test",
        created_at=0,
    )
    return [("insert_activity", row)]


def event(name: str = "ACTIVITY_LOGGED", *, entity: str = "e") -> JournalEvent:
    """A fact for the journal."""
    return JournalEvent(name, "w", "activity", entity)
