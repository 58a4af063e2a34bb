"""Backups of an SQLite store: made while it is in use, restored while it is not."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from molecule_core.common.clock import Clock
from molecule_core.common.errors import BackupFailed, SchemaTooNew, StateInUse
from molecule_core.common.ids import IdGenerator
from molecule_core.common.state_files import create_private_folder, match_handle_owner, match_owner
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite.store import DATABASE_FILE, acquire_process_lock

# Other programs also keep a schema number in a table called meta; these names together are ours.
_EXPECTED_TABLES = {"activities", "events", "inboxes", "workspaces"}


def database_path(state: Path) -> Path:
    """Return the path of the database in a state folder."""
    return state / DATABASE_FILE


def back_up_sqlite(state: Path, copy: Path) -> int:
    """Write one consistent copy of the store, also while a server writes to it; return its size in bytes.

    Never overwrites a file. Raises BackupFailed, and PermissionError for another user's store or folder."""
    database = database_path(state)
    if not database.exists():
        raise BackupFailed(reason=f"{state} has no store. Choose the right --state-dir.")
    database.open("rb").close()  # SQLite's own error does not say that a permission is missing
    if copy.exists():
        raise BackupFailed(reason=f"{copy} already exists. Choose a new file.")
    unfinished = copy.with_name(copy.name + ".part")  # control: backup-part-file
    unfinished.unlink(missing_ok=True)
    try:
        handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        match_handle_owner(handle, state)
        os.close(handle)
        source = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        source.execute("VACUUM INTO ?", (str(unfinished),))  # control: backup-vacuum
        source.close()
        sync_file(unfinished)
        unfinished.rename(copy)
    except PermissionError:
        raise
    except (OSError, apsw.Error) as error:
        unfinished.unlink(missing_ok=True)
        raise BackupFailed(reason=f"the copy cannot be written: {error}. Choose another file.") from None
    return copy.stat().st_size


def restore_sqlite(
    copy: Path, state: Path, *, clock: Clock, ids: IdGenerator, restore_files: Callable[[], None] = lambda: None
) -> Path | None:
    """Replace the store by a copy; return where the old store was moved, if there was one.

    The restored store has a new epoch, so that cursors of the old one are rejected. `restore_files` is called just
    before the replacement, while no server can start. Raises BackupFailed, StateInUse (a server runs)."""
    _check_copy(copy)
    create_private_folder(state)
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
        match_owner(incoming, state)
        sync_file(incoming)
        restore_files()
        aside = _move_aside(database, clock)
        incoming.rename(database)
        return aside
    finally:
        os.close(lock)


def _check_copy(copy: Path) -> None:
    """Check that a copy is a sound store with a schema that this version supports. Raises BackupFailed."""
    if problem := integrity_error(copy):
        raise BackupFailed(reason=f"{copy} cannot be restored: {problem}. Choose another copy.")


def integrity_error(database: Path) -> str:
    """Describe what is wrong with a store or a copy; empty if it is sound. Read-only."""
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
    """Schema of a store, and when (microseconds) its first organisation was created, if there is one."""

    schema: int
    created_at: int | None


def read_store_info(database: Path) -> StoreInfo:
    """Read the schema and age of a sound store."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    schema = int(str(connection.execute("SELECT value FROM meta WHERE name = 'schema'").get))
    created_at = connection.execute("SELECT min(created_at) FROM orgs").get
    connection.close()
    return StoreInfo(schema, None if created_at is None else int(str(created_at)))


class FileEntry(NamedTuple):
    """An uploaded file that a store names."""

    id: str
    size: int


def list_stored_files(database: Path) -> list[FileEntry]:
    """Return the uploaded files that a sound store names; none for a schema without files."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'files'").get is None:
            return []
        rows = connection.execute("SELECT id, size FROM files ORDER BY id")
        return [FileEntry(str(file_id), int(str(size))) for file_id, size in rows]
    finally:
        connection.close()


def sqlite_version() -> str:
    """Return the version of the SQLite library in use."""
    return apsw.sqlite_lib_version()


def _move_aside(database: Path, clock: Clock) -> Path | None:
    if not database.exists():
        return None
    # Closing the last connection of a sound store merges its write-ahead log, so that one file is the whole store.
    with suppress(apsw.Error):  # a damaged one is moved as it is
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
    """Flush a file to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_in_use(state: Path) -> bool:
    """Return whether a server holds the store."""
    try:
        os.close(acquire_process_lock(state / DATABASE_FILE))
    except StateInUse:
        return True
    return False
