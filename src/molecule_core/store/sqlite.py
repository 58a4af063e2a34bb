"""The store on SQLite: one writing process, one writing connection, `synchronous=FULL`.

Commands are decided and applied on the event loop, where a statement costs a few microseconds. The commit waits for the
disk: on the loop too while that is quick, else in a thread. While it waits, the next group gathers. Reads use a second
connection and see only what is committed.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw

from molecule_core.ground import points
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import SchemaTooNew, StateInUse, StoreDamaged, StoreUnavailable
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import StoreMeter
from molecule_core.store.database import (
    SCHEMA_VERSION,
    Command,
    Conflict,
    Decision,
    Peek,
    Read,
    Row,
    Several,
    Store,
    T,
    Take,
    WriteSet,
)
from molecule_core.store.grouping import (
    Pending,
    Queue,
    facts_of,
    in_statement_order,
    must_part,
    write_groups,
)
from molecule_core.store.journal import entry
from molecule_core.store.queries import Dialect, Params, load_migrations, load_schema, queries_of

DATABASE_FILE = "molecule.db"
# Enough for every statement of the package with room to grow; the default of 100 would evict some.
_STATEMENT_CACHE = 500
# 16 MiB of log: pages that many commits touch are folded into the database once, not every few commits.
_CHECKPOINT_PAGES = 4000
# Others wait at most about so long for a commit on the loop: less than anybody notices.
_QUICK_SECONDS = 0.010
_WEIGHT_OF_LAST = 0.1
_COMMITS_UNTIL_A_PROBE = 64
# Highest numbers that are remembered: of logs and inboxes, and of every chain of messages that was ever met.
_MOST_NUMBERS = 200_000
# A reader that backs the database up may hold a lock for a moment.
_BUSY_MILLISECONDS = 5000


class SqliteStore(Store):
    """Keeps what `store.database.Store` promises."""

    dialect: Dialect = "sqlite"
    shared = False

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        ring: Callable[[Iterable[str]], None],
        synchronous: str = "FULL",  # control: sqlite-synchronous
    ) -> None:
        self.epoch = ""
        self._path = path
        self._clock = clock
        self._ids = ids
        self._ring = ring
        self._synchronous = synchronous
        self._queries = queries_of("sqlite")
        self._queue = Queue(limits)
        self.followers = self._queue.followers
        self._numbers: dict[tuple[str, str], int] = {}
        self._pace = DiskPace()
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="molecule-disk")
        self._lock: int | None = None
        self._worker: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._lock = lock_for_one_process(self._path)
        try:
            self._writing = self._connect()
            self._writing.pragma("journal_mode", "wal")  # control: sqlite-wal
            self._writing.pragma("synchronous", self._synchronous)
            self._writing.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
            self._prepare_schema()
            self._reading = self._connect()
            self._reading.pragma("query_only", True)
        except (apsw.Error, IndexError) as error:
            raise StoreDamaged(place=self._path, reason=error) from None
        self.epoch = str((await self.rows("meta_value", {"name": "epoch"}))[0][0])
        points.reached("sqlite.opened")
        writing = write_groups(self._queue, self._commit, self._ring, Conflict, self._clock.monotonic)
        self._worker = asyncio.create_task(writing)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path), statementcachesize=_STATEMENT_CACHE)
        connection.set_busy_timeout(_BUSY_MILLISECONDS)
        # A plan that holds for all values: without this, SQLite prepares a statement anew whenever the number bound to
        # its LIMIT changes, which made an empty page eight times dearer.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection

    def _prepare_schema(self) -> None:
        """Creates the schema in an empty file, brings an older one forward; refuses one that a newer Molecule wrote."""
        tables = [row[0] for row in self._writing.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        if "meta" not in tables:
            with self._writing:
                for _ in self._writing.execute(load_schema("sqlite")):
                    pass
                for name, value in (("schema", str(SCHEMA_VERSION)), ("epoch", self._ids.new())):
                    self._writing.execute(self._queries["set_meta"].sql, (name, value))
        found = int(self._rows(self._writing, "meta_value", {"name": "schema"})[0][0])
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(found=found, known=SCHEMA_VERSION)
        if found < SCHEMA_VERSION:
            self._migrate(found)

    def _migrate(self, found: int) -> None:
        """Brings an older schema forward, all steps or none. The copy made before is the way back."""
        copy = self._path.with_name(f"{self._path.stem}.schema-{found}.db")
        unfinished = copy.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        self._writing.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.chmod(0o600)
        unfinished.rename(copy)
        with self._writing as together:  # control: sqlite-migration
            for step in load_migrations("sqlite", found):
                for _ in together.execute(step):
                    pass
            together.execute(self._queries["set_meta"].sql, ("schema", str(SCHEMA_VERSION)))

    async def close(self) -> None:
        self._queue.close()
        if self._worker is not None:
            await self._worker
            self._reading.close()
            self._writing.close()
        self._disk.shutdown()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def meter(self) -> StoreMeter:
        return self._queue.meter

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    def run(self, command: Command[T]) -> "asyncio.Future[T]":
        return self._queue.put(command)

    async def rows(self, name: str, params: Params) -> Sequence[Row]:
        try:
            return self._rows(self._reading, name, params)
        except apsw.Error as error:
            raise StoreUnavailable from error

    async def rows_of_each(self, name: str, batch: Sequence[Params]) -> Sequence[Sequence[Row]]:
        return [await self.rows(name, params) for params in batch]

    def highest(self, name: str, key: str) -> int | None:
        known = self._numbers.get((name, key))
        if known is None:
            # No open group has taken one of these numbers, or it would stand there: what is committed is the highest.
            try:
                rows = self._rows(self._reading, name, {"key": key})
            except apsw.Error as error:
                raise StoreUnavailable from error
            self._numbers[name, key] = known = (rows[0][0] or 0) if rows else 0
        return known

    async def catch_up(self) -> None:
        """Nobody else writes."""

    def _rows(self, connection: apsw.Connection, name: str, params: Params) -> list[tuple[Any, ...]]:
        query = self._queries[name]
        return connection.execute(query.sql, query.bind(params)).fetchall()

    async def _commit(self, group: list[Pending]) -> None:
        """Decides and writes a group. Raises Conflict (replay one by one) or StoreUnavailable; both undo all."""
        if len(self._numbers) > _MOST_NUMBERS:  # no group is open, so all of them can be read again
            self._numbers = {}
        try:
            self._writing.execute("BEGIN IMMEDIATE")
            points.reached("sqlite.begun")
            for pending in group:
                self._decide(pending)
            points.reached("sqlite.decided")
            if must_part(group):
                raise Conflict
            if not any(pending.writes_something for pending in group):
                if any(pending.taken for pending in group):
                    self._undo()
                else:
                    self._writing.execute("ROLLBACK")  # the counters in memory are still true
                return
            self._write(group)
            points.reached("sqlite.written")
            await self._to_disk()  # control: sqlite-settle-last
            points.reached("sqlite.on_disk")
        except (Conflict, apsw.ConstraintError) as error:
            self._undo()
            raise Conflict(str(error)) from error
        except apsw.Error as error:
            self._undo()
            raise StoreUnavailable from error
        except BaseException:
            self._undo()
            raise

    async def _to_disk(self) -> None:
        """Commits: on the loop while the disk is quick, in a thread while it is slow."""
        if self._pace.is_slow():
            await asyncio.get_running_loop().run_in_executor(self._disk, self._writing.execute, "COMMIT")
            return
        started = self._clock.monotonic()
        self._writing.execute("COMMIT")  # control: sqlite-commit
        self._pace.took(self._clock.monotonic() - started)

    def _undo(self) -> None:
        if self._writing.in_transaction:  # control: sqlite-rollback
            self._writing.execute("ROLLBACK")
        self._numbers.clear()  # control: sqlite-numbers

    def _decide(self, pending: Pending) -> None:
        """Runs one command to its end, and then those who follow its facts."""
        try:
            written = self._run(pending.command.decide(), pending)
            if written.facts:
                written = self._run(self.followers.after(pending.command.org, written), pending)
            pending.write_set = written
        except apsw.Error:
            raise
        except Exception as error:
            # A refusal, or a mistake in one command: either way the others of the group go on.
            pending.error = error

    def _run(self, decision: Decision[Any], pending: Pending) -> WriteSet[Any]:
        """Runs one decision to its end; what it wishes to read, it gets at once."""
        found: Any = None
        try:
            while True:
                step = decision.send(found)
                if isinstance(step, Several):
                    found = [self._found(each, pending) for each in step.steps]
                else:
                    found = self._found(step, pending)
        except StopIteration as stop:
            written: WriteSet[Any] = stop.value
            return written

    def _found(self, step: Read | Take | Peek, pending: Pending) -> Any:
        if isinstance(step, Read):
            return self._rows(self._writing, step.name, step.params)
        if isinstance(step, Peek):
            return self._last_number(step.name, step.key)
        number = self._take(step)
        pending.taken = pending.taken or (number is not None and not step.loose)
        return number

    def _take(self, step: Take) -> int | None:
        if step.most is not None and self._last_number(step.name, step.key) >= step.most:
            return None
        return self._next_number(step.name, step.key)

    def _next_number(self, name: str, key: str) -> int:
        self._numbers[name, key] = number = self._last_number(name, key) + 1
        return number

    def _last_number(self, name: str, key: str) -> int:
        """Counters live in memory: this process is the only writer, and a rollback forgets them."""
        last = self._numbers.get((name, key))
        if last is None:
            rows = self._rows(self._writing, name, {"key": key})
            self._numbers[name, key] = last = (rows[0][0] or 0) if rows else 0
        return last

    def _write(self, group: list[Pending]) -> None:
        for name, batch in in_statement_order(group):
            query = self._queries[name]
            self._writing.executemany(query.sql, [query.bind(params) for params in batch])  # control: sqlite-batch
        at = self._clock.now()  # control: sqlite-journal
        entries = [entry(org, self._next_number("last_event", org), event, at) for org, event in facts_of(group)]
        append = self._queries["append_event"]
        self._writing.executemany(append.sql, [append.bind(params) for params in entries])


class DiskPace:
    """Whether the disk is too slow to be waited for on the event loop.

    A thread for each commit costs a quarter of a message's CPU (two switches between threads, and a fight for the
    interpreter's lock); a quick disk takes about a millisecond. A slow one must not hold everybody up."""

    def __init__(self) -> None:
        self._average = 0.0
        self._in_thread = 0

    def took(self, seconds: float) -> None:
        """A commit on the loop took so long."""
        self._average += _WEIGHT_OF_LAST * (seconds - self._average)

    def is_slow(self) -> bool:
        """Where the next commit belongs; now and then one on the loop shows whether the disk is quick again."""
        if self._average < _QUICK_SECONDS:
            return False
        self._in_thread += 1
        if self._in_thread < _COMMITS_UNTIL_A_PROBE:
            return True
        self._in_thread = 0
        return False


def lock_for_one_process(path: Path) -> int:
    """A lock file beside the database, held as long as the process lives. Raises StateInUse."""
    handle = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateInUse(place=path.parent) from None
    return handle
