"""Every statement that changes a cached table says what the other processes must reload."""

from pathlib import Path

import pytest

from molecule_core.access.reader import AccessReader
from molecule_core.approvals.policies import PolicyCache
from molecule_core.budgets.cache import BudgetCache
from molecule_core.delegations.scopes import ScopeCache
from molecule_core.instructions.reader import TemplateCacheSync
from molecule_core.org.reader import OrgRegistrySync
from molecule_core.store.queries import load_queries
from tests.architecture.guards.cache_rules import find_missing_cache_rules
from tests.architecture.repository import SOURCES, write_tree
from tests.requirements import requirement

CACHES = (OrgRegistrySync, AccessReader, TemplateCacheSync, PolicyCache, BudgetCache, ScopeCache)
KINDS = frozenset(kind for cache in CACHES for kind in cache.KINDS)
QUERIES = "src/molecule_core/access/queries.sql"


@requirement("A1", "M38")
def test_the_real_statements_name_what_to_reload() -> None:
    assert find_missing_cache_rules(SOURCES, KINDS) == []
    rules = {query.cache_rule for query in load_queries("postgres").values() if query.cache_rule is not None}
    assert ("workspace", "id") in rules
    assert {kind for kind, _ in rules} <= KINDS


@pytest.mark.parametrize(
    "text",
    [
        "-- name: end\n-- one\n-- mirrored: credential by hash\nUPDATE sessions SET ended_at = 1 WHERE hash = :hash;\n",
        "-- name: make\n-- one\n-- mirrored: nothing, it is looked up\nINSERT INTO sessions (hash) VALUES (:hash);\n",
        "-- name: note\n-- one\nINSERT INTO timers (kind) VALUES (:kind);\n",
        "-- name: look\n-- one\nSELECT hash FROM sessions;\n",
    ],
)
def test_a_rule_or_an_uncached_table_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert find_missing_cache_rules(write_tree(tmp_path, {"access/queries.sql": text}), KINDS) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("-- name: a\n-- one\nUPDATE persons SET role = :role;", "the third line must say `-- mirrored: KIND by"),
        (
            "-- name: a\n-- b\n-- mirrored: nothing\nDELETE FROM orgs;",
            "the third line must say `-- mirrored: KIND by",
        ),
        ("-- name: a\n-- one\n-- mirrored: cat by id\nUPDATE orgs SET id = :id;", "no process caches cat"),
        ("-- name: a\n-- one\n-- mirrored: org by id\nUPDATE orgs SET name = :name;", "it has no parameter id"),
    ],
)
def test_a_missing_or_wrong_rule_is_the_one_finding(tmp_path: Path, text: str, finding: str) -> None:
    [found] = find_missing_cache_rules(write_tree(tmp_path, {"access/queries.sql": text}), KINDS)
    assert found.startswith(f"{QUERIES}:1 a: {finding}")
