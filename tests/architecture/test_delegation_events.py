"""Only the package of delegations writes their tables and publishes their events."""

from pathlib import Path

import pytest

from tests.architecture.guards.delegation_events import EVENT_NAMES, find_foreign_events
from tests.architecture.guards.query_names import find_misused_queries
from tests.architecture.guards.tables import find_foreign_tables
from tests.architecture.repository import SOURCES, write_tree
from tests.architecture.tables import TABLES
from tests.requirements import requirement

_SCHEMA = "CREATE TABLE delegations (id TEXT);\nCREATE TABLE activities (id TEXT);\n"
_OWNERS = {"delegations": "delegations", "activities": "messages"}
_WRITES = "-- name: end_delegation\n-- it has ended\nUPDATE delegations SET id = :id;\n"


@requirement("D1", "A1")
def test_only_delegations_publish_events_of_delegations() -> None:
    assert find_foreign_events(SOURCES) == []


@requirement("D1", "A1")
def test_the_tables_of_delegations_belong_to_their_package() -> None:
    tables = {name for name in TABLES if name.startswith("delegation")}
    assert tables == {
        "delegations",
        "delegation_facts",
        "delegation_keys",
        "delegation_progress",
        "delegation_history",
        "delegation_usage",
        "delegation_acceptance",
        "delegation_evidence",
        "delegation_scopes",
    }
    assert {TABLES[name] for name in tables} == {"delegations"}
    assert find_foreign_tables(SOURCES) == []
    assert find_misused_queries(SOURCES) == []


def test_messages_that_write_a_delegation_are_the_one_finding(tmp_path: Path) -> None:
    files = {"store/schema.sql": _SCHEMA, "messages/queries.sql": _WRITES}
    assert find_foreign_tables(write_tree(tmp_path, files), _OWNERS) == [
        "src/molecule_core/messages/queries.sql:1 end_delegation writes delegations, which belongs to delegations"
    ]


@pytest.mark.parametrize("file", ["views/timeline.py", "messages/replies.py", "org/writer.py", "server/composition.py"])
def test_a_statement_of_delegations_named_elsewhere_is_found(tmp_path: Path, file: str) -> None:
    files = {
        "delegations/queries.sql": _WRITES,
        "delegations/writer.py": "WRITE = 'end_delegation'\n",
        file: "WRITE = ('end_delegation', {})\n",
    }
    name = file.removesuffix(".py").replace("/", ".")
    assert find_misused_queries(write_tree(tmp_path, files)) == [
        f"src/molecule_core/{file}:1 {name} names end_delegation, which only writers of delegations may"
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("Event('DELEGATION_STATUS', a, 'x', b)\n", "names an event of delegations: 'DELEGATION_STATUS'"),
        ("name = 'DELEGATION_' + word\n", "names an event of delegations: 'DELEGATION_'"),
        ("name = f'DELEGATION_{word}'\n", "names an event of delegations: 'DELEGATION_'"),
        ("Event(name, a, 'delegation', b)\n", "publishes an event of an entity of delegations"),
        ("database.Event(name, a, entity_kind='delegation')\n", "publishes an event of an entity of delegations"),
    ],
)
@pytest.mark.parametrize("file", ["api/delegations/delegations.py", "messages/replies.py", "server/composition.py"])
def test_an_event_published_elsewhere_is_the_one_finding(tmp_path: Path, file: str, text: str, finding: str) -> None:
    name = file.removesuffix(".py").replace("/", ".")
    assert find_foreign_events(write_tree(tmp_path, {file: text})) == [f"src/molecule_core/{file}:1 {name} {finding}"]


@pytest.mark.parametrize(
    "text",
    [
        "from molecule_core.delegations.rules import SENT\nEvent(SENT, a, b, c)\n",
        "from molecule_core.delegations import rules\nEvent(rules.SENT, a, b, c)\n",
        "import molecule_core.delegations.rules as words\nEvent(words.SENT, a, b, c)\n",
    ],
)
def test_a_name_imported_from_the_rules_is_found(tmp_path: Path, text: str) -> None:
    found = find_foreign_events(write_tree(tmp_path, {"api/operations.py": text}))
    fault = "api.operations imports the name of an event from delegations.rules"
    assert found[-1] == f"src/molecule_core/api/operations.py:2 {fault}"


def test_the_package_itself_and_the_table_of_events_may_name_them(tmp_path: Path) -> None:
    text = "NAME = 'DELEGATION_SENT'\n"
    prose = '"""Publishes DELEGATION_SENT."""\n'
    files = {"delegations/rules.py": text, "wire/schemas/events.py": text, "api/live/hub.py": prose}
    assert find_foreign_events(write_tree(tmp_path, files)) == []


def test_the_names_that_the_guard_knows_are_those_of_the_rules() -> None:
    from molecule_core.delegations import rules

    named = {name for name, value in vars(rules).items() if isinstance(value, str) and value.startswith("DELEGATION_")}
    assert named == set(EVENT_NAMES)
