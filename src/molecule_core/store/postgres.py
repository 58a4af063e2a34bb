"""The store on PostgreSQL: the same commands, the same named queries, sets instead of single rows.

A group takes the advisory locks of its organisations first, in sorted order, and holds them through the commit. So all
writers of an organisation, in whatever process, decide one group after the other on what is committed, and numbers
become visible in order. (A serial column loses up to a quarter of the rows for a reader that follows it.) Under these
locks, and before it decides, a process brings what it keeps in memory up to date (mirrors.py).
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import SchemaTooNew, StateInUse, StoreUnavailable
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import StoreMeter
from molecule_core.store.copies import SCHEMA_LOCK, back_up_postgres
from molecule_core.store.database import (
    SCHEMA_VERSION,
    Command,
    Conflict,
    Decision,
    Peek,
    Read,
    Row,
    Several,
    Step,
    Store,
    T,
    Take,
)
from molecule_core.store.grouping import (
    Change,
    Pending,
    Queue,
    changes_of,
    facts_of,
    in_statement_order,
    must_part,
    write_groups,
)
from molecule_core.store.journal import entry
from molecule_core.store.mirrors import CHANGES, KEPT, Mirrors
from molecule_core.store.queries import Dialect, Params, load_migrations, load_schema, queries_of
from molecule_core.store.sets import as_set

# Any number, but always the same. Every process shares the first: versions that knew one process only took it for
# themselves, and keep out and are kept out. The other numbers those of `changes`.
_SERVER_LOCK = 0x4D4F4C01
_CHANGES_LOCK = 0x4D4F4C03
# What is kept of `changes` is looked at once in so many.
_TIDY_EVERY = 1000
_READERS = 8
_STATEMENT_CACHE = 500
# To copy takes a round trip more than to insert, which fewer rows than these do not make up for.
_COPIED_ROWS = 12
# A network that swallows packets must not hold a request for ever.
_COMMAND_SECONDS = 30.0
# A process frozen in the middle of a group holds up others so long; then it loses its session, and the group with it.
_FROZEN_MILLISECONDS = "10000"
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

Wish = tuple[Pending, Decision[Any], Step]
Single = tuple[Pending, Decision[Any], Read | Take | Peek]


class PostgresStore(Store):
    """Keeps what `store.database.Store` promises."""

    dialect: Dialect = "postgres"
    shared = True

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        ring: Callable[[Iterable[str]], None],
        mirrors: Mirrors | None = None,
        outdated: Callable[[SchemaTooNew], None] = lambda _error: None,
        copies: Path | None = None,
    ) -> None:
        """`outdated` is called once a newer Molecule has brought the store forward: then this one can only end.
        `copies`: the folder that gets a copy of what was before a migration; None: none is made."""
        self.epoch = ""
        self._dsn = dsn
        self._clock = clock
        self._ids = ids
        self._ring = ring
        self._mirrors = mirrors or Mirrors(ring)
        self._outdated = outdated
        self._changed = False
        self._copies = copies
        self._queries = queries_of("postgres")
        self._queue = Queue(limits)
        self.followers = self._queue.followers
        self._numbers: dict[tuple[str, str], int] = {}
        self._writing: asyncpg.Connection | None = None
        self._pool: asyncpg.Pool | None = None
        self._worker: asyncio.Task[None] | None = None
        self._sets: dict[str, str] = {}

    async def open(self) -> None:
        try:
            self._writing = await self._connect()
            await self._prepare_schema(self._writing)
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=_READERS,
                statement_cache_size=_STATEMENT_CACHE,
                command_timeout=_COMMAND_SECONDS,
            )
        except _BROKEN as error:
            raise StoreUnavailable from error
        self.epoch = str((await self.rows("meta_value", {"name": "epoch"}))[0][0])
        self._mirrors.place = (await self.rows("last_change", {}))[0][0] or 0
        writing = write_groups(self._queue, self._commit, self._ring_group, Conflict, self._clock.monotonic)
        self._worker = asyncio.create_task(writing)

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(
            self._dsn,
            statement_cache_size=_STATEMENT_CACHE,
            command_timeout=_COMMAND_SECONDS,
            server_settings={"idle_in_transaction_session_timeout": _FROZEN_MILLISECONDS},
        )
        if not await connection.fetchval("SELECT pg_try_advisory_lock_shared($1)", _SERVER_LOCK):
            await connection.close()
            raise StateInUse(place="this database")
        return connection

    async def _prepare_schema(self, connection: asyncpg.Connection) -> None:
        """Creates the schema in an empty database, brings an older one forward; refuses one that a newer Molecule
        wrote."""
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
            if await connection.fetchval("SELECT to_regclass('meta')") is None:
                await connection.execute(load_schema("postgres"))
                for name, value in (("schema", str(SCHEMA_VERSION)), ("epoch", self._ids.new())):
                    await connection.execute(self._queries["set_meta"].sql, name, value)
            found = int(await connection.fetchval(self._queries["meta_value"].sql, "schema"))
            if found < SCHEMA_VERSION:
                await self._copy_what_was(connection, found)
                for step in load_migrations("postgres", found):
                    await connection.execute(step)  # control: postgres-migration-step
                await connection.execute(self._queries["set_meta"].sql, "schema", str(SCHEMA_VERSION))
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found=found, known=SCHEMA_VERSION)

    async def _copy_what_was(self, connection: asyncpg.Connection, found: int) -> None:
        """The way back. Nobody writes between it and the end of the migration."""
        if self._copies is None:
            return
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        await connection.execute(f"LOCK TABLE {', '.join(row[0] for row in tables)} IN EXCLUSIVE MODE")
        copy = self._copies / f"molecule.schema-{found}.postgres.db"
        copy.unlink(missing_ok=True)
        await back_up_postgres(self._dsn, copy, schema_is_locked=True)

    async def close(self) -> None:
        self._queue.close()
        if self._worker is not None:
            await self._worker
        if self._pool is not None:
            await self._pool.close()
        if self._writing is not None and not self._writing.is_closed():
            await self._writing.close()

    @property
    def meter(self) -> StoreMeter:
        return self._queue.meter

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    def run(self, command: Command[T]) -> "asyncio.Future[T]":
        return self._queue.put(command)

    async def rows(self, name: str, params: Params) -> Sequence[Row]:
        if self._pool is None:
            raise StoreUnavailable
        query = self._queries[name]
        try:
            found: Sequence[Row] = await self._pool.fetch(query.sql, *query.bind(params))
        except _BROKEN as error:
            raise StoreUnavailable from error
        return found

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        if self._pool is None:
            raise StoreUnavailable
        if not batch:
            return []
        try:
            async with self._pool.acquire() as connection:
                return await self._read_set(connection, name, list(batch))
        except _BROKEN as error:
            raise StoreUnavailable from error

    def highest(self, name: str, key: str) -> int | None:
        return None  # another process may have written meanwhile

    async def catch_up(self) -> None:
        if self._is_behind((await self.rows("standing", {}))[0]):
            await self._mirrors.catch_up(self.rows_of_each)

    def _is_behind(self, standing: Row) -> bool:
        """Whether memory lags behind the store. Raises StoreUnavailable if the store is of a newer schema by now."""
        last, schema = standing
        if int(schema) > SCHEMA_VERSION:
            error = SchemaTooNew(found=schema, known=SCHEMA_VERSION)
            self._outdated(error)
            raise StoreUnavailable from error
        return (last or 0) > self._mirrors.place

    def _ring_group(self, keys: Iterable[str]) -> None:
        self._ring((*keys, CHANGES) if self._changed else keys)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _commit(self, group: list[Pending]) -> None:
        """Decides and writes a group. Raises Conflict (replay one by one) or StoreUnavailable; both undo all."""
        self._numbers.clear()  # control: postgres-numbers
        try:
            connection = await self._writer_connection()
            try:
                changes = await self._in_transaction(connection, group)  # control: postgres-settle-last
            except BaseException:
                with suppress(*_BROKEN):
                    await connection.execute("ROLLBACK")
                raise
            if any(pending.writes_something for pending in group):
                await connection.execute("COMMIT")  # control: postgres-commit
            else:
                await connection.execute("ROLLBACK")
            self._changed = changes is not None
            if changes is not None:
                self._mirrors.wrote(*changes)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError) as why:
            raise Conflict(str(why)) from why
        except _BROKEN as error:
            if isinstance(error, asyncpg.InternalClientError) and self._writing is not None:
                self._writing.terminate()  # it does not know any more what the server last said
            raise StoreUnavailable from error

    async def _writer_connection(self) -> asyncpg.Connection:
        """The one connection that writes; a new one if the server hung up."""
        if self._writing is None or self._writing.is_closed():  # control: postgres-reconnect
            self._writing = None
            try:
                self._writing = await self._connect()
            except StateInUse as error:
                # Our own lost session, which PostgreSQL has not noticed yet: the next try will find it gone.
                raise StoreUnavailable from error
        return self._writing

    async def _in_transaction(self, connection: asyncpg.Connection, group: list[Pending]) -> tuple[int, int] | None:
        """Decides and writes a group; returns the first and last number that it gave to `changes`, if any."""
        locks = ", ".join(sorted({_lock_of(pending.command.org) for pending in group}))
        await connection.execute(_BEGIN.replace("...", locks))
        # A statement of its own: the one that waits for the locks still sees what was committed before it waited.
        if self._is_behind((await self._read_set(connection, "standing", [{}]))[0][0]):
            await self._mirrors.catch_up(partial(self._read_set, connection))
        await self._decide(connection, group)
        if must_part(group):
            raise Conflict
        return await self._write(connection, group)

    async def _decide(self, connection: asyncpg.Connection, group: list[Pending]) -> None:
        """All commands of the group in step: the reads they wish for at the same moment become one query each."""
        wishes = [(pending, *wish) for pending in group if (wish := pending.start()) is not None]
        while wishes:
            found = await self._found_of(connection, wishes)
            wishes = [
                (pending, *following)
                for (pending, decision, _), answer in zip(wishes, found, strict=True)
                if (following := pending.advance(decision, answer)) is not None
            ]

    async def _found_of(self, connection: asyncpg.Connection, wishes: list[Wish]) -> list[Any]:
        """The answers to one round of wishes, in their order; a wish for several things has them in a list."""
        single = [
            (pending, decision, each)
            for pending, decision, step in wishes
            for each in (step.steps if isinstance(step, Several) else (step,))
        ]
        answers = iter(await self._found(connection, single))
        return [
            list(islice(answers, len(step.steps))) if isinstance(step, Several) else next(answers)
            for _, _, step in wishes
        ]

    async def _found(self, connection: asyncpg.Connection, wishes: list[Single]) -> list[Any]:
        """The answers to single wishes."""
        await self._load_numbers(connection, [step for _, _, step in wishes if not isinstance(step, Read)])
        reads: dict[str, list[int]] = {}
        answers: list[Any] = [None] * len(wishes)
        for place, (pending, _, step) in enumerate(wishes):
            if isinstance(step, Read):
                reads.setdefault(step.name, []).append(place)
            elif isinstance(step, Peek):
                answers[place] = self._numbers[step.name, step.key]
            else:
                answers[place] = self._take(step)
                pending.taken = pending.taken or (answers[place] is not None and not step.loose)
        for name, places in reads.items():
            batch = [wishes[place][2].params for place in places]  # type: ignore[union-attr]
            for place, rows in zip(places, await self._read_set(connection, name, batch), strict=True):
                answers[place] = rows
        return answers

    async def _load_numbers(self, connection: asyncpg.Connection, steps: Sequence[Any]) -> None:
        """Reads the highest numbers that this group has not met yet. The group's lock keeps them true."""
        missing: dict[str, list[str]] = {}
        for step in steps:
            if (step.name, step.key) not in self._numbers:
                self._numbers[step.name, step.key] = 0
                missing.setdefault(step.name, []).append(step.key)
        for name, keys in missing.items():
            found = await self._read_set(connection, name, [{"key": key} for key in keys])
            for key, rows in zip(keys, found, strict=True):
                self._numbers[name, key] = (rows[0][0] or 0) if rows else 0

    def _take(self, step: Take) -> int | None:
        if step.most is not None and self._numbers[step.name, step.key] >= step.most:
            return None
        return self._next_number(step.name, step.key)

    def _next_number(self, name: str, key: str) -> int:
        self._numbers[name, key] = number = self._numbers[name, key] + 1
        return number

    async def _read_set(self, connection: asyncpg.Connection, name: str, batch: list[Params]) -> list[list[Row]]:
        """The rows of one named query for many parameters, in one round trip."""
        query = self._queries[name]
        if not query.names:
            rows: list[Row] = await connection.fetch(query.sql)
            return [rows for _ in batch]
        if len(batch) == 1:
            return [await connection.fetch(query.sql, *query.bind(batch[0]))]
        if name not in self._sets:
            self._sets[name] = await as_set(connection, query)
        columns = zip(*(query.bind(params) for params in batch), strict=True)
        results: list[list[Row]] = [[] for _ in batch]
        for place, *row in await connection.fetch(self._sets[name], *(list(column) for column in columns)):
            results[place - 1].append(row)
        return results

    async def _put(self, connection: asyncpg.Connection, name: str, batch: Sequence[Params]) -> None:
        """One statement for many parameters. Many rows that nothing else comes of are copied: half the work there."""
        query = self._queries[name]
        values = [query.bind(params) for params in batch]
        if len(batch) >= _COPIED_ROWS and (place := query.copied) is not None:
            await connection.copy_records_to_table(place.table, columns=place.columns, records=values)
        else:
            await connection.executemany(query.sql, values)

    async def _write(self, connection: asyncpg.Connection, group: list[Pending]) -> tuple[int, int] | None:
        for name, batch in in_statement_order(group):
            await self._put(connection, name, batch)
        facts = facts_of(group)
        if facts:
            await self._load_numbers(connection, [Peek("last_event", org) for org, _ in facts])
            at = self._clock.now()
            lines = [entry(org, self._next_number("last_event", org), event, at) for org, event in facts]
            await self._put(connection, "append_event", lines)  # control: postgres-journal
        changes = changes_of(group, self._queries)
        return await self._note_changes(connection, changes) if changes else None

    async def _note_changes(self, connection: asyncpg.Connection, changes: list[Change]) -> tuple[int, int]:
        """For the memory of the others, in the order of the commits. The last lock of all, for the shortest time."""
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _CHANGES_LOCK)
        before = (await self._read_set(connection, "last_change", [{}]))[0][0][0] or 0
        last = before + len(changes)
        numbered = [{"no": no, **each._asdict()} for no, each in enumerate(changes, before + 1)]
        await self._put(connection, "append_change", numbered)
        if before // _TIDY_EVERY != last // _TIDY_EVERY:
            await connection.execute(self._queries["forget_changes"].sql, last - KEPT)
        return before + 1, last


_BEGIN = "BEGIN; SELECT pg_advisory_xact_lock(n) FROM unnest('{...}'::bigint[]) AS n"  # control: org-lock


def _lock_of(org: str) -> str:
    """The number of an organisation's lock, of fixed width so that text sorts alike everywhere."""
    number = int.from_bytes(hashlib.blake2b(org.encode(), digest_size=8).digest()) >> 1
    return f"{number:019d}"
