"""Copies of either engine: consistent while servers write, for their owner alone, and back into either engine."""

import asyncio
import stat
from pathlib import Path

import apsw
import asyncpg
import pytest

from molecule_core.common.errors import BackupFailed
from molecule_core.common.ids import IdGenerator
from molecule_core.store.postgres.backup import back_up_postgres, restore_postgres
from molecule_core.store.sqlite.backup import back_up_sqlite, integrity_error, restore_sqlite
from molecule_core.store.sqlite.store import DATABASE_FILE
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, new_database, place_for
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, bench_on, event, note, numbered, seen_from_outside, write


def new_ids() -> IdGenerator:
    return IdGenerator(FakeClock(), SeededRandomness(78))


async def copied(engine: Engine, place: str, copy: Path) -> int:
    """A copy of a store, as `molecule backup` makes it."""
    if engine == "postgres":
        return await back_up_postgres(place, copy)
    return await asyncio.to_thread(back_up_sqlite, Path(place).parent, copy)


async def put_back(engine: Engine, copy: Path, place: str) -> None:
    """A copy in a new place, as `molecule restore` does it."""
    if engine == "postgres":
        await restore_postgres(copy, place, ids=new_ids())
    else:
        restore_sqlite(copy, Path(place).parent, clock=FakeClock(), ids=new_ids())


async def everything(engine: Engine, place: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables but for the epoch. (What an engine finds memories by is its own.)"""
    names = {
        "sqlite": "SELECT name FROM pragma_table_list "
        "WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite%'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    }
    found = {}
    for (table,) in await seen_from_outside(engine, place, names[engine]):
        rows = await seen_from_outside(engine, place, f"SELECT * FROM {table}")  # noqa: S608
        found[table] = sorted((row for row in rows if row[0] != "epoch"), key=repr)
    return found


async def filled(bench: Bench) -> None:
    """Some rows of many kinds."""
    for part in range(30):
        await bench.together(
            write(note(f"n{part}", "é\n'\"" * part), events=[event()]), *(numbered("w") for _ in range(7))
        )
    beat = {
        "heard_at": 1,
        "active_tasks": 2,
        "error_rate": 0.1,
        "sample_error": None,
        "uptime_seconds": 3,
        "saved": "s",
    }
    await bench.run(write(("save_heartbeat", {**beat, "workspace_id": "w", "current_task": "sorting"})))
    await bench.run(write(("insert_login", {"hash": "h", "person_id": "p", "created_at": 1, "expires_at": 2})))
    for no in range(1, 21):
        await bench.run(write(("insert_memory", memory(no))))
    await bench.run(write(("forget_memory", {"no": 7})))
    key = {"workspace_id": "w", "key": "k é", "value": '{"a": 1}', "version": 3, "expires_at": None, "updated_at": 5}
    await bench.run(write(("save_key", key), ("save_key_version", {"workspace_id": "w", "last": 3})))


def memory(no: int) -> dict[str, object]:
    """A memory as its row."""
    return {
        "no": no,
        "id": f"m{no}",
        "org_id": "org",
        "workspace_id": "w",
        "scope": "LOCAL",
        "namespace": "general",
        "shelf": "_lw",
        "content": f"Nummer {no}: grün",
        "words": f"_lw nummer n{no} grun",
        "content_hash": str(no),
        "written_by": "workspace:w",
        "created_at": no,
    }


async def found(bench: Bench, words: str, prefix: int = 0) -> list[int]:
    """The numbers of the memories that hold these words."""
    wish = {"shelves": "_lw _lx", "words": words, "prefix": prefix, "before": 100, "namespace": None, "count": 50}
    return [row[0] for row in await bench.store.rows("search_memories", wish)]


@requirement("O1", "O5")
async def test_a_copy_while_the_store_writes_is_one_moment_and_holds_all_that_was_answered_before(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    rounds, stopping = 0, False

    async def writing() -> None:
        nonlocal rounds
        while not stopping:
            one = str(rounds + 1)
            await bench.together(
                write(note("one", one), note("other", one), events=[event()]), *(numbered("w") for _ in range(5))
            )
            rounds += 1

    during = 0
    async with bench_on(engine, place) as bench:
        await filled(bench)
        task = asyncio.create_task(writing())
        for number in range(6):
            before, copy = rounds, tmp_path / f"copy {number}.db"
            assert await copied(engine, place, copy) == copy.stat().st_size
            during += rounds - before
            assert integrity_error(copy) == ""
            found = dict(await seen_from_outside("sqlite", str(copy), "SELECT name, value FROM meta"))
            one = int(found.get("note one", 0))
            assert found.get("note one") == found.get("note other")
            assert before <= one <= rounds + 1
            counted = await seen_from_outside("sqlite", str(copy), "SELECT count(*), max(seq) FROM activities")
            assert counted == [(210 + 5 * one, 210 + 5 * one)]
            assert await seen_from_outside("sqlite", str(copy), "SELECT max(seq) FROM events") == [(30 + one,)]
        stopping = True
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await task
    assert during > 0


@requirement("O1", "O5")
@pytest.mark.parametrize("into", ["sqlite", "postgres"])
async def test_a_copy_goes_back_into_either_engine_with_every_row_and_a_new_epoch(
    engine: Engine, place: str, tmp_path: Path, postgres: str, into: Engine
) -> None:
    async with bench_on(engine, place) as bench:
        await filled(bench)
        epoch = bench.store.epoch
    copy = tmp_path / "copy.db"
    await copied(engine, place, copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    (tmp_path / "back").mkdir()
    back = await place_for(into, tmp_path / "back", postgres)
    await put_back(into, copy, back)
    assert await everything(into, back) == await everything(engine, place)
    async with bench_on(into, back) as bench:
        assert bench.store.epoch not in ("", epoch)
        assert await bench.run(numbered("w")) == 211
        assert await found(bench, "grun n12") == [12]
        assert await found(bench, "num", 1) == [*range(20, 7, -1), *range(6, 0, -1)]
        await bench.run(write(("insert_memory", memory(21)), ("forget_memory", {"no": 12})))
        assert await found(bench, "n12") == []
        assert await found(bench, "n21 grun") == [21]
        assert (await bench.store.rows("last_event", {"key": "org"}))[0][0] == 30


@requirement("O5")
async def test_a_copy_of_postgres_has_the_same_indexes_again(place: str, tmp_path: Path, postgres: str) -> None:
    listed = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
    one, other, copy = await new_database(postgres), await new_database(postgres), tmp_path / "copy.db"
    async with bench_on("postgres", one):
        pass
    await back_up_postgres(one, copy)
    await restore_postgres(copy, other, ids=new_ids())
    assert place
    assert await seen_from_outside("postgres", other, listed) == await seen_from_outside("postgres", one, listed)


@requirement("O5")
async def test_a_database_that_holds_something_is_never_written_over(tmp_path: Path, postgres: str) -> None:
    place, copy = await new_database(postgres), tmp_path / "copy.db"
    async with bench_on("postgres", place) as bench:
        await bench.run(write(note("dear")))
    await back_up_postgres(place, copy)
    with pytest.raises(BackupFailed, match="not empty"):
        await restore_postgres(copy, place, ids=new_ids())
    with pytest.raises(BackupFailed, match="already exists"):
        await back_up_postgres(place, copy)
    assert (await seen_from_outside("postgres", place, "SELECT count(*) FROM meta WHERE name = 'note dear'")) == [(1,)]


@requirement("O5")
async def test_what_cannot_be_copied_or_put_back_says_why_and_leaves_nothing(tmp_path: Path, postgres: str) -> None:
    empty, copy, junk = await new_database(postgres), tmp_path / "copy.db", tmp_path / "junk.db"
    junk.write_bytes(b"junk" * 1000)
    with pytest.raises(BackupFailed, match="has no store"):
        await back_up_postgres(empty, copy)
    with pytest.raises(BackupFailed, match="No such file"):
        await back_up_postgres(empty, tmp_path / "nowhere" / "copy.db")
    with pytest.raises(BackupFailed):
        await back_up_postgres("postgresql://localhost:1/nothing", copy)
    with pytest.raises(BackupFailed, match="cannot be read"):
        await restore_postgres(junk, empty, ids=new_ids())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junk.db"]


@requirement("O5")
async def test_a_restore_that_fails_in_the_middle_leaves_the_database_empty(tmp_path: Path, postgres: str) -> None:
    place, back, copy = str(tmp_path / DATABASE_FILE), await new_database(postgres), tmp_path / "copy.db"
    async with bench_on("sqlite", place) as bench:
        await filled(bench)
    back_up_sqlite(tmp_path, copy)
    broken = apsw.Connection(str(copy))
    broken.execute("UPDATE meta SET value = 'a' || char(0) || 'b' WHERE name = 'note n1'")  # no text to PostgreSQL
    broken.close()
    with pytest.raises(BackupFailed):
        await restore_postgres(copy, back, ids=new_ids())
    connection = await asyncpg.connect(back)
    assert await connection.fetch("SELECT * FROM pg_tables WHERE schemaname = 'public'") == []
    await connection.close()
