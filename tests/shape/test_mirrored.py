"""What processes keep in memory changes nowhere in silence: the others would go on believing what was."""

from pathlib import Path

import pytest

from molecule_core.access.reader import AccessReader
from molecule_core.approvals.policies import PolicyCache
from molecule_core.instructions.reader import TemplateCacheSync
from molecule_core.org.reader import OrgRegistrySync
from molecule_core.store.queries import load_queries
from tests.requirements import requirement
from tests.shape.guards.mirrored import find_unsaid_changes
from tests.shape.planting import SOURCES, plant

KINDS = frozenset((*OrgRegistrySync.KINDS, *AccessReader.KINDS, *TemplateCacheSync.KINDS, *PolicyCache.KINDS))
QUERIES = "src/molecule_core/access/queries.sql"


@requirement("A1", "M38")
def test_the_real_statements_say_what_of_memory_they_change() -> None:
    assert find_unsaid_changes(SOURCES, KINDS) == []
    said = {query.cache_rule for query in load_queries("postgres").values() if query.cache_rule is not None}
    assert ("workspace", "id") in said
    assert {kind for kind, _ in said} <= KINDS


@pytest.mark.parametrize(
    "text",
    [
        "-- name: end\n-- one\n-- mirrored: credential by hash\nUPDATE sessions SET ended_at = 1 WHERE hash = :hash;\n",
        "-- name: make\n-- one\n-- mirrored: nothing, it is looked up\nINSERT INTO sessions (hash) VALUES (:hash);\n",
        "-- name: note\n-- one\nINSERT INTO timers (kind) VALUES (:kind);\n",
        "-- name: look\n-- one\nSELECT hash FROM sessions;\n",
    ],
)
def test_who_says_it_or_changes_no_memory_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert find_unsaid_changes(plant(tmp_path, {"access/queries.sql": text}), KINDS) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("-- name: a\n-- one\nUPDATE persons SET role = :role;", "the third line must say `-- mirrored: KIND by"),
        (
            "-- name: a\n-- b\n-- mirrored: nothing\nDELETE FROM orgs;",
            "the third line must say `-- mirrored: KIND by",
        ),
        ("-- name: a\n-- one\n-- mirrored: cat by id\nUPDATE orgs SET id = :id;", "nobody keeps cat in memory"),
        ("-- name: a\n-- one\n-- mirrored: org by id\nUPDATE orgs SET name = :name;", "it has no parameter id"),
    ],
)
def test_a_change_that_is_not_said_is_the_one_finding(tmp_path: Path, text: str, finding: str) -> None:
    [found] = find_unsaid_changes(plant(tmp_path, {"access/queries.sql": text}), KINDS)
    assert found.startswith(f"{QUERIES}:1 a: {finding}")
