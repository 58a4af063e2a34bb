"""From every released schema to this one: the tables of a fresh store, every row kept, all or nothing, a way back."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from molecule_core.common.errors import BackupFailed, StoreDamaged, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.store import queries
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.postgres import store as postgres_module
from molecule_core.store.postgres.backup import restore_postgres
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.sqlite import store as sqlite_module
from molecule_core.store.sqlite.backup import integrity_error
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, new_database, open_store, place_for
from testing.released_stores.stores import (
    RELEASED,
    asked,
    brought_forward,
    kept_rows,
    rows_of,
    shape_of,
    without_version,
    write_release,
)
from tests.requirements import requirement
from tests.store.instrumented_store import bench_on, numbered, write
from tests.store.test_copies import found, memory

COUNT = 300
# A usual run brings the oldest and the newest release forward.
versions = pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=pytest.mark.long if min(RELEASED) < each < max(RELEASED) else ()) for each in RELEASED],
)


async def opened(engine: Engine, place: str) -> str:
    """Opens a store and closes it again; its epoch."""
    async with bench_on(engine, place) as bench:
        return str(bench.store.epoch)


def new_ids() -> IdGenerator:
    return IdGenerator(FakeClock(), SeededRandomness(79))


# -- it works ----------------------------------------------------------------------------------------------------------


@requirement("O1", "O6", "A2")
@versions
async def test_a_store_of_a_released_schema_opens_with_the_tables_of_a_fresh_one(
    engine: Engine, place: str, tmp_path: Path, postgres: str, version: int
) -> None:
    (tmp_path / "fresh").mkdir()
    fresh = await place_for(engine, tmp_path / "fresh", postgres)
    await opened(engine, fresh)
    await write_release(engine, place, version, rows_of(version, COUNT))
    assert await shape_of(engine, place) != await shape_of(engine, fresh)

    assert await opened(engine, place) == "the first epoch"

    assert await shape_of(engine, place) == await shape_of(engine, fresh)
    assert await asked(engine, place, "SELECT value FROM meta WHERE name = 'schema'") == [(str(SCHEMA_VERSION),)]


@requirement("O1", "O6", "P1")
@versions
async def test_every_row_is_kept_and_a_second_opening_changes_nothing(engine: Engine, place: str, version: int) -> None:
    rows = rows_of(version, COUNT)
    await write_release(engine, place, version, rows)
    assert all(len(some) > 1 for some in rows.values())
    assert len(rows["activities"]) > 100
    for _ in range(2):
        await opened(engine, place)
        assert await kept_rows(engine, place, version) == brought_forward(version, rows)
        if version < 3:
            assert {row[0] for row in await asked(engine, place, "SELECT hop FROM activities")} == {0}


@requirement("O1", "A2")
@versions
async def test_statements_work_on_a_store_that_was_brought_forward(engine: Engine, place: str, version: int) -> None:
    await write_release(engine, place, version, rows_of(version, COUNT))
    async with bench_on(engine, place) as bench:
        mark = {"person_id": "p", "workspace_id": "w", "seq": 3}
        await bench.run(write(("save_read_mark", mark)))
        await bench.run(write(("save_read_mark", {**mark, "seq": 2})))
        person = {"person_id": "id 3 é", "created_at": 1, "expires_at": 2}
        await bench.run(write(("insert_login", {"hash": "h", **person}), ("insert_session", {"hash": "h", **person})))
        assert (await bench.store.rows("person_by_session", {"hash": "h"}))[0][3] == "name 3 é"
        assert await bench.run(numbered("workspace_id 7 é")) == 8
        await bench.run(write(("insert_memory", memory(5))))
        assert await found(bench, "nummer n5") == [5]
    assert await asked(engine, place, "SELECT seq FROM read_marks WHERE person_id = 'p'") == [(3,)]


@requirement("SE2", "O1")
@pytest.mark.parametrize("version", sorted(each for each in RELEASED if each < 10))
async def test_what_an_older_store_has_is_to_be_indexed(engine: Engine, place: str, version: int) -> None:
    await write_release(engine, place, version, rows_of(version, COUNT))
    await opened(engine, place)
    orgs = sorted(row[0] for row in await asked(engine, place, "SELECT id FROM orgs"))
    found = await asked(engine, place, "SELECT org_id, backfill FROM search_positions")
    assert sorted(found) == [(each, "{}") for each in orgs]


def migration_lines(version: int, copy: Path) -> list[str]:
    """Return what the log says of a migration."""
    return [
        f"the store is migrated from schema {version} to {SCHEMA_VERSION}; a copy from before is in {copy}",
        f"the store has schema {SCHEMA_VERSION} now",
    ]


# -- the way back ------------------------------------------------------------------------------------------------------


@requirement("O1", "O5")
@versions
async def test_sqlite_leaves_a_copy_of_what_was_for_its_owner_alone(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    place, rows = str(tmp_path / "molecule.db"), rows_of(version, COUNT)
    await write_release("sqlite", place, version, rows)
    first = await shape_of("sqlite", place)
    await opened("sqlite", place)
    copy = tmp_path / f"molecule.schema-{version}.db"
    assert [record.getMessage() for record in caplog.records] == migration_lines(version, copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert await kept_rows("sqlite", str(copy), version) == without_version(rows)
    assert await shape_of("sqlite", str(copy)) == first
    assert not list(tmp_path.glob("*.part*"))
    # The copy put back is opened as any other.
    back = tmp_path / "back"
    back.mkdir()
    copy.rename(back / "molecule.db")
    await opened("sqlite", str(back / "molecule.db"))
    assert await kept_rows("sqlite", str(back / "molecule.db"), version) == brought_forward(version, rows)


@requirement("O5")
@versions
async def test_postgres_leaves_a_copy_of_what_was_that_goes_back_and_forward_again(
    tmp_path: Path, postgres: str, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    place, back, rows = await new_database(postgres), await new_database(postgres), rows_of(version, COUNT)
    await write_release("postgres", place, version, rows)
    first = await shape_of("postgres", place)
    await open_and_close(place, tmp_path)
    (copy,) = tmp_path.iterdir()
    assert copy.name == f"molecule.schema-{version}.postgres.db"
    assert [record.getMessage() for record in caplog.records] == migration_lines(version, copy)
    assert (stat.S_IMODE(copy.stat().st_mode), integrity_error(copy)) == (0o600, "")
    await restore_postgres(copy, back, ids=new_ids())
    assert (await kept_rows("postgres", back, version))["activities"] == without_version(rows)["activities"]
    assert await shape_of("postgres", back) == first
    await opened("postgres", back)
    assert await shape_of("postgres", back) == await shape_of("postgres", place)


async def open_and_close(place: str, folder: Path) -> None:
    """A PostgreSQL store as the server opens it: with a folder for copies."""
    ids, limits = new_ids(), Limits()
    store = PostgresStore(
        place, clock=FakeClock(), ids=ids, limits=limits, notify=lambda _keys: None, backup_folder=folder
    )
    try:
        await store.open()
    finally:
        await store.close()


@requirement("O5")
async def test_postgres_does_not_migrate_if_no_copy_can_be_made(tmp_path: Path, postgres: str) -> None:
    place, rows = await new_database(postgres), rows_of(2, COUNT)
    await write_release("postgres", place, 2, rows)
    first = await shape_of("postgres", place)
    with pytest.raises(BackupFailed, match="No such file"):
        await open_and_close(place, tmp_path / "nowhere")
    assert await shape_of("postgres", place) == first
    assert await kept_rows("postgres", place, 2) == without_version(rows)


@requirement("O1")
async def test_what_an_earlier_try_left_is_no_obstacle(tmp_path: Path) -> None:
    place, rows = str(tmp_path / "molecule.db"), rows_of(1, COUNT)
    await write_release("sqlite", place, 1, rows)
    (tmp_path / "molecule.schema-1.part").write_bytes(b"half a copy")
    (tmp_path / "molecule.schema-1.db").write_bytes(b"an older copy")
    await opened("sqlite", place)
    assert await kept_rows("sqlite", str(tmp_path / "molecule.schema-1.db"), 1) == without_version(rows)


@requirement("O1")
async def test_a_fresh_store_leaves_no_copy(tmp_path: Path, postgres: str) -> None:
    await opened("sqlite", str(tmp_path / "molecule.db"))
    await open_and_close(await new_database(postgres), tmp_path)
    assert not list(tmp_path.glob("*schema*"))


# -- all or nothing ----------------------------------------------------------------------------------------------------

FAILING = {
    "a later step": lambda steps: [*steps, "CREATE TABLE more (a TEXT)", "CREATE TABLE more (a TEXT)"],
    "the first step": lambda steps: ["CREATE TABLE events (a TEXT)", *steps],
    "within a step": lambda steps: [step + "\nINSERT INTO nowhere VALUES (1);" for step in steps],
}


@requirement("O1", "P1")
@pytest.mark.parametrize("kind", FAILING)
@versions
async def test_a_step_that_fails_leaves_everything_as_it_was(
    engine: Engine, place: str, monkeypatch: pytest.MonkeyPatch, kind: str, version: int
) -> None:
    rows = rows_of(version, COUNT)
    await write_release(engine, place, version, rows)
    first = await shape_of(engine, place)
    module = sqlite_module if engine == "sqlite" else postgres_module
    load: Callable[..., list[str]] = module.load_migrations
    with monkeypatch.context() as planted:
        planted.setattr(module, "load_migrations", lambda *args: FAILING[kind](load(*args)))
        store = open_store(engine, place)
        with pytest.raises((StoreDamaged, StoreUnavailable)):
            await store.open()
        await store.close()
    assert await kept_rows(engine, place, version) == without_version(rows)
    assert await shape_of(engine, place) == first
    assert await opened(engine, place) == "the first epoch"  # and the next start brings it forward


@requirement("O1")
async def test_a_copy_that_cannot_be_made_stops_the_migration(tmp_path: Path) -> None:
    place, rows = tmp_path / "molecule.db", rows_of(1, COUNT)
    await write_release("sqlite", str(place), 1, rows)
    (tmp_path / "molecule.schema-1.db").mkdir()
    store = open_store("sqlite", str(place))
    with pytest.raises((StoreDamaged, OSError)):
        await store.open()
    await store.close()
    assert await kept_rows("sqlite", str(place), 1) == without_version(rows)


@requirement("O6")
def test_the_steps_are_numbered_without_a_gap_and_every_release_has_its_schema() -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        assert len(queries.load_migrations("sqlite", version)) == SCHEMA_VERSION - version
    assert set(RELEASED) == set(range(1, SCHEMA_VERSION))
