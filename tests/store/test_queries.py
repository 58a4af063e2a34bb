"""Named queries: each is understood by both engines, and a file that says something twice is refused."""

from importlib import resources
from pathlib import Path

import apsw
import asyncpg
import pytest

from molecule_core.common import package_resources
from molecule_core.store import queries
from molecule_core.store.postgres.batched_reads import batched_query
from molecule_core.store.queries import Query, load_queries, load_schema, split_statements
from testing.engines import new_database
from tests.requirements import requirement

SQLITE, POSTGRES = load_queries("sqlite"), load_queries("postgres")


@pytest.fixture(scope="module")
def sqlite_schema() -> apsw.Connection:
    """An empty store in memory."""
    connection = apsw.Connection(":memory:")
    for _ in connection.execute(load_schema("sqlite")):
        pass
    return connection


@pytest.fixture(scope="module")
async def postgres_schema(postgres: str) -> str:
    """An empty store in a database."""
    place = await new_database(postgres)
    connection = await asyncpg.connect(place)
    await connection.execute(load_schema("postgres"))
    await connection.close()
    return place


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As everywhere, but for fixtures of this module."""
    return "asyncio"


@requirement("A2")
@pytest.mark.parametrize("name", SQLITE)
def test_every_named_query_is_understood_by_sqlite(sqlite_schema: apsw.Connection, name: str) -> None:
    query = SQLITE[name]
    plan = sqlite_schema.execute(f"EXPLAIN {query.sql}", [None] * len(query.param_names)).fetchall()
    assert plan


@requirement("A2")
@pytest.mark.parametrize("name", POSTGRES)
async def test_every_named_query_is_understood_by_postgres(postgres_schema: str, name: str) -> None:
    query = POSTGRES[name]
    connection = await asyncpg.connect(postgres_schema)
    try:
        prepared = await connection.prepare(query.sql)
        assert len(prepared.get_parameters()) == len(query.param_names)
        if query.param_names and prepared.get_attributes():  # it reads, so a group may ask it for many at once
            whole = await connection.prepare(await batched_query(connection, query))
            assert len(whole.get_parameters()) == len(query.param_names)
            assert len(whole.get_attributes()) == len(prepared.get_attributes()) + 1
    finally:
        await connection.close()


def test_both_engines_know_the_same_names_and_parameters() -> None:
    assert {name: set(query.param_names) for name, query in SQLITE.items()} == {
        name: set(query.param_names) for name, query in POSTGRES.items()
    }
    assert {"append_event", "insert_activity", "message_by_dedupe_key", "claimable", "set_timer"} <= set(SQLITE)


def test_every_statement_of_every_file_is_found_by_its_name() -> None:
    """A head that is not written as the loader expects would make its statement part of the one before."""
    for room in queries.PACKAGES_WITH_QUERIES:
        source = resources.files("molecule_core").joinpath(room, "queries.sql").read_text(encoding="utf-8")
        found = list(split_statements(source))
        assert len(found) == source.count("-- name:")
        assert all(
            description and ";" not in text and "--" not in text.removeprefix("-- mirrored:")
            for _, description, text in found
        )


def test_every_room_that_has_queries_is_loaded() -> None:
    with_queries = {path.parent.name for path in _package().rglob("queries.sql")}
    assert with_queries == set(queries.PACKAGES_WITH_QUERIES)


def _package() -> Path:
    return Path(str(resources.files("molecule_core")))


def _planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """Makes the loader read these files instead of the package's."""
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(queries, "PACKAGES_WITH_QUERIES", tuple(dict.fromkeys(path.split("/")[0] for path in files)))
    monkeypatch.setattr(package_resources, "PACKAGE_FOLDER", tmp_path)


def test_a_name_that_two_rooms_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = "-- name: same\n-- says so\nSELECT 1;\n"
    _planted(tmp_path, monkeypatch, {"one/queries.sql": same, "two/queries.sql": same})
    with pytest.raises(ValueError, match=r"same is declared twice; the second is in two/queries\.sql"):
        load_queries("sqlite")


def test_a_name_that_stands_twice_in_one_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = "-- name: same\n-- says so\nSELECT 1;\n"
    _planted(tmp_path, monkeypatch, {"one/queries.sql": same * 2})
    with pytest.raises(ValueError, match="same is declared twice"):
        load_queries("sqlite")


def test_a_dialect_may_override_single_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "one/queries.sql": "-- name: a\n-- all\nSELECT 1;\n\n-- name: b\n-- all\nSELECT 2;\n",
        "one/queries.postgres.sql": "-- name: b\n-- special\nSELECT 3;\n",
    }
    _planted(tmp_path, monkeypatch, files)
    assert {name: query.sql for name, query in load_queries("sqlite").items()} == {"a": "SELECT 1", "b": "SELECT 2"}
    assert {name: query.sql for name, query in load_queries("postgres").items()} == {"a": "SELECT 1", "b": "SELECT 3"}


def test_a_parameter_that_stands_twice_is_bound_once_and_casts_are_no_parameters() -> None:
    query = Query("q", "SELECT :a, :b::text, :a, x::bigint FROM t WHERE c = ':d'", "postgres")
    assert query.param_names[:2] == ("a", "b")
    assert query.sql.startswith("SELECT $1, $2::text, $1, x::bigint")
    assert query.bind({"a": 1, "b": 2, "d": 3})[:2] == (1, 2)
    assert query.with_placeholders(lambda name: f"k.{name}").startswith("SELECT k.a, k.b::text, k.a")


def test_a_parameter_that_is_missing_is_named() -> None:
    query = Query("q", "SELECT :one, :two", "sqlite")
    with pytest.raises(KeyError, match="two"):
        query.bind({"one": 1})
    assert query.bind({"one": 1, "two": 2, "more": 3}) == (1, 2)
    assert Query("q", "SELECT :one", "sqlite").bind({"one": 1}) == (1,)
    assert Query("q", "SELECT 1", "sqlite").bind({"one": 1}) == ()
