"""One hand tells of delegations: no event of theirs is named, or can be had, outside their slice.

Their tables are held by `tables` and `query_names`, as those of every slice.
Above: test_one_writer. Below: names, trees.
"""

import ast
from collections.abc import Iterator

from tests.shape.guards.names import Names
from tests.shape.guards.trees import Module, Tree, read, strings

SLICE = "delegations"
PREFIX = "DELEGATION_"
ENTITY = "delegation"
# The table of events itself.
MAY_NAME = ("wire.events",)
# What delegations/rules.py calls its events.
EVENT_NAMES = ("SENT", "STATUS", "COMPLETE", "FAILED", "REFUSED")


def find_foreign_tellers(tree: Tree) -> list[str]:
    """Modules outside the slice that name one of its events, put a name together, import one, or tell of its entity."""
    found = []
    for module in read(tree):
        if module.head != SLICE and module.name not in MAY_NAME:
            found += [f"{module.shown}:{line} {module.name} {fault}" for line, fault in sorted(set(_faults(module)))]
    return found


def _faults(module: Module) -> Iterator[tuple[int, str]]:
    for line, text in strings(module.code):
        if PREFIX in text:
            yield line, f"names an event of {SLICE}: {text!r}"
    for line, dotted in Names(module.code).uses:
        if dotted.rpartition(".")[0].endswith(f"{SLICE}.rules") and dotted.rpartition(".")[2] in EVENT_NAMES:
            yield line, f"takes the name of an event from {SLICE}.rules"
    for node in ast.walk(module.code):
        if isinstance(node, ast.Call) and _is_event(node.func) and _tells_of_it(node):
            yield node.lineno, f"tells of an entity of {SLICE}"


def _is_event(called: ast.expr) -> bool:
    return (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) == "Event"


def _tells_of_it(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(value, ast.Constant) and value.value == ENTITY for value in given)
