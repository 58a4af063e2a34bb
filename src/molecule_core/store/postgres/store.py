"""The store on PostgreSQL: the same commands and named queries, run for sets of rows instead of single rows.

A group first takes the advisory locks of its organisations, in sorted order, and holds them through the commit. So all
writers of an organisation, in any process, decide one group after the other on committed data, and numbers become
visible in order. (A serial column loses up to a quarter of the rows for a reader that follows it.) Under these locks,
before it decides, a process updates its caches (cache_sync.py).
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

from molecule_core.common.clock import Clock
from molecule_core.common.errors import SchemaTooNew, StateInUse, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import StoreMeter
from molecule_core.common.state_files import match_owner
from molecule_core.store.cache_sync import CHANGES_KEY, MAX_KEPT_CHANGES, CacheSync
from molecule_core.store.database import (
    SCHEMA_VERSION,
    CommandSteps,
    CurrentNumber,
    NextNumber,
    ReadQuery,
    RequestBatch,
    Row,
    StepRequest,
    Store,
    WriteConflict,
)
from molecule_core.store.group_commit import (
    CacheInvalidation,
    CommandQueue,
    PendingCommand,
    cache_invalidations,
    merge_group,
    run_writer,
)
from molecule_core.store.journal import journal_params
from molecule_core.store.migration_log import log_migration_end, log_migration_start
from molecule_core.store.postgres.backup import SCHEMA_LOCK, back_up_postgres
from molecule_core.store.postgres.batched_reads import batched_query
from molecule_core.store.queries import Dialect, Params, lazy_queries, load_migrations, load_schema

# Arbitrary constants. Every process shares the first: versions that support only one process take it exclusively. The
# other guards the numbers of `changes`.
_SERVER_LOCK = 0x4D4F4C01
_CHANGES_LOCK = 0x4D4F4C03
# The table `changes` is trimmed once in this many rows.
_TRIM_EVERY = 1000
_READERS = 8
_STATEMENT_CACHE = 500
# COPY takes one round trip more than INSERT, which pays off only from this many rows.
_MIN_COPY_ROWS = 12
# A network that drops packets must not block a request for ever.
_COMMAND_TIMEOUT_SECONDS = 30.0
# Time that a process frozen in a group can block others; then its session and the group are terminated.
_IDLE_TRANSACTION_MILLISECONDS = "10000"
_CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

WaitingStep = tuple[PendingCommand, CommandSteps[Any], StepRequest]
WaitingRequest = tuple[PendingCommand, CommandSteps[Any], ReadQuery | NextNumber | CurrentNumber]


class PostgresStore(Store):
    """The PostgreSQL implementation of `store.database.Store`."""

    dialect: Dialect = "postgres"
    is_shared = True

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
        notify: Callable[[Iterable[str]], None],
        cache_sync: CacheSync | None = None,
        on_outdated: Callable[[SchemaTooNew], None] = lambda _error: None,
        backup_folder: Path | None = None,
    ) -> None:
        """Create a store.

        `on_outdated` is called once a newer Molecule has migrated the store: this process can only end. `backup_folder`
        gets a copy before a migration; None: no copy is made."""
        self.epoch = ""
        self._dsn = dsn
        self._clock = clock
        self._ids = ids
        self._notify = notify
        self._cache_sync = cache_sync or CacheSync(notify)
        self._on_outdated = on_outdated
        self._has_cache_changes = False
        self._backup_folder = backup_folder
        self._queries = lazy_queries("postgres")
        self._queue = CommandQueue(limits)
        self.subscribers = self._queue.subscribers
        self.run = self._queue.submit
        self._numbers: dict[tuple[str, str], int] = {}
        self._write_connection: asyncpg.Connection | None = None
        self._pool: asyncpg.Pool | None = None
        self._worker: asyncio.Task[None] | None = None
        self._batched_sql: dict[str, str] = {}

    async def open(self) -> None:
        try:
            self._write_connection = await self._connect()
            await self._prepare_schema(self._write_connection)
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=_READERS,
                statement_cache_size=_STATEMENT_CACHE,
                command_timeout=_COMMAND_TIMEOUT_SECONDS,
            )
        except _CONNECTION_ERRORS as error:
            raise StoreUnavailable from error
        self.epoch = str((await self.rows("meta_value", {"name": "epoch"}))[0][0])
        self._cache_sync.position = (await self.rows("last_change", {}))[0][0] or 0
        writing = run_writer(self._queue, self._commit, self._notify_group, WriteConflict, self._clock.monotonic)
        self._worker = asyncio.create_task(writing)

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(
            self._dsn,
            statement_cache_size=_STATEMENT_CACHE,
            command_timeout=_COMMAND_TIMEOUT_SECONDS,
            server_settings={"idle_in_transaction_session_timeout": _IDLE_TRANSACTION_MILLISECONDS},
        )
        if not await connection.fetchval("SELECT pg_try_advisory_lock_shared($1)", _SERVER_LOCK):
            await connection.close()
            raise StateInUse(place="this database")
        return connection

    async def _prepare_schema(self, connection: asyncpg.Connection) -> None:
        """Create the schema in an empty database or migrate an older one. Raises SchemaTooNew."""
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
            if await connection.fetchval("SELECT to_regclass('meta')") is None:
                await connection.execute(load_schema("postgres"))
                for name, value in (("schema", str(SCHEMA_VERSION)), ("epoch", self._ids.new())):
                    await connection.execute(self._queries["set_meta"].sql, name, value)
            found = int(await connection.fetchval(self._queries["meta_value"].sql, "schema"))
            if found < SCHEMA_VERSION:
                log_migration_start(found, await self._back_up_before_migration(connection, found))
                for step in load_migrations("postgres", found):
                    await connection.execute(step)  # control: postgres-migration-step
                await connection.execute(self._queries["set_meta"].sql, "schema", str(SCHEMA_VERSION))
        if found < SCHEMA_VERSION:
            log_migration_end()
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found=found, known=SCHEMA_VERSION)

    async def _back_up_before_migration(self, connection: asyncpg.Connection, found: int) -> Path | None:
        """Copy the database before a migration; return the copy. Writes are locked until the migration ends."""
        if self._backup_folder is None:
            return None
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        await connection.execute(f"LOCK TABLE {', '.join(row[0] for row in tables)} IN EXCLUSIVE MODE")
        copy = self._backup_folder / f"molecule.schema-{found}.postgres.db"
        copy.unlink(missing_ok=True)
        await back_up_postgres(self._dsn, copy, schema_is_locked=True)
        match_owner(copy, self._backup_folder)
        return copy

    async def close(self) -> None:
        self._queue.close()
        if self._worker is not None:
            await self._worker
        if self._pool is not None:
            await self._pool.close()
        if self._write_connection is not None and not self._write_connection.is_closed():
            await self._write_connection.close()

    @property
    def meter(self) -> StoreMeter:
        return self._queue.meter

    @property
    def is_write_failing(self) -> bool:
        return self._queue.write_health.is_failing

    @property
    def queued_commands(self) -> int:
        return self._queue.queued_commands

    async def rows(self, name: str, params: Params) -> Sequence[Row]:
        if self._pool is None:
            raise StoreUnavailable
        query = self._queries[name]
        try:
            found: Sequence[Row] = await self._pool.fetch(query.sql, *query.bind(params))
        except _CONNECTION_ERRORS as error:
            raise StoreUnavailable from error
        return found

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        if self._pool is None:
            raise StoreUnavailable
        if not batch:
            return []
        try:
            async with self._pool.acquire() as connection:
                return await self._read_batch(connection, name, list(batch))
        except _CONNECTION_ERRORS as error:
            raise StoreUnavailable from error

    def last_known_number(self, name: str, key: str) -> int | None:
        return None  # another process may have written meanwhile

    async def catch_up(self) -> None:
        if self._is_behind((await self.rows("last_change_and_schema", {}))[0]):
            await self._cache_sync.catch_up(self.rows_of_each)

    def _is_behind(self, state: Row) -> bool:
        """Return whether caches lag behind the store. Raises StoreUnavailable if its schema is newer by now."""
        last, schema = state
        if int(schema) > SCHEMA_VERSION:
            error = SchemaTooNew(found=schema, known=SCHEMA_VERSION)
            self._on_outdated(error)
            raise StoreUnavailable from error
        return (last or 0) > self._cache_sync.position

    def _notify_group(self, keys: Iterable[str]) -> None:
        self._notify((*keys, CHANGES_KEY) if self._has_cache_changes else keys)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _commit(self, group: list[PendingCommand]) -> None:
        """Decide and write a group.

        Raises WriteConflict (replay one by one) or StoreUnavailable; both roll everything back."""
        self._numbers.clear()  # control: postgres-numbers
        try:
            connection = await self._ensure_write_connection()
            try:
                changes = await self._run_group(connection, group)  # control: postgres-settle-last
            except BaseException:
                with suppress(*_CONNECTION_ERRORS):
                    await connection.execute("ROLLBACK")
                raise
            write_sets = [pending.write_set for pending in group if pending.write_set is not None]
            if any(each.writes or each.events for each in write_sets):
                await connection.execute("COMMIT")  # control: postgres-commit
            else:
                await connection.execute("ROLLBACK")
            self._has_cache_changes = changes is not None
            if changes is not None:
                self._cache_sync.record_write(*changes)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError) as why:
            raise WriteConflict(str(why)) from why
        except _CONNECTION_ERRORS as error:
            if isinstance(error, asyncpg.InternalClientError) and self._write_connection is not None:
                self._write_connection.terminate()  # the client's protocol state is unknown now
            raise StoreUnavailable from error

    async def _ensure_write_connection(self) -> asyncpg.Connection:
        """Return the writing connection; a new one if the server closed it."""
        if self._write_connection is None or self._write_connection.is_closed():  # control: postgres-reconnect
            self._write_connection = None
            try:
                self._write_connection = await self._connect()
            except StateInUse as error:
                # Our own lost session, which PostgreSQL has not noticed yet: the next attempt will succeed.
                raise StoreUnavailable from error
        return self._write_connection

    async def _run_group(self, connection: asyncpg.Connection, group: list[PendingCommand]) -> tuple[int, int] | None:
        """Decide and write a group; return the first and last number that it added to `changes`, if any."""
        locks = ", ".join(sorted({_org_lock_number(pending.command.org) for pending in group}))
        await connection.execute(_BEGIN_WITH_LOCKS.replace("...", locks))
        # A statement of its own: the one that waits for the locks still sees the state before its wait.
        if self._is_behind((await self._read_batch(connection, "last_change_and_schema", [{}]))[0][0]):
            await self._cache_sync.catch_up(partial(self._read_batch, connection))
        await self._run_commands(connection, group)
        return await self._write_group(connection, group)

    async def _run_commands(self, connection: asyncpg.Connection, group: list[PendingCommand]) -> None:
        """Run all commands of the group in step: requests of the same round become one query each."""
        waiting = [(pending, *started) for pending in group if (started := pending.start()) is not None]
        while waiting:
            found = await self._answer_steps(connection, waiting)
            waiting = [
                (pending, *following)
                for (pending, steps, _), answer in zip(waiting, found, strict=True)
                if (following := pending.advance(steps, answer)) is not None
            ]

    async def _answer_steps(self, connection: asyncpg.Connection, waiting: list[WaitingStep]) -> list[Any]:
        """Answer one round of requests, in order; a RequestBatch is answered with a list."""
        single = [
            (pending, steps, each)
            for pending, steps, step in waiting
            for each in (step.requests if isinstance(step, RequestBatch) else (step,))
        ]
        answers = iter(await self._answer_requests(connection, single))
        return [
            list(islice(answers, len(step.requests))) if isinstance(step, RequestBatch) else next(answers)
            for _, _, step in waiting
        ]

    async def _answer_requests(self, connection: asyncpg.Connection, waiting: list[WaitingRequest]) -> list[Any]:
        """Answer single requests."""
        await self._load_numbers(connection, [step for _, _, step in waiting if not isinstance(step, ReadQuery)])
        reads: dict[str, list[int]] = {}
        answers: list[Any] = [None] * len(waiting)
        for position, (pending, _, step) in enumerate(waiting):
            if isinstance(step, ReadQuery):
                reads.setdefault(step.name, []).append(position)
            elif isinstance(step, CurrentNumber):
                answers[position] = self._numbers[step.name, step.key]
            else:
                answers[position] = self._take_number(step)
                pending.took_number = pending.took_number or (answers[position] is not None and not step.allow_gaps)
        for name, positions in reads.items():
            batch = [waiting[position][2].params for position in positions]  # type: ignore[union-attr]
            for position, rows in zip(positions, await self._read_batch(connection, name, batch), strict=True):
                answers[position] = rows
        return answers

    async def _load_numbers(self, connection: asyncpg.Connection, steps: Sequence[Any]) -> None:
        """Read the highest numbers that this group has not loaded yet. The group's lock keeps them current."""
        missing: dict[str, list[str]] = {}
        for step in steps:
            if (step.name, step.key) not in self._numbers:
                self._numbers[step.name, step.key] = 0
                missing.setdefault(step.name, []).append(step.key)
        for name, keys in missing.items():
            found = await self._read_batch(connection, name, [{"key": key} for key in keys])
            for key, rows in zip(keys, found, strict=True):
                self._numbers[name, key] = (rows[0][0] or 0) if rows else 0

    def _take_number(self, step: NextNumber) -> int | None:
        if step.max_number is not None and self._numbers[step.name, step.key] >= step.max_number:
            return None
        return self._next_number(step.name, step.key)

    def _next_number(self, name: str, key: str) -> int:
        self._numbers[name, key] = number = self._numbers[name, key] + 1
        return number

    async def _read_batch(self, connection: asyncpg.Connection, name: str, batch: list[Params]) -> list[list[Row]]:
        """Run one named query for many parameters, in one round trip."""
        query = self._queries[name]
        if not query.param_names:
            rows: list[Row] = await connection.fetch(query.sql)
            return [rows for _ in batch]
        if len(batch) == 1:
            return [await connection.fetch(query.sql, *query.bind(batch[0]))]
        if name not in self._batched_sql:
            self._batched_sql[name] = await batched_query(connection, query)
        columns = zip(*(query.bind(params) for params in batch), strict=True)
        results: list[list[Row]] = [[] for _ in batch]
        for position, *row in await connection.fetch(self._batched_sql[name], *(list(column) for column in columns)):
            results[position - 1].append(row)
        return results

    async def _write_batch(self, connection: asyncpg.Connection, name: str, batch: Sequence[Params]) -> None:
        """Run one statement for many parameters. Plain insertions of many rows use COPY, which halves their cost."""
        query = self._queries[name]
        values = [query.bind(params) for params in batch]
        if len(batch) >= _MIN_COPY_ROWS and (position := query.copy_target) is not None:
            await connection.copy_records_to_table(position.table, columns=position.columns, records=values)
        else:
            await connection.executemany(query.sql, values)

    async def _write_group(self, connection: asyncpg.Connection, group: list[PendingCommand]) -> tuple[int, int] | None:
        statements, events = merge_group(group)
        for name, batch in statements:
            await self._write_batch(connection, name, batch)
        if events:
            await self._load_numbers(connection, [CurrentNumber("last_event", org) for org, _ in events])
            at = self._clock.now()
            entries = [journal_params(org, self._next_number("last_event", org), event, at) for org, event in events]
            await self._write_batch(connection, "append_event", entries)  # control: postgres-journal
        changes = cache_invalidations(group, self._queries)
        return await self._append_changes(connection, changes) if changes else None

    async def _append_changes(
        self, connection: asyncpg.Connection, changes: list[CacheInvalidation]
    ) -> tuple[int, int]:
        """Append changed cache entries in commit order, for other processes.

        Its lock is taken last and held for the shortest time."""
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _CHANGES_LOCK)
        before = (await self._read_batch(connection, "last_change", [{}]))[0][0][0] or 0
        last = before + len(changes)
        numbered = [{"no": no, **each._asdict()} for no, each in enumerate(changes, before + 1)]
        await self._write_batch(connection, "append_change", numbered)
        if before // _TRIM_EVERY != last // _TRIM_EVERY:
            await connection.execute(self._queries["forget_changes"].sql, last - MAX_KEPT_CHANGES)
        return before + 1, last


_BEGIN_WITH_LOCKS = "BEGIN; SELECT pg_advisory_xact_lock(n) FROM unnest('{...}'::bigint[]) AS n"  # control: org-lock


def _org_lock_number(org: str) -> str:
    """Return the number of an organisation's lock, with fixed width so that text sorts like numbers."""
    number = int.from_bytes(hashlib.blake2b(org.encode(), digest_size=8).digest()) >> 1
    return f"{number:019d}"
