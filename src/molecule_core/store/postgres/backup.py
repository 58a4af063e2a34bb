"""Backups of a PostgreSQL store: one file, an SQLite database with every table as of one moment.

So a copy of either engine can be restored into either, and `molecule doctor` and restore handle one file format. The
tables of a copy are those of the database, also with an older schema: the copy before a migration allows a return to
it. Search indexes are specific to the engine and are rebuilt from the copied tables.

Called by cli, and by the PostgreSQL store before a migration.
"""

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from molecule_core.common.errors import BackupFailed
from molecule_core.common.ids import IdGenerator
from molecule_core.store.queries import load_guards, load_search
from molecule_core.store.sqlite.backup import StoreInfo, integrity_error, sync_file

# The lock that guards the schema, also taken by `store/postgres/store.py`.
SCHEMA_LOCK = 0x4D4F4C02
_BATCH_ROWS = 2000
_GUARDED_TABLE = "thread_bases"
# Table options of SQLite after the closing parenthesis.
_ONLY_SQLITE = re.compile(r"\)\s*(?:STRICT|WITHOUT ROWID)(?:\s*,\s*(?:STRICT|WITHOUT ROWID))*\s*$", re.IGNORECASE)
_ONLY_POSTGRES = re.compile(r" ON (?:\w+\.)?(\w+) USING btree ")
# PostgreSQL appends a type cast to a text in the condition of an index, which SQLite cannot parse.
_CAST = re.compile(r"(?<=')::[a-z ]+")
_COLUMNS = (
    "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position"
)
_USED_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
# Indexes of constraints are created with their table, and index types other than btree are specific to PostgreSQL. (By
# oid: a lookup by name may find those of other schemas too, depending on the planner.)
_INDEXES = (
    "SELECT t.relname, i.relname, pg_get_indexdef(x.indexrelid), coalesce(c.contype::text, '') FROM pg_index x "
    "JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid JOIN pg_am m ON m.oid = i.relam "
    "JOIN pg_namespace n ON n.oid = t.relnamespace "
    "LEFT JOIN pg_constraint c ON c.contype IN ('p', 'u') AND c.conindid = x.indexrelid "
    "WHERE n.nspname = current_schema() AND m.amname = 'btree' ORDER BY i.relname"
)


async def back_up_postgres(dsn: str, copy: Path, *, schema_is_locked: bool = False) -> int:
    """Write one consistent copy of a database to a new file, also while servers write to it; return its size in bytes.

    `schema_is_locked`: the caller holds the lock that guards the schema. Raises BackupFailed."""
    unfinished = _create_unfinished(copy)
    try:
        async with _open_connection(dsn) as connection:
            if not schema_is_locked:
                # Before the transaction begins: its first statement fixes its snapshot.
                await connection.execute("SELECT pg_advisory_lock_shared($1)", SCHEMA_LOCK)
            async with connection.transaction(isolation="repeatable_read", readonly=True):  # control: copy-isolation
                await _copy_database(connection, unfinished)
        return _finish_copy(unfinished, copy)
    except _engine_errors() as error:
        unfinished.unlink(missing_ok=True)
        raise _to_backup_error(error) from None


async def restore_postgres(copy: Path, dsn: str, *, ids: IdGenerator) -> None:
    """Restore a copy of either engine into an empty database, all or nothing.

    The restored store has a new epoch, so that cursors of the old one are rejected. Raises BackupFailed."""
    if problem := integrity_error(copy):
        raise BackupFailed(reason=f"{copy} cannot be restored: {problem}. Choose another copy.")
    source = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        async with _open_connection(dsn) as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
            if found := await connection.fetch(_TABLES):
                raise BackupFailed(
                    reason=f"the database is not empty (it has the table {found[0][0]}). "
                    "Create a new database and use that."
                )
            for statement in _schema_statements(source):
                await connection.execute(statement)
            tables = _table_names(source)
            for table in tables:
                await _load_table(source, connection, table)
            if search := load_search("postgres", tables):
                await connection.execute(search)
            if _GUARDED_TABLE in tables:
                await connection.execute(load_guards("postgres"))
            # control: copy-epoch
            await connection.execute("UPDATE meta SET value = $1 WHERE name = 'epoch'", ids.new())
    except _engine_errors() as error:
        raise _to_backup_error(error) from None
    finally:
        source.close()


class PostgresInfo(NamedTuple):
    """State of a database.

    `server_version`: as a number (170002 for 17.2); `free_connections`: connections that it still accepts; `store`:
    None if it holds no store yet."""

    server_version: int
    free_connections: int
    store: StoreInfo | None


async def read_postgres_info(dsn: str) -> PostgresInfo:
    """Read the state of a database. Raises BackupFailed if it does not respond."""
    try:
        async with _open_connection(dsn) as connection:
            server = int(await connection.fetchval("SHOW server_version_num"))
            most = int(await connection.fetchval("SHOW max_connections"))
            used = await connection.fetchval(_USED_CONNECTIONS)
            store = None
            if await connection.fetchval("SELECT to_regclass('meta')") is not None:
                schema = int(await connection.fetchval("SELECT value FROM meta WHERE name = 'schema'"))
                store = StoreInfo(schema, await connection.fetchval("SELECT min(created_at) FROM orgs"))
            return PostgresInfo(server, most - used, store)
    except _engine_errors() as error:
        raise _to_backup_error(error) from None


def _create_unfinished(copy: Path) -> Path:
    """Create the file that becomes the copy, readable for its owner only, replacing leftovers of an earlier attempt."""
    if copy.exists():
        raise BackupFailed(reason=f"{copy} already exists. Choose a new file.")
    unfinished = copy.with_name(copy.name + ".part")  # control: copy-part-file
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _to_backup_error(error) from None
    return unfinished


def _finish_copy(unfinished: Path, copy: Path) -> int:
    """Rename a complete copy once it is on disk; return its size in bytes."""
    sync_file(unfinished)
    unfinished.rename(copy)
    return copy.stat().st_size


def _engine_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of both engines. asyncpg is imported here because it is optional."""
    import asyncpg

    return asyncpg.PostgresError, asyncpg.InterfaceError, OSError, apsw.Error, BackupFailed


def _to_backup_error(error: Exception) -> BackupFailed:
    return error if isinstance(error, BackupFailed) else BackupFailed(reason=str(error) or type(error).__name__)


@asynccontextmanager
async def _open_connection(dsn: str) -> AsyncIterator[Any]:
    import asyncpg  # optional: not installed where only SQLite is copied

    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


# -- out of the database -----------------------------------------------------------------------------------------------


async def _copy_database(connection: Any, file: Path) -> None:
    tables = [row[0] for row in await connection.fetch(_TABLES)]
    if "meta" not in tables:
        raise BackupFailed(reason="this database has no store. Choose the right --database.")
    indexes = await connection.fetch(_INDEXES)
    target = apsw.Connection(str(file))
    try:
        target.pragma("journal_mode", "off")  # an unfinished copy is discarded anyway
        target.pragma("synchronous", "off")
        with target:
            for table in tables:
                keys = [_index_columns(row[2]) for row in indexes if row[0] == table and row[3] == "p"]
                unique = [_index_columns(row[2]) for row in indexes if row[0] == table and row[3] == "u"]
                await _copy_table(connection, target, table, keys[0] if keys else "", unique)
            for _, _, definition, constraint in indexes:
                if not constraint:
                    target.execute(_CAST.sub("", _ONLY_POSTGRES.sub(r" ON \1 ", definition)))
            for _ in target.execute(load_search("sqlite", tables)):
                pass
            if _GUARDED_TABLE in tables:
                for _ in target.execute(load_guards("sqlite")):
                    pass
    finally:
        target.close()


async def _copy_table(connection: Any, target: apsw.Connection, table: str, key: str, unique: Sequence[str]) -> None:
    columns = [_column_definition(*row) for row in await connection.fetch(_COLUMNS, table)]
    rules = [*([f"PRIMARY KEY ({key})"] if key else []), *(f"UNIQUE ({each})" for each in unique)]
    target.execute(f"CREATE TABLE {table} ({', '.join([*columns, *rules])})")
    insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names of our own schema
    rows: list[tuple[Any, ...]] = []
    async for row in connection.cursor(f"SELECT * FROM {table}", prefetch=_BATCH_ROWS):  # noqa: S608
        rows.append(tuple(row))
        if len(rows) == _BATCH_ROWS:
            target.executemany(insert, rows)
            rows.clear()
    target.executemany(insert, rows)


def _column_definition(name: str, kind: str, nullable: str, default: str | None) -> str:
    rest = "" if nullable == "YES" else " NOT NULL"
    # PostgreSQL shows the default of a text with its type, as in ''::text, which SQLite cannot parse.
    return f"{name} {kind.upper()}{rest}" + (f" DEFAULT {default.partition('::')[0]}" if default is not None else "")


def _index_columns(definition: str) -> str:
    """Return the columns in the definition of an index."""
    return definition[definition.index("(") + 1 : definition.rindex(")")]


# -- into a database ---------------------------------------------------------------------------------------------------


def _schema_statements(source: apsw.Connection) -> list[str]:
    """Return the statements that create the tables and then the indexes of a copy, without SQLite's table options."""
    rows = source.execute(
        "SELECT sql FROM sqlite_schema JOIN pragma_table_list l ON l.schema = 'main' AND l.name = tbl_name "
        "WHERE sql IS NOT NULL AND l.type = 'table' AND tbl_name NOT LIKE 'sqlite_%' "
        "AND sqlite_schema.type IN ('table', 'index') "
        "ORDER BY sqlite_schema.type DESC, sqlite_schema.name"
    ).fetchall()
    return [_ONLY_SQLITE.sub(")", str(row[0])) for row in rows]


def _table_names(source: apsw.Connection) -> list[str]:
    rows = source.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [str(row[0]) for row in rows.fetchall()]


async def _load_table(source: apsw.Connection, connection: Any, table: str) -> None:
    found = source.execute(f"SELECT * FROM {table}")  # noqa: S608 - a table of a checked copy
    columns: list[str] | None = None
    rows: list[Any] = []
    for row in found:
        columns = columns or [each[0] for each in found.get_description()]
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            await connection.copy_records_to_table(table, records=rows, columns=columns)
            rows = []
    if rows:
        await connection.copy_records_to_table(table, records=rows, columns=columns)
