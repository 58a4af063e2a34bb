"""Copies of an SQLite store: taken while it is in use, put back while it is not."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from molecule_core.common.clock import Clock
from molecule_core.common.errors import BackupFailed, SchemaTooNew, StateInUse
from molecule_core.common.ids import IdGenerator
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite.store import DATABASE_FILE, acquire_process_lock

# Other programs keep a schema number in a table called meta too; these names together are ours.
_EXPECTED_TABLES = {"activities", "events", "inboxes", "workspaces"}


def database_path(state: Path) -> Path:
    """Where the store of a state folder is."""
    return state / DATABASE_FILE


def back_up_sqlite(state: Path, copy: Path) -> int:
    """Writes one consistent copy of the store, also while a server writes to it; returns its bytes.

    Never overwrites. Raises BackupFailed."""
    database = database_path(state)
    if not database.exists():
        raise BackupFailed(reason=f"there is no store in {state}; name the right --state-dir")
    if copy.exists():
        raise BackupFailed(reason=f"{copy} exists already; name a new file")
    unfinished = copy.with_name(copy.name + ".part")  # control: backup-part-file
    unfinished.unlink(missing_ok=True)
    try:
        handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(handle)
        source = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        source.execute("VACUUM INTO ?", (str(unfinished),))  # control: backup-vacuum
        source.close()
        sync_file(unfinished)
        unfinished.rename(copy)
    except (OSError, apsw.Error) as error:
        unfinished.unlink(missing_ok=True)
        raise BackupFailed(reason=str(error)) from None
    return copy.stat().st_size


def restore_sqlite(copy: Path, state: Path, *, clock: Clock, ids: IdGenerator) -> Path | None:
    """Puts a copy in the place of the store; returns where the store that was there has been put aside, if any.

    The restored store has a new epoch, so that no cursor of the old one is believed. Raises BackupFailed, StateInUse
    (a server runs)."""
    _check_copy(copy)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = database_path(state)
    lock = acquire_process_lock(database)
    try:
        incoming = database.with_suffix(".incoming")
        incoming.unlink(missing_ok=True)
        source = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
        target = apsw.Connection(str(incoming))
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step()
        target.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (ids.new(),))  # control: backup-epoch
        target.close()
        source.close()
        incoming.chmod(0o600)
        sync_file(incoming)
        aside = _move_aside(database, clock)
        incoming.rename(database)
        return aside
    finally:
        os.close(lock)


def _check_copy(copy: Path) -> None:
    """A copy must be a whole store of a schema that this version knows."""
    if problem := integrity_error(copy):
        raise BackupFailed(reason=f"{copy} cannot take the place of the store: {problem}")


def integrity_error(database: Path) -> str:
    """What is wrong with a store or a copy, in a few words; empty if it is sound. Reads, changes nothing."""
    try:
        connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        verdict = str(connection.execute("PRAGMA quick_check(1)").get)
        found = int(str(connection.execute("SELECT value FROM meta WHERE name = 'schema'").get))
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        connection.close()
    except (apsw.Error, ValueError) as error:
        return f"it cannot be read ({error})"
    if _EXPECTED_TABLES - tables:
        return "it is a database of another program"
    if found > SCHEMA_VERSION:
        return SchemaTooNew(found=found, known=SCHEMA_VERSION).text
    return "" if verdict == "ok" else f"it is damaged ({verdict})"


class StoreInfo(NamedTuple):
    """What a store says of itself: its schema, and when (microseconds) its first organisation was made, if it was."""

    schema: int
    created_at: int | None


def read_store_info(database: Path) -> StoreInfo:
    """The facts of a sound store."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    schema = int(str(connection.execute("SELECT value FROM meta WHERE name = 'schema'").get))
    created_at = connection.execute("SELECT min(created_at) FROM orgs").get
    connection.close()
    return StoreInfo(schema, None if created_at is None else int(str(created_at)))


def sqlite_version() -> str:
    """Of the SQLite that this process uses."""
    return apsw.sqlite_lib_version()


def _move_aside(database: Path, clock: Clock) -> Path | None:
    if not database.exists():
        return None
    # Closing the last connection of a healthy store folds its write-ahead log in, so that one file is the whole store.
    with suppress(apsw.Error):  # a damaged one is put aside as it is
        connection = apsw.Connection(str(database))
        connection.pragma("wal_checkpoint", "TRUNCATE")
        connection.close()
    aside = database.with_name(f"{database.stem}.before-restore-{clock.now()}.db")
    for suffix in ("-wal", "-shm"):
        log = database.with_name(database.name + suffix)
        if log.exists():
            log.rename(aside.with_name(aside.name + suffix))
    database.rename(aside)
    return aside


def sync_file(path: Path) -> None:
    """Returns once a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_in_use(state: Path) -> bool:
    """Whether a server holds the store."""
    try:
        os.close(acquire_process_lock(state / DATABASE_FILE))
    except StateInUse:
        return True
    return False
