"""Who names a statement: every statement is used, and one that writes is named only inside its package.

There, models, rules and readers may not name it either.
"""

from collections import defaultdict

from tests.architecture.guards.noun_order import WRITER_RANK, rank
from tests.architecture.guards.queries import PACKAGES_WITH_QUERIES, Query, queries
from tests.architecture.guards.trees import Module, Tree, read, strings

# Only these packages may import the store; elsewhere an equal word (a tool, a route, an event) means something else.
REACH_THE_STORE = (*PACKAGES_WITH_QUERIES, "server")


def find_misused_queries(tree: Tree) -> list[str]:
    """Find statements that no module names, and writing ones that are named outside the writers of their package."""
    known = {query.name.strip(): query for query in queries(tree) if not query.is_override}
    users = defaultdict[str, list[tuple[Module, int]]](list)
    for module in read(tree):
        if module.head in REACH_THE_STORE:
            for line, text in strings(module.code):
                users[text].append((module, line))
    found = [f"{query.place} {name}: no module uses it" for name, query in known.items() if name not in users]
    for name, query in known.items():
        for module, line in users[name] if query.facts.is_writing else ():
            if not _may_write(module, query):
                found.append(
                    f"{module.shown}:{line} {module.name} names {name}, which only writers of {query.package} may"
                )
    return found


def _may_write(module: Module, query: Query) -> bool:
    return module.head == query.package and rank(module.name) in {None, WRITER_RANK}
