"""Whether every statement that changes what processes keep in memory says so.

Above: test_mirrored. Below: queries, trees.
"""

import re

from tests.shape.guards.queries import queries
from tests.shape.guards.trees import Tree
from tests.shape.tables import MIRRORED

_SAID = re.compile(r"-- mirrored: (?:(?P<kind>\w+) by (?P<key>\w+)|nothing, .+)")


def find_unsaid_changes(tree: Tree, kinds: frozenset[str]) -> list[str]:
    """Statements that write a mirrored table without saying what of memory they change, or name no known kind."""
    found = []
    for query in queries(tree):
        said = _SAID.fullmatch(query.body[1]) if len(query.body) > 1 else None
        if said is None and query.facts.writes & MIRRORED:
            found.append(f"{query.place} {query.name.strip()}: the third line must say `-- mirrored: KIND by KEY`")
        elif said is not None and said["kind"] is not None and said["kind"] not in kinds:
            found.append(f"{query.place} {query.name.strip()}: nobody keeps {said['kind']} in memory")
        elif said is not None and said["key"] is not None and f":{said['key']}" not in "\n".join(query.body):
            found.append(f"{query.place} {query.name.strip()}: it has no parameter {said['key']}")
    return found
