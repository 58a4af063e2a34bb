"""Stores as earlier releases left them: their schemas, filled with rows in every table."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from molecule_core.store import queries
from testing.engines import Engine

_FOLDER = Path(__file__).parent
RELEASED = {
    1: _FOLDER / "schema_1.sql",
    2: _FOLDER / "schema_2.sql",
    3: _FOLDER / "schema_3.sql",
    4: _FOLDER / "schema_4.sql",
    5: _FOLDER / "schema_5.sql",
    6: _FOLDER / "schema_6.sql",
    7: _FOLDER / "schema_7.sql",
    8: _FOLDER / "schema_8.sql",
    9: _FOLDER / "schema_9.sql",
    10: _FOLDER / "schema_10.sql",
    11: _FOLDER / "schema_11.sql",
    12: _FOLDER / "schema_12.sql",
    13: _FOLDER / "schema_13.sql",
    14: _FOLDER / "schema_14.sql",
    15: _FOLDER / "schema_15.sql",
    16: _FOLDER / "schema_16.sql",
    17: _FOLDER / "schema_17.sql",
    18: _FOLDER / "schema_18.sql",
    19: _FOLDER / "schema_19.sql",
    20: _FOLDER / "schema_20.sql",
    21: _FOLDER / "schema_21.sql",
}
"""The schema of every release, by its number."""
Rows = dict[str, list[tuple[Any, ...]]]
# Of a store's rows so many hundredths are of these tables; all others share the rest.
_SHARES = {"activities": 60, "events": 30}


def schema_of(engine: Engine, version: int) -> str:
    """A released schema in one engine's dialect."""
    return queries._read_in_dialect(RELEASED[version], engine)


def columns_of(version: int) -> dict[str, list[tuple[str, str, bool]]]:
    """The tables of a released schema: for each column its name, its type and whether it must have a value."""
    memory = apsw.Connection(":memory:")
    memory.execute(schema_of("sqlite", version))
    # Not what an engine searches by: it is made from the tables.
    found_tables = memory.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
        " ORDER BY name"
    )
    names = [row[0] for row in found_tables]
    found = {}
    for name in names:
        rows = memory.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
        found[name] = [(str(row[0]), str(row[1]), bool(row[2] or row[3])) for row in rows]
    memory.close()
    return found


def rows_of(version: int, count: int) -> Rows:
    """About so many rows, in every table some, each value another one."""
    found: Rows = {}
    tables = columns_of(version)
    others = len(tables) - len(_SHARES) - 1
    for table, columns in tables.items():
        share = _SHARES.get(table, (100 - sum(_SHARES.values())) / others)
        number = max(3, round(count * share / 100))
        found[table] = [tuple(_values(columns, row)) for row in range(1, number + 1)]
    found["meta"] = [("epoch", "the first epoch"), ("schema", str(version))]
    return found


def _values(columns: Sequence[tuple[str, str, bool]], row: int) -> Iterator[Any]:
    for name, kind, needed in columns:
        if not needed and row % 3 == 0:
            yield None
        elif kind == "TEXT":
            yield f"{name} {row} é" if row % 5 else f"{name} {row}" + " long" * (row % 200)
        else:
            yield row / 4 if kind.startswith("DOUBLE") else row


async def write_release(engine: Engine, place: str, version: int, rows: Rows) -> None:
    """A store as that release left it, in an empty place."""
    if engine == "sqlite":
        connection = apsw.Connection(place)
        connection.pragma("journal_mode", "wal")
        connection.execute(schema_of(engine, version))
        with connection:
            for table, some in rows.items():
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(some[0]))})", some)  # noqa: S608
        connection.close()
        return
    session = await asyncpg.connect(place)
    try:
        await session.execute(schema_of(engine, version))
        for table, some in rows.items():
            await session.copy_records_to_table(table, records=some)
    finally:
        await session.close()


async def asked(engine: Engine, place: str, sql: str) -> list[tuple[Any, ...]]:
    """What somebody else's connection sees."""
    if engine == "sqlite":
        connection = apsw.Connection(place)
        try:
            return [tuple(row) for row in connection.execute(sql)]
        finally:
            connection.close()
    session = await asyncpg.connect(place)
    try:
        return [tuple(row) for row in await session.fetch(sql)]
    finally:
        await session.close()


async def kept_rows(engine: Engine, place: str, version: int) -> Rows:
    """All rows of the tables and columns that a release had, but for the number of the schema."""
    found: Rows = {}
    for table, columns in columns_of(version).items():
        named = ", ".join(name for name, _, _ in columns)
        found[table] = sorted(await asked(engine, place, f"SELECT {named} FROM {table}"), key=repr)  # noqa: S608
    return without_version(found)


def brought_forward(version: int, rows: Rows) -> Rows:
    """Rows of a release as they are after the migrations: version 10 makes every workspace send its answers."""
    names = [name for name, _, _ in columns_of(version)["workspaces"]]
    if "send_drafts" not in names or version >= 10:
        return without_version(rows)
    at = names.index("send_drafts")
    sending = [(*row[:at], 1, *row[at + 1 :]) for row in rows["workspaces"]]
    return without_version({**rows, "workspaces": sending})


def without_version(rows: Rows) -> Rows:
    """Rows but for the one that a migration is to change, in an order that can be compared."""
    ordered = {table: sorted(some, key=repr) for table, some in rows.items()}
    return {**ordered, "meta": [row for row in ordered["meta"] if row[0] != "schema"]}


async def shape_of(engine: Engine, place: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every table with its columns, keys, indexes and, on SQLite, its kind."""
    wishes = {
        "sqlite": {
            "tables": "SELECT name, type, ncol, wr, strict FROM pragma_table_list "
            "WHERE schema = 'main' AND name NOT LIKE 'sqlite%' ORDER BY name",
            "columns": 'SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_schema m, '
            "pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2",
            "indexes": 'SELECT m.name, i.origin, i."unique", i.partial, c.seqno, c.name, s.sql FROM sqlite_schema m, '
            "pragma_index_list(m.name) i, pragma_index_info(i.name) c LEFT JOIN sqlite_schema s ON s.name = i.name "
            "WHERE m.type = 'table' ORDER BY 1, i.name, c.seqno",
        },
        "postgres": {
            "columns": "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default "
            "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
            "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 2",
            "constraints": "SELECT table_name, constraint_type, constraint_name FROM "
            "information_schema.table_constraints WHERE table_schema = 'public' "
            "AND constraint_type <> 'CHECK' ORDER BY 1, 2, 3",
        },
    }
    return {name: await asked(engine, place, sql) for name, sql in wishes[engine].items()}
