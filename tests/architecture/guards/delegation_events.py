"""Only the package of delegations publishes their events: no other module names one or imports its name.

The guards `tables` and `query_names` protect their tables, as those of every noun.
"""

import ast
from collections.abc import Iterator

from tests.architecture.guards.names import Names
from tests.architecture.guards.trees import Module, Tree, read, strings

PACKAGE = "delegations"
PREFIX = "DELEGATION_"
ENTITY = "delegation"
# The table of all events, their words for people, and a client that shows them.
MAY_NAME = ("wire.schemas.events", "views.event_lines", "agent.editor.delegation_view")
# What delegations/rules.py calls its events.
EVENT_NAMES = ("SENT", "STATUS", "COMPLETE", "FAILED", "REFUSED")


def find_foreign_events(tree: Tree) -> list[str]:
    """Find modules outside the package that name an event, compose or import a name, or publish for its entity."""
    found = []
    for module in read(tree):
        if module.head != PACKAGE and module.name not in MAY_NAME:
            found += [f"{module.shown}:{line} {module.name} {fault}" for line, fault in sorted(set(_faults(module)))]
    return found


def _faults(module: Module) -> Iterator[tuple[int, str]]:
    for line, text in strings(module.code):
        if PREFIX in text:
            yield line, f"names an event of {PACKAGE}: {text!r}"
    for line, dotted in Names(module.code).uses:
        if dotted.rpartition(".")[0].endswith(f"{PACKAGE}.rules") and dotted.rpartition(".")[2] in EVENT_NAMES:
            yield line, f"imports the name of an event from {PACKAGE}.rules"
    for node in ast.walk(module.code):
        if isinstance(node, ast.Call) and _is_event(node.func) and _is_about_delegation(node):
            yield node.lineno, f"publishes an event of an entity of {PACKAGE}"


def _is_event(called: ast.expr) -> bool:
    return (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) == "Event"


def _is_about_delegation(call: ast.Call) -> bool:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(value, ast.Constant) and value.value == ENTITY for value in arguments)
