"""Every statement that changes a table which processes cache names what to reload."""

import re

from tests.architecture.guards.queries import queries
from tests.architecture.guards.trees import Tree
from tests.architecture.tables import MIRRORED

_CACHE_RULE = re.compile(r"-- mirrored: (?:(?P<kind>\w+) by (?P<key>\w+)|nothing, .+)")


def find_missing_cache_rules(tree: Tree, kinds: frozenset[str]) -> list[str]:
    """Find statements that write a cached table without a rule what to reload, and rules with an unknown kind."""
    found = []
    for query in queries(tree):
        rule = _CACHE_RULE.fullmatch(query.body[1]) if len(query.body) > 1 else None
        if rule is None and query.facts.writes & MIRRORED:
            found.append(f"{query.place} {query.name.strip()}: the third line must say `-- mirrored: KIND by KEY`")
        elif rule is not None and rule["kind"] is not None and rule["kind"] not in kinds:
            found.append(f"{query.place} {query.name.strip()}: no process caches {rule['kind']}")
        elif rule is not None and rule["key"] is not None and f":{rule['key']}" not in "\n".join(query.body):
            found.append(f"{query.place} {query.name.strip()}: it has no parameter {rule['key']}")
    return found
