"""No import of our own inside a function: the graph of the house is what stands at the top of its files.

Above: test_hidden_imports. Below: importing, trees.
"""

from collections.abc import Mapping

from tests.shape.guards.importing import imports
from tests.shape.guards.trees import Tree, read
from tests.shape.rooms import fits

# importer -> what it may import late: the CLI at its door, the server when it knows which engine was chosen.
LATE = {
    "cli": ("",),
    "entry": ("",),
    "agent.main": ("agent.engine",),
    "standing": ("store.postgres", "store.listen", "store.nats"),
}


def find_hidden_imports(tree: Tree, late: Mapping[str, tuple[str, ...]] = LATE) -> list[str]:
    """Own modules imported inside functions where nothing allows it."""
    return [
        f"{module.shown}:{one.line} {module.name} imports {one.target} inside a function"
        for module, one in imports(tree, read(tree))
        if one.own and one.in_function and not _is_allowed(module.spot, one.target, late)
    ]


def _is_allowed(spot: str, target: str, late: Mapping[str, tuple[str, ...]]) -> bool:
    return any(fits(spot, who) and (what == "" or fits(target, what)) for who, ours in late.items() for what in ours)
