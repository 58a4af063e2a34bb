"""The store on SQLite: one writing process, one writing connection, `synchronous=FULL`.

Commands are decided and applied on the event loop, where a statement costs a few microseconds. The commit waits for the
disk: on the loop while that is quick, else in a thread. Meanwhile the next group collects. Reads use a second
connection and see only committed data.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw

from molecule_core.common import crash_points
from molecule_core.common.clock import Clock
from molecule_core.common.errors import SchemaTooNew, StateInUse, StoreDamaged, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import StoreMeter
from molecule_core.common.state_files import create_private_file, match_handle_owner, match_owner
from molecule_core.store.database import (
    SCHEMA_VERSION,
    CommandSteps,
    CurrentNumber,
    JournalEvent,
    NextNumber,
    ReadQuery,
    RequestBatch,
    Row,
    Store,
    WriteConflict,
    WriteSet,
)
from molecule_core.store.group_commit import (
    CommandQueue,
    PendingCommand,
    merge_group,
    run_writer,
)
from molecule_core.store.journal import journal_params
from molecule_core.store.migration_log import log_migration_end, log_migration_start
from molecule_core.store.queries import Dialect, Params, lazy_queries, load_migrations, load_schema

DATABASE_FILE = "molecule.db"
# Enough for every statement of the package; the default of 100 would evict some.
_STATEMENT_CACHE = 500
# 16 MiB of log: pages that many commits touch are merged into the database once, not every few commits.
_CHECKPOINT_PAGES = 4000
# Commits on the loop block other work for at most about this long, which is not noticeable.
_FAST_COMMIT_SECONDS = 0.010
_WEIGHT_OF_LAST = 0.1
_PROBE_EVERY_COMMITS = 64
# Cached highest numbers: of logs and inboxes, and of every chain of messages seen so far.
_MAX_CACHED_NUMBERS = 200_000
# A backup that reads the database may hold a lock briefly.
_BUSY_MILLISECONDS = 5000
# Errors of the disk or its permissions, not of the store: a backup would not help.
_DISK_ERRORS = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.BusyError)


class SqliteStore(Store):
    """The SQLite implementation of `store.database.Store`."""

    dialect: Dialect = "sqlite"
    is_shared = False

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
        notify: Callable[[Iterable[str]], None],
        synchronous: str = "FULL",  # control: sqlite-synchronous
    ) -> None:
        self.epoch = ""
        self._path = path
        self._clock = clock
        self._ids = ids
        self._notify = notify
        self._synchronous = synchronous
        self._queries = lazy_queries("sqlite")
        self._queue = CommandQueue(limits)
        self.subscribers = self._queue.subscribers
        self.run = self._queue.submit
        self._numbers: dict[tuple[str, str], int] = {}
        self._disk_latency = DiskLatency()
        self._commit_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="molecule-disk")
        self._lock_handle: int | None = None
        self._worker: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._lock_handle = acquire_process_lock(self._path)
        create_private_file(self._path)  # SQLite would create it for all to read; its log gets the same mode
        try:
            self._write_connection = self._connect()
            self._write_connection.pragma("journal_mode", "wal")  # control: sqlite-wal
            self._write_connection.pragma("synchronous", self._synchronous)
            self._write_connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
            self._prepare_schema()
            self._read_connection = self._connect()
            self._read_connection.pragma("query_only", True)
        except _DISK_ERRORS as error:
            raise StoreUnavailable from error
        except (apsw.Error, IndexError) as error:
            raise StoreDamaged(place=self._path, reason=error) from None
        self.epoch = str((await self.rows("meta_value", {"name": "epoch"}))[0][0])
        crash_points.mark_reached("sqlite.opened")
        writing = run_writer(self._queue, self._commit, self._notify, WriteConflict, self._clock.monotonic)
        self._worker = asyncio.create_task(writing)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path), statementcachesize=_STATEMENT_CACHE)
        connection.set_busy_timeout(_BUSY_MILLISECONDS)
        # A plan for all values: without this, SQLite prepares a statement again whenever the number bound to its LIMIT
        # changes, which made an empty page eight times slower.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection

    def _prepare_schema(self) -> None:
        """Create the schema in an empty file or migrate an older one. Raises SchemaTooNew."""
        tables = [
            row[0] for row in self._write_connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        if "meta" not in tables:
            with self._write_connection:
                for _ in self._write_connection.execute(load_schema("sqlite")):
                    pass
                for name, value in (("schema", str(SCHEMA_VERSION)), ("epoch", self._ids.new())):
                    self._write_connection.execute(self._queries["set_meta"].sql, (name, value))
        found = int(self._fetch(self._write_connection, "meta_value", {"name": "schema"})[0][0])
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found=found, known=SCHEMA_VERSION)
        if found < SCHEMA_VERSION:
            self._migrate(found)

    def _migrate(self, found: int) -> None:
        """Migrate an older schema, all steps or none. The copy made before allows a return to it."""
        copy = self._path.with_name(f"{self._path.stem}.schema-{found}.db")
        unfinished = copy.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        self._write_connection.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.chmod(0o600)
        match_owner(unfinished, unfinished.parent)
        unfinished.rename(copy)
        log_migration_start(found, copy)
        with self._write_connection as transaction:  # control: sqlite-migration
            for step in load_migrations("sqlite", found):
                for _ in transaction.execute(step):
                    pass
            transaction.execute(self._queries["set_meta"].sql, ("schema", str(SCHEMA_VERSION)))
        log_migration_end()

    async def close(self) -> None:
        self._queue.close()
        if self._worker is not None:
            await self._worker
            self._read_connection.close()
            self._write_connection.close()
        self._commit_thread.shutdown()
        if self._lock_handle is not None:
            os.close(self._lock_handle)
            self._lock_handle = None

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
        try:
            return self._fetch(self._read_connection, name, params)
        except apsw.Error as error:
            raise StoreUnavailable from error

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        return [await self.rows(name, params) for params in batch]

    def last_known_number(self, name: str, key: str) -> int | None:
        known = self._numbers.get((name, key))
        if known is None:
            # No open group has taken one of these numbers, or it would be cached: the committed one is the highest.
            try:
                rows = self._fetch(self._read_connection, name, {"key": key})
            except apsw.Error as error:
                raise StoreUnavailable from error
            self._numbers[name, key] = known = (rows[0][0] or 0) if rows else 0
        return known

    async def catch_up(self) -> None:
        """Do nothing: no other process writes."""

    def _fetch(self, connection: apsw.Connection, name: str, params: Params) -> list[tuple[Any, ...]]:
        query = self._queries[name]
        return connection.execute(query.sql, query.bind(params)).fetchall()

    async def _commit(self, group: list[PendingCommand]) -> None:
        """Decide and write a group.

        Raises WriteConflict (replay one by one) or StoreUnavailable; both roll everything back."""
        if len(self._numbers) > _MAX_CACHED_NUMBERS:  # no group is open, so all of them can be read again
            self._numbers = {}
        try:
            self._write_connection.execute("BEGIN IMMEDIATE")
            crash_points.mark_reached("sqlite.begun")
            for pending in group:
                self._run_command(pending)
            crash_points.mark_reached("sqlite.decided")
            statements, events = merge_group(group)
            if not statements and not events:
                if any(pending.took_number for pending in group):
                    self._roll_back()
                else:
                    self._write_connection.execute("ROLLBACK")  # the cached numbers are still correct
                return
            self._write_group(statements, events)
            crash_points.mark_reached("sqlite.written")
            await self._commit_to_disk()  # control: sqlite-settle-last
            crash_points.mark_reached("sqlite.on_disk")
        except (WriteConflict, apsw.ConstraintError) as error:
            self._roll_back()
            raise WriteConflict(str(error)) from error
        except apsw.Error as error:
            self._roll_back()
            raise StoreUnavailable from error
        except BaseException:
            self._roll_back()
            raise

    async def _commit_to_disk(self) -> None:
        """Commit: on the loop while the disk is quick, in a thread while it is slow."""
        if self._disk_latency.is_slow():
            await asyncio.get_running_loop().run_in_executor(
                self._commit_thread, self._write_connection.execute, "COMMIT"
            )
            return
        started = self._clock.monotonic()
        self._write_connection.execute("COMMIT")  # control: sqlite-commit
        self._disk_latency.record_commit(self._clock.monotonic() - started)

    def _roll_back(self) -> None:
        if self._write_connection.in_transaction:  # control: sqlite-rollback
            self._write_connection.execute("ROLLBACK")
        self._numbers.clear()  # control: sqlite-numbers

    def _run_command(self, pending: PendingCommand) -> None:
        """Run one command, then the subscribers of its domain events."""
        try:
            write_set = self._run_steps(pending.command.steps(), pending)
            if write_set.domain_events:
                write_set = self._run_steps(self.subscribers.dispatch(pending.command.org, write_set), pending)
            pending.write_set = write_set
        except apsw.Error:
            raise
        except Exception as error:
            # A rejection or a bug in one command: the others of the group continue either way.
            pending.error = error

    def _run_steps(self, steps: CommandSteps[Any], pending: PendingCommand) -> WriteSet[Any]:
        """Run one generator to its end, answering its requests at once."""
        found: Any = None
        try:
            while True:
                step = steps.send(found)
                if isinstance(step, RequestBatch):
                    found = [self._answer_request(each, pending) for each in step.requests]
                else:
                    found = self._answer_request(step, pending)
        except StopIteration as stop:
            write_set: WriteSet[Any] = stop.value
            return write_set

    def _answer_request(self, step: ReadQuery | NextNumber | CurrentNumber, pending: PendingCommand) -> Any:
        if isinstance(step, ReadQuery):
            return self._fetch(self._write_connection, step.name, step.params)
        last = self._last_number(step.name, step.key)
        if isinstance(step, CurrentNumber):
            return last
        if step.max_number is not None and last >= step.max_number:
            return None
        self._numbers[step.name, step.key] = last + 1
        pending.took_number = pending.took_number or not step.allow_gaps
        return last + 1

    def _last_number(self, name: str, key: str) -> int:
        """Return the highest number, cached: this process is the only writer, and a rollback clears the cache."""
        last = self._numbers.get((name, key))
        if last is None:
            rows = self._fetch(self._write_connection, name, {"key": key})
            self._numbers[name, key] = last = (rows[0][0] or 0) if rows else 0
        return last

    def _write_group(self, statements: list[tuple[str, list[Params]]], events: list[tuple[str, JournalEvent]]) -> None:
        for name, batch in statements:
            query = self._queries[name]
            self._write_connection.executemany(
                query.sql, [query.bind(params) for params in batch]
            )  # control: sqlite-batch
        at = self._clock.now()  # control: sqlite-journal
        append, entries = self._queries["append_event"], []
        for org, event in events:
            self._numbers["last_event", org] = number = self._last_number("last_event", org) + 1
            entries.append(append.bind(journal_params(org, number, event, at)))
        self._write_connection.executemany(append.sql, entries)


class DiskLatency:
    """Decides whether the disk is too slow for commits on the event loop.

    A thread for each commit costs a quarter of a message's CPU (two thread switches, and contention for the GIL); a
    quick disk takes about a millisecond. A slow one must not block all other work."""

    def __init__(self) -> None:
        self._average = 0.0
        self._in_thread = 0

    def record_commit(self, seconds: float) -> None:
        """Record the duration of a commit on the loop."""
        self._average += _WEIGHT_OF_LAST * (seconds - self._average)

    def is_slow(self) -> bool:
        """Return whether the next commit belongs in a thread; now and then one on the loop tests the disk again."""
        if self._average < _FAST_COMMIT_SECONDS:
            return False
        self._in_thread += 1
        if self._in_thread < _PROBE_EVERY_COMMITS:
            return True
        self._in_thread = 0
        return False


def acquire_process_lock(path: Path) -> int:
    """Lock a file beside the database for the lifetime of the process. Raises StateInUse."""
    handle = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    match_handle_owner(handle, path.parent)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateInUse(place=path.parent) from None
    return handle
