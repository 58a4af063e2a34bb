"""Who names a statement: every statement is used, and one that writes is named only by its noun's writer.

Above: test_queries. Below: queries, trees.
"""

from collections import defaultdict

from tests.shape.guards.queries import ROOMS_WITH_QUERIES, Query, queries
from tests.shape.guards.trees import Module, Tree, read, strings
from tests.shape.rooms import HANDS

# Only these rooms may import the store; elsewhere an equal word (a tool, a route, an event) means something else.
REACH_THE_STORE = (*ROOMS_WITH_QUERIES, "server")


def find_misused_queries(tree: Tree) -> list[str]:
    """Statements that nobody names, and writing ones named by another hand than the writer's."""
    known = {query.name.strip(): query for query in queries(tree) if not query.is_override}
    users = defaultdict[str, list[tuple[Module, int]]](list)
    for module in read(tree):
        if module.head in REACH_THE_STORE:
            for line, text in strings(module.code):
                users[text].append((module, line))
    found = [f"{query.place} {name}: nobody uses it" for name, query in known.items() if name not in users]
    for name, query in known.items():
        for module, line in users[name] if query.facts.is_writing else ():
            if not _is_its_hand(module, query):
                found.append(f"{module.shown}:{line} {module.name} names {name}, which only {_hand(query)} may")
    return found


def _is_its_hand(module: Module, query: Query) -> bool:
    if query.room == "store":
        return module.head == "store"
    return module.name in [f"{query.room}.{hand}" for hand in HANDS]


def _hand(query: Query) -> str:
    return "the store" if query.room == "store" else f"{query.room}.writer"
