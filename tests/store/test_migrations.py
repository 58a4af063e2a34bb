"""From schema 1 to this one: the same tables as in a fresh store, every row kept, all or nothing."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from molecule_core.ground.errors import StoreDamaged, StoreUnavailable
from molecule_core.store import postgres as postgres_module
from molecule_core.store import queries
from molecule_core.store import sqlite as sqlite_module
from molecule_core.store.database import SCHEMA_VERSION
from tests.engines import Engine, open_store, place_for
from tests.requirements import requirement
from tests.store.bench import bench_on

FIRST = Path(__file__).with_name("schema_1.sql")
NEW = ("logins", "sessions", "read_marks")
Rows = dict[str, list[tuple[Any, ...]]]

ROWS: Rows = {
    "meta": [("epoch", "the first epoch"), ("schema", "1")],
    "orgs": [("org-1", "Default", 0, 1)],
    "persons": [("person-1", "org-1", "Ada é", "owner", 2)],
    "person_tokens": [("hash-1", "hint", "person-1", 3, 4, None)],
    "workspace_tokens": [("hash-2", "hint", "org-1", "workspace-1", 5, None)],
    "timers": [("liveness", "", 6)],
    "heartbeats": [("workspace-1", 7, 1, 0.25, None, 8, "sorting")],
    "events": [
        ("org-1", number, "USER_MESSAGE", "workspace-1", "workspace", "activity", f"a-{number}", 0, number, None)
        for number in range(1, 40)
    ],
    "inboxes": [("workspace-1", 3, 2, 1)],
    "handouts": [("workspace-1", 4, 1, 9, None)],
}


def schema_of(engine: Engine) -> str:
    """The schema of the first release in one engine's dialect."""
    return queries._in_dialect(FIRST, engine)


async def write_first(engine: Engine, place: str) -> None:
    """A store as the first release left it, with rows in nearly every table."""
    if engine == "sqlite":
        connection = apsw.Connection(place)
        connection.pragma("journal_mode", "wal")
        connection.execute(schema_of(engine))
        for table, rows in ROWS.items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
        connection.close()
        return
    session = await asyncpg.connect(place)
    await session.execute(schema_of(engine))
    for table, rows in ROWS.items():
        marks = ", ".join(f"${number}" for number in range(1, len(rows[0]) + 1))
        await session.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
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


async def rows_of(engine: Engine, place: str) -> Rows:
    """All rows of the tables of schema 1, in the columns that they had then."""
    found: Rows = {}
    for table, rows in ROWS.items():
        asked_for = await asked(engine, place, f"SELECT * FROM {table}")  # noqa: S608
        found[table] = sorted((row[: len(rows[0])] for row in asked_for), key=repr)
    return found


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


# What later columns of older rows hold.
LATER = {"inboxes": (0, 0), "handouts": (0, None)}


def without_version(rows: Rows) -> Rows:
    """Rows but for the one that a migration is to change."""
    return {**rows, "meta": [row for row in rows["meta"] if row[0] != "schema"]}


def brought_forward(rows: Rows) -> Rows:
    """Rows of the first schema as they are in this one."""
    longer = {table: [(*row, *LATER[table]) for row in rows[table]] for table in LATER}
    return without_version({**rows, **longer})


async def opened(engine: Engine, place: str) -> str:
    """Opens a store and closes it again; its epoch."""
    async with bench_on(engine, place) as bench:
        return str(bench.store.epoch)


# -- it works ----------------------------------------------------------------------------------------------------------


@requirement("O1", "A2")
async def test_a_store_of_schema_1_opens_with_the_tables_of_a_fresh_one(
    engine: Engine, place: str, tmp_path: Path, postgres: str
) -> None:
    (tmp_path / "fresh").mkdir()
    fresh = await place_for(engine, tmp_path / "fresh", postgres)
    await opened(engine, fresh)
    await write_first(engine, place)
    first = await shape_of(engine, place)
    assert first != await shape_of(engine, fresh)

    assert await opened(engine, place) == "the first epoch"

    assert await shape_of(engine, place) == await shape_of(engine, fresh)
    assert await asked(engine, place, "SELECT value FROM meta WHERE name = 'schema'") == [(str(SCHEMA_VERSION),)]


@requirement("O1", "P1")
async def test_every_row_is_kept_and_a_second_opening_changes_nothing(engine: Engine, place: str) -> None:
    await write_first(engine, place)
    before = await rows_of(engine, place)
    assert before["events"] == sorted(ROWS["events"], key=repr)
    for _ in range(2):
        await opened(engine, place)
        assert without_version(await rows_of(engine, place)) == brought_forward(before)
        for table in NEW:
            assert await asked(engine, place, f"SELECT * FROM {table}") == []  # noqa: S608


@requirement("O1", "A2")
async def test_every_statement_works_on_a_store_that_was_brought_forward(engine: Engine, place: str) -> None:
    await write_first(engine, place)
    async with bench_on(engine, place) as bench:
        mark = {"person_id": "person-1", "workspace_id": "workspace-1", "seq": 3}
        from tests.store.bench import write

        await bench.run(write(("save_read_mark", mark)))
        await bench.run(write(("save_read_mark", {**mark, "seq": 2})))
        person = {"person_id": "person-1", "created_at": 1, "expires_at": 2}
        await bench.run(write(("insert_login", {"hash": "h", **person}), ("insert_session", {"hash": "h", **person})))
        ((_, _, _, name, _),) = await bench.store.rows("person_by_session", {"hash": "h"})
        assert name == "Ada é"
        assert len(await bench.store.rows("events_after", {"org_id": "org-1", "seq": 0, "count": 99})) == 39
    assert await asked(engine, place, "SELECT seq FROM read_marks") == [(3,)]


# -- the way back ------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_sqlite_leaves_a_copy_of_what_was_for_its_owner_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "molecule.db")
    await write_first("sqlite", place)
    before = await rows_of("sqlite", place)
    first = await shape_of("sqlite", place)
    await opened("sqlite", place)
    copy = tmp_path / "molecule.schema-1.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert await rows_of("sqlite", str(copy)) == before
    assert await shape_of("sqlite", str(copy)) == first
    assert not list(tmp_path.glob("*.part*"))
    # The copy put back is opened as any other.
    back = tmp_path / "back"
    back.mkdir()
    copy.rename(back / "molecule.db")
    await opened("sqlite", str(back / "molecule.db"))
    assert without_version(await rows_of("sqlite", str(back / "molecule.db"))) == brought_forward(before)


@requirement("O1")
async def test_what_an_earlier_try_left_is_no_obstacle(tmp_path: Path) -> None:
    place = str(tmp_path / "molecule.db")
    await write_first("sqlite", place)
    (tmp_path / "molecule.schema-1.part").write_bytes(b"half a copy")
    (tmp_path / "molecule.schema-1.db").write_bytes(b"an older copy")
    await opened("sqlite", place)
    assert len(await asked("sqlite", str(tmp_path / "molecule.schema-1.db"), "SELECT * FROM events")) == 39


@requirement("O1")
async def test_a_fresh_store_leaves_no_copy(tmp_path: Path) -> None:
    await opened("sqlite", str(tmp_path / "molecule.db"))
    assert not list(tmp_path.glob("*schema*"))


# -- all or nothing ----------------------------------------------------------------------------------------------------

FAILING = {
    "a later step": lambda steps: [*steps, "CREATE TABLE more (a TEXT)", "CREATE TABLE more (a TEXT)"],
    "the first step": lambda steps: ["CREATE TABLE logins (a TEXT)", *steps],
    "within a step": lambda steps: [step + "\nINSERT INTO nowhere VALUES (1);" for step in steps],
}


@requirement("O1", "P1")
@pytest.mark.parametrize("kind", FAILING)
async def test_a_step_that_fails_leaves_everything_as_it_was(
    engine: Engine, place: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    await write_first(engine, place)
    before, first = await rows_of(engine, place), await shape_of(engine, place)
    module = sqlite_module if engine == "sqlite" else postgres_module
    load: Callable[..., list[str]] = module.load_migrations
    with monkeypatch.context() as planted:
        planted.setattr(module, "load_migrations", lambda *args: FAILING[kind](load(*args)))
        store = open_store(engine, place)
        with pytest.raises((StoreDamaged, StoreUnavailable)):
            await store.open()
        await store.close()
    assert await rows_of(engine, place) == before
    assert await shape_of(engine, place) == first
    assert await opened(engine, place) == "the first epoch"  # and the next start brings it forward


@requirement("O1")
async def test_a_copy_that_cannot_be_made_stops_the_migration(tmp_path: Path) -> None:
    place = tmp_path / "molecule.db"
    await write_first("sqlite", str(place))
    before = await rows_of("sqlite", str(place))
    (tmp_path / "molecule.schema-1.db").mkdir()
    store = open_store("sqlite", str(place))
    with pytest.raises((StoreDamaged, OSError)):
        await store.open()
    await store.close()
    assert await rows_of("sqlite", str(place)) == before


def test_the_steps_are_numbered_without_a_gap_up_to_this_version() -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        assert len(queries.load_migrations("sqlite", version)) == SCHEMA_VERSION - version
