"""Crash points (common/crash_points.py): each of the table is reached at one place of the package, no other is."""

import ast
from collections import Counter
from collections.abc import Iterable

from tests.architecture.guards.trees import Tree, read


def find_misplaced_crash_points(tree: Tree, names: Iterable[str]) -> list[str]:
    """Find points that are reached at no or several places, and names that are not in the table."""
    found, faults = Counter[str](), list[str]()
    for module in read(tree):
        for node in ast.walk(module.code):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "crash_points.mark_reached":
                point = node.args[0]
                if isinstance(point, ast.Constant) and isinstance(point.value, str):
                    found[point.value] += 1
                else:
                    faults.append(f"{module.shown}:{node.lineno} reaches a crash point whose name is not a literal")
    table = Counter(names)
    for name in sorted(found.keys() | table.keys()):
        if found[name] != 1 or table[name] != 1:
            faults.append(f"{name} is {table[name]} times in the table and reached at {found[name]} places")
    return faults
