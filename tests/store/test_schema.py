"""One schema, two engines: the same tables with the same columns, and opening a store again changes nothing.

What an engine searches memories by is its own: on SQLite virtual tables, on PostgreSQL an index that is no btree."""

import apsw
import asyncpg

from testing.clocks import FakeClock
from testing.engines import Engine, new_database, open_store
from tests.store.instrumented_store import bench_on, note, numbered, person, write

# (table, column) -> (type, may be empty, place in the primary key or 0)
Columns = dict[tuple[str, str], tuple[str, bool, int]]
# index -> (table, whether it is unique, its columns)
Indexes = dict[str, tuple[str, bool, tuple[str, ...]]]


def _sqlite(place: str) -> tuple[Columns, Indexes]:
    connection = apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY)
    columns: Columns = {
        (str(table), str(name)): (str(kind).lower(), not (required or key), int(str(key)))
        for table, name, kind, required, key in connection.execute(
            'SELECT m.name, c.name, c.type, c."notnull", c.pk FROM pragma_table_list m, pragma_table_info(m.name) c'
            " WHERE m.schema = 'main' AND m.type = 'table' AND m.name NOT LIKE 'sqlite%'"
        )
    }
    indexes: Indexes = {}
    for name, table, unique, column in connection.execute(
        'SELECT i.name, m.name, i."unique", c.name FROM sqlite_schema m, pragma_index_list(m.name) i,'
        " pragma_index_info(i.name) c WHERE m.type = 'table' AND i.origin = 'c' ORDER BY i.name, c.seqno"
    ):
        before = indexes.get(str(name), ("", False, ()))[2]
        indexes[str(name)] = (str(table), bool(unique), (*before, str(column)))
    connection.close()
    return columns, indexes


async def _postgres(place: str) -> tuple[Columns, Indexes]:
    connection = await asyncpg.connect(place)
    keys = {
        (table, column): place
        for table, column, place in await connection.fetch(
            "SELECT table_name, column_name, ordinal_position FROM information_schema.key_column_usage"
            " JOIN information_schema.table_constraints USING (constraint_name, table_name)"
            " WHERE constraint_type = 'PRIMARY KEY'"
        )
    }
    columns: Columns = {
        (table, name): (kind, empty == "YES", keys.get((table, name), 0))
        for table, name, kind, empty in await connection.fetch(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
    }
    indexes: Indexes = {
        name: (table, unique, tuple(of))
        for name, table, unique, of in await connection.fetch(
            "SELECT i.relname, t.relname, x.indisunique, array_agg(a.attname ORDER BY a.attnum)"
            " FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid"
            " JOIN pg_am m ON m.oid = i.relam AND m.amname = 'btree'"
            " JOIN pg_attribute a ON a.attrelid = i.oid JOIN pg_namespace n ON n.oid = t.relnamespace"
            " WHERE n.nspname = 'public' AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.oid)"
            " GROUP BY 1, 2, 3"
        )
    }
    await connection.close()
    return columns, indexes


async def test_both_engines_have_the_same_tables_columns_and_indexes(tmp_path: object, postgres: str) -> None:
    places = {"sqlite": f"{tmp_path}/molecule.db", "postgres": await new_database(postgres)}
    for engine in ("sqlite", "postgres"):
        store = open_store(engine, places[engine])
        await store.open()
        await store.close()
    columns, indexes = _sqlite(places["sqlite"])
    other_columns, other_indexes = await _postgres(places["postgres"])

    assert columns == other_columns
    assert _in_order(columns) == _in_order(other_columns)
    assert indexes == other_indexes
    assert {"activities", "events", "timers", "meta", "inboxes", "workspaces"} <= {table for table, _ in columns}
    assert {kind for kind, _, _ in columns.values()} == {"text", "bigint", "double precision"}


def _in_order(columns: Columns) -> dict[str, list[str]]:
    """The columns of each table in their order: rows are read by place."""
    found: dict[str, list[str]] = {}
    for table, name in columns:
        found.setdefault(table, []).append(name)
    return found


async def test_opening_a_store_again_changes_nothing(engine: Engine, place: str, clock: FakeClock) -> None:
    tables = ("meta", "persons", "activities", "timers", "events")
    dumps = []
    epochs = []
    for visit in range(3):
        async with bench_on(engine, place, clock=clock) as bench:
            epochs.append(bench.store.epoch)
            if visit == 0:
                await bench.together(write(note("a", "1")), write(person(1)), numbered("w"))
            dumps.append([await bench.seen(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables])  # noqa: S608
            dumps[-1].append([(columns,) for columns in await _shape(engine, place)])
        await clock.advance(3600)
    assert dumps[0] == dumps[1] == dumps[2]
    assert epochs[0] == epochs[1] == epochs[2] != ""


async def _shape(engine: Engine, place: str) -> tuple[Columns, Indexes]:
    return await _postgres(place) if engine == "postgres" else _sqlite(place)
