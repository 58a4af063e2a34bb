"""Who owns which table, and how a statement is read."""

from pathlib import Path

import pytest

from tests.architecture.guards.sql import facts, tables_of_schema
from tests.architecture.guards.tables import find_foreign_tables
from tests.architecture.repository import SOURCES, write_tree

OWNERS = {"events": "store", "persons": "access", "orgs": "org", "activities": "messages", "tasks": "delegations"}
SCHEMA = "".join(f"CREATE TABLE {name} (id TEXT);\n" for name in OWNERS)


def find(repo: Path, package: str, sql: str) -> list[str]:
    """Return the findings of one statement."""
    files = {"store/schema.sql": SCHEMA, f"{package}/queries.sql": f"-- name: one\n-- the only\n{sql}\n"}
    return find_foreign_tables(write_tree(repo, files), OWNERS)


def test_the_real_statements_touch_only_their_own_tables() -> None:
    assert find_foreign_tables(SOURCES) == []


@pytest.mark.parametrize(
    ("package", "sql"),
    [
        ("access", "INSERT INTO persons (id) VALUES (:id)"),
        ("access", "UPDATE persons SET id = :from WHERE id = :update"),
        ("access", "DELETE FROM persons WHERE id = :id"),
        ("store", "INSERT INTO events (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET id = excluded.id"),
        ("org", "SELECT o.id FROM orgs o JOIN persons p ON p.id = o.id"),
        ("messages", "SELECT id FROM activities WHERE id IN (SELECT id FROM orgs)"),
        ("delegations", "INSERT INTO tasks (id) SELECT id FROM activities"),
        ("delegations", "SELECT max(id) FROM events"),
        ("views", "SELECT a.id FROM activities a, tasks t, orgs, persons"),
        ("access", "WITH recent AS (SELECT id FROM persons) SELECT id FROM recent"),
        ("access", "SELECT value FROM json_each(:ids)"),
    ],
)
def test_a_statement_on_its_own_tables_gives_no_finding(tmp_path: Path, package: str, sql: str) -> None:
    assert find(tmp_path, package, sql) == []


@pytest.mark.parametrize(
    ("package", "sql", "fault"),
    [
        ("messages", "INSERT INTO orgs (id) VALUES (1)", "writes orgs, which belongs to org"),
        ("messages", "UPDATE tasks SET id = 1", "writes tasks, which belongs to delegations"),
        ("views", "DELETE FROM activities", "writes activities, which belongs to messages"),
        ("delegations", "INSERT INTO activities (id) VALUES (1)", "writes activities, which belongs to messages"),
        ("store", "UPDATE persons SET id = 1", "writes persons, which belongs to access"),
        ("org", "INSERT INTO events (id) VALUES (1)", "writes events, which belongs to store"),
        ("org", "INSERT INTO moons (id) VALUES (1)", "writes moons, which belongs to no package"),
        ("org", "SELECT id FROM activities", "reads activities, which belongs to messages"),
        ("access", "SELECT id FROM orgs", "reads orgs, which belongs to org"),
        ("memory", "SELECT id FROM tasks", "reads tasks, which belongs to delegations"),
        ("store", "SELECT id FROM orgs", "reads orgs, which belongs to org"),
        ("delegations", "SELECT id FROM persons", "reads persons, which belongs to access"),
        ("access", "DELETE FROM persons WHERE id IN (SELECT id FROM orgs)", "reads orgs, which belongs to org"),
        ("access", "SELECT id FROM moons", "reads moons, which belongs to no package"),
        ("access", "WITH orgs AS (SELECT 1) SELECT * FROM orgs", "reads orgs, which belongs to org"),
    ],
)
def test_a_statement_on_foreign_tables_is_the_one_finding(tmp_path: Path, package: str, sql: str, fault: str) -> None:
    assert find(tmp_path, package, sql) == [f"src/molecule_core/{package}/queries.sql:1 one {fault}"]


def test_an_override_for_postgres_has_the_same_tables(tmp_path: Path) -> None:
    files = {
        "store/schema.sql": SCHEMA,
        "access/queries.sql": "-- name: one\n-- it\nDELETE FROM persons;\n",
        "access/queries.postgres.sql": "-- name: one\n-- it\nDELETE FROM ONLY orgs;\n",
    }
    assert find_foreign_tables(write_tree(tmp_path, files), OWNERS) == [
        "src/molecule_core/access/queries.postgres.sql:1 one writes orgs, which belongs to org"
    ]


def test_a_table_without_an_owner_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"store/schema.sql": SCHEMA + "CREATE TABLE IF NOT EXISTS moons (id TEXT);"})
    assert find_foreign_tables(tree, OWNERS) == ["src/molecule_core/store/schema.sql moons: this table has no owner"]


def test_an_owner_of_a_missing_table_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"store/schema.sql": SCHEMA})
    assert find_foreign_tables(tree, {**OWNERS, "moons": "memory"}) == [
        "src/molecule_core/store/schema.sql moons: memory is its owner, but the schema has no such table"
    ]


def test_an_owner_that_is_no_noun_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"store/schema.sql": SCHEMA})
    assert find_foreign_tables(tree, {**OWNERS, "tasks": "api"}) == [
        "src/molecule_core/store/schema.sql tasks: its owner api is neither a noun nor the store"
    ]


def test_a_tree_without_a_schema_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"store/queries.sql": ""})
    assert find_foreign_tables(tree, {}) == ["src/molecule_core/store/schema.sql: the file does not exist"]


def test_the_schema_is_read_with_what_is_meant_for_one_engine() -> None:
    schema = """
        CREATE TABLE one (id TEXT) /*sqlite: STRICT */; -- CREATE TABLE no (id TEXT)
        create table if not exists "Two" (id TEXT);
        /*sqlite: CREATE VIRTUAL TABLE three USING fts5 (text); */
        CREATE INDEX four ON one (id); CREATE UNLOGGED TABLE main.five (id TEXT DEFAULT 'CREATE TABLE no');
        ALTER TABLE one ADD COLUMN x TEXT;
    """
    assert tables_of_schema(schema) == ["one", "two", "three", "five"]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("INSERT OR IGNORE INTO a (x) VALUES (1)", {"a"}),
        ("REPLACE INTO a (x) VALUES (1)", {"a"}),
        ("UPDATE OR FAIL a SET x = 1", {"a"}),
        ("UPDATE ONLY a SET x = b.y FROM b", {"a"}),
        ("WITH gone AS (DELETE FROM a RETURNING x) INSERT INTO b SELECT x FROM gone", {"a", "b"}),
        ("MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN UPDATE SET y = 1", {"a"}),
        ("TRUNCATE TABLE a", {"a"}),
        ("TRUNCATE a", {"a"}),
        ("SELECT x FROM a FOR UPDATE SKIP LOCKED", set()),
        ('INSERT INTO main."A" (x) VALUES (1)', {"a"}),
        ("SELECT x FROM a FOR NO KEY UPDATE SKIP LOCKED", set()),
        ("SELECT 'DELETE FROM a' FROM b -- DELETE FROM c", set()),
    ],
)
def test_the_tables_that_a_statement_writes_are_found(sql: str, tables: set[str]) -> None:
    assert facts(sql).writes == tables
    assert facts(sql).is_writing == bool(tables)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT x FROM a, b AS c, (SELECT y FROM d) e, f WHERE g = (SELECT 1 FROM h)", set("abdfh")),
        ("SELECT x FROM (a LEFT JOIN b USING (x)), c CROSS JOIN LATERAL (SELECT 1 FROM d) e", set("abcd")),
        ("SELECT x FROM a UNION ALL SELECT y, z FROM b ORDER BY 1, 2", set("ab")),
        ("DELETE FROM a USING b, c WHERE a.x = b.x", set("bc")),
        ("UPDATE a SET x = 1 FROM b JOIN c ON b.x = c.x WHERE a.y IS DISTINCT FROM b.y", set("bc")),
        ("SELECT extract(epoch FROM x), trim(both FROM y) FROM a", set("a")),
        ("SELECT x FROM unnest(:from::text[]) AS u (x) JOIN a ON a.x = u.x", set("a")),
        ("WITH RECURSIVE t (x, y) AS (SELECT x, y FROM a UNION SELECT b.x, 1 FROM b, t) SELECT * FROM t", set("abt")),
        ("SELECT DISTINCT x FROM a JOIN b ON a.f = g(a.x, b.x), c", set("abc")),
        ("INSERT INTO a SELECT x FROM b WHERE EXISTS (SELECT 1 FROM c)", set("bc")),
        ("SELECT x FROM a JOIN b ON a.x IN (SELECT x FROM c WHERE d = 1), e", set("abce")),
        ("SELECT coalesce((SELECT x FROM a), g(b, c)) FROM d", set("ad")),
        ("SELECT x FROM ONLY a, LATERAL unnest(b)", set("a")),
    ],
)
def test_the_tables_that_a_statement_reads_are_found(sql: str, tables: set[str]) -> None:
    assert facts(sql).reads == tables


def test_the_names_that_with_defines_are_found() -> None:
    sql = "WITH t (x, y) AS (SELECT 1, 2), u AS NOT MATERIALIZED (VALUES (1)) SELECT CAST(x AS text) FROM t, u"
    assert facts(sql).defines == {"t", "u"}


def test_a_window_and_an_alias_define_no_table() -> None:
    sql = "SELECT sum(x) OVER w AS total FROM f(1) AS v (x, y) WINDOW w AS (PARTITION BY y)"
    assert facts(sql).defines == set()
