"""Inside a noun the order is model <- rules <- reader <- writer: no module reaches one that ranks above it.

The last word of a file's name gives its rank: `writer.py`, `agent_writer.py`, `chains/model.py`. Files of other names
may stand anywhere, but nothing reaches upward through them.
"""

from tests.architecture.guards.circles import import_graph, reachable
from tests.architecture.guards.trees import Tree
from tests.architecture.layers import NOUNS

RANKS = ("model", "rules", "reader", "writer")
WRITER_RANK = RANKS.index("writer")


def rank(name: str) -> int | None:
    """Return the place of a module in the order, or None if it has none."""
    word = name.rpartition(".")[2].rpartition("_")[2]
    return RANKS.index(word) if word in RANKS else None


def find_wrong_order(tree: Tree) -> list[str]:
    """Find models, rules and readers that import, directly or through others, what ranks above them in their noun."""
    graph = import_graph(tree)
    found = []
    for noun in NOUNS:
        inside = {name: graph[name] for name in graph if name.startswith(f"{noun}.")}
        inside = {name: {other for other in others if other in inside} for name, others in inside.items()}
        for name in sorted(inside):
            own = rank(name)
            above = [] if own is None else [o for o in reachable(inside, name) if (rank(o) or 0) > own]
            found += [f"{tree.folder}: {name} reaches {other}, which ranks above it" for other in sorted(above)]
    return found
