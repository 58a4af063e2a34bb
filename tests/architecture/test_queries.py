"""Named queries: clear, used, and those that write named only by writers of their package."""

from pathlib import Path

import pytest

from molecule_core.store.postgres.batched_reads import GIVEN_ROWS
from tests.architecture.guards.queries import find_unclear_queries
from tests.architecture.guards.query_names import find_misused_queries
from tests.architecture.guards.sql_in_python import find_sql_in_python
from tests.architecture.repository import SOURCES, write_tree

READING = "-- name: persons_of_org\n-- all of them\nSELECT id FROM persons;\n"
WRITING = "-- name: insert_person\n-- a new one\nINSERT INTO persons (id) VALUES (:id);\n"
QUERIES = "src/molecule_core/access/queries.sql"


def test_the_real_queries_are_named_and_described() -> None:
    assert find_unclear_queries(SOURCES) == []


def test_no_query_has_the_name_under_which_parameters_of_many_are_given() -> None:
    files = SOURCES.files(".sql")
    assert files
    assert [each.name for each in files if GIVEN_ROWS in each.read_text().lower()] == []


def test_named_and_described_statements_give_no_finding(tmp_path: Path) -> None:
    files = {
        "access/queries.sql": f"-- Persons and tokens.\n\n{READING}\n{WRITING}",
        "access/queries.postgres.sql": WRITING,
        "views/queries.sql": "-- name: tree\n-- all\n-- as it stands\nWITH a AS (SELECT 1) SELECT * FROM a;\n",
        "org/queries.sql": "-- name: touch\n-- one\nUPDATE orgs SET id = 1;\n-- name: drop\n-- it\nDELETE FROM orgs;",
        "store/schema.sql": "CREATE TABLE persons (id TEXT);",
        "store/migrations/0002.sql": "ALTER TABLE persons ADD COLUMN x TEXT;",
    }
    assert find_unclear_queries(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "-- name: insert_person\nINSERT INTO persons (id) VALUES (1);",
            ":1 insert_person: the line below the name must",
        ),
        (
            "-- name: insert_person\n--\nINSERT INTO p (id) VALUES (1);",
            ":1 insert_person: the line below the name must",
        ),
        ("-- name: insert_person\n-- a new one\n", ":1 insert_person: there is no statement"),
        ("-- name: insert_person\n-- one\nDROP TABLE p;", ":1 insert_person: DROP is none of SELECT, WITH, INSERT"),
        ("-- name: two\n-- both\nDELETE FROM p; DELETE FROM q;", ":1 two: more than one statement"),
        ("-- name: Insert-Person\n-- one\nSELECT 1;", ":1 Insert-Person: a name is one word of a-z, 0-9 and _"),
        ("--name:insert_person\n-- one\nSELECT 1;", ":1 insert_person: a name is one word of a-z, 0-9 and _"),
        (f"SELECT 1;\n{READING}", ":1 a statement without a name"),
        (f"{READING}{READING}", f":4 persons_of_org: the name is taken by {QUERIES}:1"),
    ],
)
def test_an_unclear_statement_is_the_one_finding(tmp_path: Path, text: str, finding: str) -> None:
    [found] = find_unclear_queries(write_tree(tmp_path, {"access/queries.sql": text}))
    assert found.startswith(f"{QUERIES}{finding}")


def test_a_name_with_nothing_below_it_lacks_description_and_statement(tmp_path: Path) -> None:
    assert find_unclear_queries(write_tree(tmp_path, {"access/queries.sql": "-- name: lonely"})) == [
        f"{QUERIES}:1 lonely: the line below the name must describe it",
        f"{QUERIES}:1 lonely: there is no statement",
    ]


def test_queries_of_a_tree_that_does_not_exist_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_unclear_queries(write_tree(tmp_path, {}))


def test_two_packages_with_one_name_are_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"access/queries.sql": READING, "org/queries.sql": f"\n{READING}"})
    assert find_unclear_queries(tree) == [
        f"src/molecule_core/org/queries.sql:2 persons_of_org: the name is taken by {QUERIES}:1"
    ]


def test_an_override_of_an_unknown_name_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"access/queries.sql": READING, "access/queries.postgres.sql": WRITING})
    assert find_unclear_queries(tree) == [
        "src/molecule_core/access/queries.postgres.sql:1 insert_person: it overrides nothing in queries.sql"
    ]


@pytest.mark.parametrize("path", ["api/queries.sql", "access/more.sql", "access/old/queries.sql", "wire/a.sql"])
def test_sql_in_a_wrong_place_is_a_finding(tmp_path: Path, path: str) -> None:
    assert find_unclear_queries(write_tree(tmp_path, {path: READING})) == [
        f"src/molecule_core/{path}: SQL belongs in the queries.sql of a noun, of views or of the store"
    ]


def test_the_real_queries_are_used_and_written_by_their_writers() -> None:
    assert find_misused_queries(SOURCES) == []


def test_queries_named_by_their_reader_and_writer_give_no_finding(tmp_path: Path) -> None:
    files = {
        "access/queries.sql": READING + WRITING,
        "access/reader.py": "NAME = 'persons_of_org'\n",
        "access/writer.py": "def write(row):\n    return [('insert_person', row)]\n",
        "access/retention.py": "NAME = 'insert_person'\n",
        "store/queries.sql": "-- name: append_event\n-- one\nINSERT INTO events (seq) VALUES (:seq);\n",
        "store/journal.py": "NAME = 'append_event'\n",
        "tools/spec.py": "TOOL = 'insert_person'\n",
    }
    assert find_misused_queries(write_tree(tmp_path, files)) == []


def test_a_query_that_no_module_names_is_a_finding(tmp_path: Path) -> None:
    files = {"access/queries.sql": READING, "access/reader.py": '"""persons_of_org"""\nNAME = "persons_of_all"\n'}
    assert find_misused_queries(write_tree(tmp_path, files)) == [f"{QUERIES}:1 persons_of_org: no module uses it"]


@pytest.mark.parametrize(
    "path",
    [
        "access/reader.py",
        "access/rules.py",
        "access/model.py",
        "org/writer.py",
        "views/tree.py",
        "server/composition.py",
    ],
)
def test_a_writing_query_outside_the_writers_is_a_finding(tmp_path: Path, path: str) -> None:
    files = {
        "access/queries.sql": WRITING,
        "access/writer.py": "NAME = 'insert_person'\n",
        path: "\nNAME = 'insert_person'\n",
    }
    module = path.removesuffix(".py").replace("/", ".")
    assert find_misused_queries(write_tree(tmp_path, files)) == [
        f"src/molecule_core/{path}:2 {module} names insert_person, which only writers of access may"
    ]


def test_a_writing_query_of_the_store_named_by_a_noun_is_a_finding(tmp_path: Path) -> None:
    files = {
        "store/queries.sql": "-- name: append_event\n-- one\nINSERT INTO events (seq) VALUES (:seq);\n",
        "store/journal.py": "NAME = 'append_event'\n",
        "org/writer.py": "NAME = 'append_event'\n",
    }
    assert find_misused_queries(write_tree(tmp_path, files)) == [
        "src/molecule_core/org/writer.py:1 org.writer names append_event, which only writers of store may"
    ]


def test_the_real_tree_has_no_sql_in_python() -> None:
    assert find_sql_in_python(SOURCES) == []


def test_sql_of_the_store_and_plain_text_give_no_finding(tmp_path: Path) -> None:
    files = {
        "store/sqlite.py": "BEGIN = 'DELETE FROM timers'\n",
        "api/canvas.py": '"""Select what comes from here."""\nTEXT = "Choose one, or take from the list"\n',
    }
    assert find_sql_in_python(write_tree(tmp_path, files)) == []


@pytest.mark.parametrize(
    "text",
    [
        "SQL = 'SELECT id FROM persons'",
        "SQL = 'insert into persons values (1)'",
        "SQL = '''\n    UPDATE persons\n    SET name = 1'''",
        "SQL = 'DELETE ' 'FROM persons'",
        "SQL = f'SELECT {columns} FROM {table}'",
        "SQL = 'SELECT ' + columns + ' FROM persons'",
        "def read(run, table):\n    return run(f'delete from {table}')",
        "def read(run):\n    run('DELETE FROM persons')",
        "SQL = explain + 'DELETE FROM persons'",
    ],
)
def test_a_statement_in_a_python_string_is_a_finding(tmp_path: Path, text: str) -> None:
    [finding] = find_sql_in_python(write_tree(tmp_path, {"access/reader.py": text}))
    assert " access.reader holds SQL: " in finding
