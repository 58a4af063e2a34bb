"""Nothing but the slice of delegations writes their tables or tells their events; also on planted trees that do."""

from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.shape.guards.one_writer import EVENT_NAMES, find_foreign_tellers
from tests.shape.guards.query_names import find_misused_queries
from tests.shape.guards.tables import find_foreign_tables
from tests.shape.planting import SOURCES, plant
from tests.shape.tables import TABLES

_SCHEMA = "CREATE TABLE delegations (id TEXT);\nCREATE TABLE activities (id TEXT);\n"
_OWNERS = {"delegations": "delegations", "activities": "messages"}
_WRITES = "-- name: end_delegation\n-- it has ended\nUPDATE delegations SET id = :id;\n"


@requirement("D1", "A1")
def test_no_code_outside_the_slice_tells_of_delegations() -> None:
    assert find_foreign_tellers(SOURCES) == []


@requirement("D1", "A1")
def test_the_tables_of_delegations_belong_to_their_slice() -> None:
    tables = {name for name in TABLES if name.startswith("delegation")}
    assert tables == {
        "delegations",
        "delegation_facts",
        "delegation_keys",
        "delegation_progress",
        "delegation_history",
    }
    assert {TABLES[name] for name in tables} == {"delegations"}
    assert find_foreign_tables(SOURCES) == []
    assert find_misused_queries(SOURCES) == []


def test_messages_that_write_a_delegation_are_the_one_finding(tmp_path: Path) -> None:
    files = {"store/schema.sql": _SCHEMA, "messages/queries.sql": _WRITES}
    assert find_foreign_tables(plant(tmp_path, files), _OWNERS) == [
        "src/molecule_core/messages/queries.sql:1 end_delegation writes delegations, which belongs to delegations"
    ]


@pytest.mark.parametrize("file", ["views/worktree.py", "messages/replies.py", "org/tree.py", "server.py"])
def test_a_foreign_hand_on_a_statement_of_delegations_is_found(tmp_path: Path, file: str) -> None:
    files = {
        "delegations/queries.sql": _WRITES,
        "delegations/writer.py": "WRITE = 'end_delegation'\n",
        file: "WRITE = ('end_delegation', {})\n",
    }
    (found,) = find_misused_queries(plant(tmp_path, files))
    name = file.removesuffix(".py").replace("/", ".")
    assert found.startswith(
        f"src/molecule_core/{file}:1 {name} names end_delegation, which only delegations.writer or "
    )


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("Event('DELEGATION_STATUS', a, 'x', b)\n", "names an event of delegations: 'DELEGATION_STATUS'"),
        ("name = 'DELEGATION_' + word\n", "names an event of delegations: 'DELEGATION_'"),
        ("name = f'DELEGATION_{word}'\n", "names an event of delegations: 'DELEGATION_'"),
        ("Event(name, a, 'delegation', b)\n", "tells of an entity of delegations"),
        ("database.Event(name, a, entity_kind='delegation')\n", "tells of an entity of delegations"),
    ],
)
@pytest.mark.parametrize("file", ["edges/delegations.py", "messages/results.py", "server.py"])
def test_an_event_that_is_told_elsewhere_is_the_one_finding(tmp_path: Path, file: str, text: str, finding: str) -> None:
    name = file.removesuffix(".py").replace("/", ".")
    assert find_foreign_tellers(plant(tmp_path, {file: text})) == [f"src/molecule_core/{file}:1 {name} {finding}"]


@pytest.mark.parametrize(
    "text",
    [
        "from molecule_core.delegations.rules import SENT\nEvent(SENT, a, b, c)\n",
        "from molecule_core.delegations import rules\nEvent(rules.SENT, a, b, c)\n",
        "import molecule_core.delegations.rules as words\nEvent(words.SENT, a, b, c)\n",
    ],
)
def test_a_name_that_is_taken_from_the_rules_is_found(tmp_path: Path, text: str) -> None:
    found = find_foreign_tellers(plant(tmp_path, {"edges/delegations.py": text}))
    told = "edges.delegations takes the name of an event from delegations.rules"
    assert found[-1] == f"src/molecule_core/edges/delegations.py:2 {told}"


def test_the_slice_itself_and_the_table_of_events_may_name_them(tmp_path: Path) -> None:
    text = "NAME = 'DELEGATION_SENT'\n"
    prose = '"""Tells of DELEGATION_SENT."""\n'
    files = {"delegations/rules.py": text, "wire/events.py": text, "edges/live.py": prose}
    assert find_foreign_tellers(plant(tmp_path, files)) == []


def test_the_names_that_the_guard_knows_are_those_of_the_rules() -> None:
    from molecule_core.delegations import rules

    named = {name for name, value in vars(rules).items() if isinstance(value, str) and value.startswith("DELEGATION_")}
    assert named == set(EVENT_NAMES)
