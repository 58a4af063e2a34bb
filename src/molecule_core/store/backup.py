"""Copies of an SQLite store: taken while it is in use, put back while it is not."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import BackupFailed, SchemaTooNew, StateInUse
from molecule_core.ground.ids import Ids
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.sqlite import DATABASE_FILE, lock_for_one_process

# Other programs keep a schema number in a table called meta too; these names together are ours.
_OURS = {"activities", "events", "inboxes", "workspaces"}


def database_in(state: Path) -> Path:
    """Where the store of a state folder is."""
    return state / DATABASE_FILE


def back_up(state: Path, copy: Path) -> int:
    """Writes one consistent copy of the store, also while a server writes to it; returns its bytes.

    Never overwrites. Raises BackupFailed."""
    database = database_in(state)
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
        synced(unfinished)
        unfinished.rename(copy)
    except (OSError, apsw.Error) as error:
        unfinished.unlink(missing_ok=True)
        raise BackupFailed(reason=str(error)) from None
    return copy.stat().st_size


def restore(copy: Path, state: Path, *, clock: Clock, ids: Ids) -> Path | None:
    """Puts a copy in the place of the store; returns where the store that was there has been put aside, if any.

    The restored store has a new epoch, so that no cursor of the old one is believed. Raises BackupFailed, StateInUse
    (a server runs)."""
    _check(copy)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = database_in(state)
    lock = lock_for_one_process(database)
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
        synced(incoming)
        aside = _put_aside(database, clock)
        incoming.rename(database)
        return aside
    finally:
        os.close(lock)


def _check(copy: Path) -> None:
    """A copy must be a whole store of a schema that this version knows."""
    if fault := fault_of(copy):
        raise BackupFailed(reason=f"{copy} cannot take the place of the store: {fault}")


def fault_of(database: Path) -> str:
    """What is wrong with a store or a copy, in a few words; empty if it is sound. Reads, changes nothing."""
    try:
        connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        verdict = str(connection.execute("PRAGMA quick_check(1)").get)
        found = int(str(connection.execute("SELECT value FROM meta WHERE name = 'schema'").get))
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        connection.close()
    except (apsw.Error, ValueError) as error:
        return f"it cannot be read ({error})"
    if _OURS - tables:
        return "it is a database of another program"
    if found > SCHEMA_VERSION:
        return SchemaTooNew(found=found, known=SCHEMA_VERSION).text
    return "" if verdict == "ok" else f"it is damaged ({verdict})"


class Facts(NamedTuple):
    """What a store says of itself: its schema, and when (microseconds) its first organisation was made, if it was."""

    schema: int
    began_at: int | None


def facts_of(database: Path) -> Facts:
    """The facts of a sound store."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    schema = int(str(connection.execute("SELECT value FROM meta WHERE name = 'schema'").get))
    began_at = connection.execute("SELECT min(created_at) FROM orgs").get
    connection.close()
    return Facts(schema, None if began_at is None else int(str(began_at)))


def sqlite_version() -> str:
    """Of the SQLite that this process uses."""
    return apsw.sqlite_lib_version()


def _put_aside(database: Path, clock: Clock) -> Path | None:
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


def synced(path: Path) -> None:
    """Returns once a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_in_use(state: Path) -> bool:
    """Whether a server holds the store."""
    try:
        os.close(lock_for_one_process(state / DATABASE_FILE))
    except StateInUse:
        return True
    return False
