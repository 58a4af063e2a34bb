"""Opening a store: who may, what it refuses, and what happens when its ground gives way while it is open."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from molecule_core.common.errors import SchemaTooNew, StateInUse, StoreDamaged, StoreUnavailable
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.postgres import store as postgres_module
from testing.engines import Engine, new_database, open_store
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.instrumented_store import (
    Bench,
    bench_on,
    commits_held,
    eventually,
    note,
    numbered,
    seen_from_outside,
    write,
)

TOO_NEW = ("set_meta", {"name": "schema", "value": str(SCHEMA_VERSION + 1)})


@requirement("O1")
async def test_a_second_store_on_the_same_file_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    place = str(tmp_path / "molecule.db")
    async with bench_on("sqlite", place) as bench:
        second = open_store("sqlite", place)
        with pytest.raises(StateInUse, match="Stop it first"):
            await second.open()
        await second.close()
        assert await bench.run(write(note("a"), answer="still here")) == "still here"
    async with bench_on("sqlite", place) as bench:
        assert set(await bench.notes()) == {"note a"}


async def test_several_stores_share_a_postgres_database(postgres: str) -> None:
    place = await new_database(postgres)
    async with (
        bench_on("postgres", place) as one,
        bench_on("postgres", place) as other,
    ):
        await one.run(write(note("a")))
        await other.run(write(note("b")))
        assert set(await one.notes()) == {"note a", "note b"}
        assert one.store.epoch == other.store.epoch != ""


async def test_stores_that_find_a_database_empty_at_once_make_its_schema_once(postgres: str) -> None:
    place = await new_database(postgres)
    stores = [open_store("postgres", place) for _ in range(4)]
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        await asyncio.gather(*(store.open() for store in stores))
    assert len({store.epoch for store in stores}) == 1
    for store in stores:
        await store.close()


@requirement("M38", "O1")
async def test_versions_that_want_to_be_alone_keep_out_and_are_kept_out(postgres: str) -> None:
    place = await new_database(postgres)
    alone = await asyncpg.connect(place)
    try:
        take = "SELECT pg_try_advisory_lock($1)"
        async with bench_on("postgres", place), bench_on("postgres", place):
            assert not await alone.fetchval(take, postgres_module._SERVER_LOCK)
        assert await alone.fetchval(take, postgres_module._SERVER_LOCK)
        store = open_store("postgres", place)
        with pytest.raises(StateInUse, match="this database"):
            await store.open()
        await store.close()
    finally:
        await alone.close()


@requirement("O1")
async def test_a_store_of_a_newer_molecule_is_refused_and_left_as_it_was(engine: Engine, place: str) -> None:
    async with bench_on(engine, place) as bench:
        await bench.run(write(TOO_NEW))
    for _ in range(2):  # also the second time: the refusal left no lock behind
        store = open_store(engine, place)
        with pytest.raises(
            SchemaTooNew, match=f"schema {SCHEMA_VERSION + 1}; this version supports up to {SCHEMA_VERSION}"
        ):
            await store.open()
        await store.close()
    rows = await seen_from_outside(engine, place, "SELECT value FROM meta WHERE name = 'schema'")
    assert rows == [(str(SCHEMA_VERSION + 1),)]


async def test_a_file_that_is_no_store_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "molecule.db"
    path.write_bytes(b"this is a letter, not a database. " * 200)
    store = open_store("sqlite", str(path))
    with pytest.raises(StoreDamaged, match="not a database"):
        await store.open()
    await store.close()
    assert path.read_bytes() == b"this is a letter, not a database. " * 200


async def test_a_database_that_cannot_be_reached_is_unavailable(postgres: str) -> None:
    store = open_store("postgres", postgres.replace("/postgres?", "/no_such_database?"))
    with pytest.raises(StoreUnavailable):
        await store.open()
    await store.close()


@requirement("P1")
async def test_a_full_disk_fails_its_group_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async with bench_on("sqlite", str(tmp_path / "molecule.db")) as bench:
        assert await bench.run(numbered("w")) == 1
        pages = bench.store._write_connection.pragma("page_count")
        bench.store._write_connection.pragma("max_page_count", pages)
        outcome = await bench.together(numbered("w"), write(note("big", "x" * 100_000)))
        assert [type(each) for each in outcome] == [StoreUnavailable] * 2
        bench.store._write_connection.pragma("max_page_count", pages + 1000)
        assert await bench.run(numbered("w")) == 2
        assert await bench.notes() == {}


@requirement("P1")
async def test_a_connection_lost_in_the_middle_fails_its_group_and_leaves_nothing(postgres: str) -> None:
    async with bench_on("postgres", await new_database(postgres)) as bench:
        assert await bench.run(numbered("w")) == 1
        async with commits_held(bench) as hold:
            running = await bench.started(numbered("w"), write(note("a"), rings=("a",)))
            await hold.reached()
            await _hang_up(bench)
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                outcome = await asyncio.gather(*running, return_exceptions=True)
        assert [type(each) for each in outcome] == [StoreUnavailable] * 2
        assert bench.rung == []
        assert await bench.run(numbered("w")) == 2
        assert await bench.notes() == {}


async def test_a_connection_lost_while_nothing_is_written_is_made_anew(postgres: str) -> None:
    async with bench_on("postgres", await new_database(postgres)) as bench:
        assert await bench.run(numbered("w")) == 1
        await _hang_up(bench)
        await eventually(lambda: _is_closed(bench))
        assert await bench.together(numbered("w"), numbered("w")) == [2, 3]


async def test_a_server_that_lost_its_place_to_another_says_so_and_takes_it_again_when_it_is_free(
    postgres: str,
) -> None:
    """PostgreSQL may hold the lock of a dead connection for minutes: the server must outlive that."""
    place = await new_database(postgres)
    async with bench_on("postgres", place) as bench:
        usurper = await asyncpg.connect(place)
        try:
            await _hang_up(bench)
            await eventually(lambda: _has_taken_the_place(usurper))
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await bench.run(write(note("a")))
        finally:
            await usurper.close()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            while True:  # the server notices a moment later that the usurper has gone
                try:
                    assert await bench.run(write(note("b"), answer="back")) == "back"
                    break
                except StoreUnavailable:
                    continue
        assert set(await bench.notes()) == {"note b"}


async def _hang_up(bench: Bench) -> None:
    """The database ends the connection that writes."""
    process = bench.store._write_connection.get_server_pid()
    ended = "SELECT pg_terminate_backend($1, 5000)"
    assert await bench.store._pool.fetchval(ended, process)


async def _is_closed(bench: Bench) -> bool:
    return bool(bench.store._write_connection.is_closed())


async def _has_taken_the_place(connection: asyncpg.Connection) -> bool:
    taken = await connection.fetchval("SELECT pg_try_advisory_lock($1)", postgres_module._SERVER_LOCK)
    return bool(taken)
