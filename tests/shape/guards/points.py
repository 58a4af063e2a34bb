"""Named points (ground/points.py): each of the table is reached at one place of the package, and no other name is.

Above: test_points. Below: trees.
"""

import ast
from collections import Counter
from collections.abc import Iterable

from tests.shape.guards.trees import Tree, read


def find_stray_points(tree: Tree, names: Iterable[str]) -> list[str]:
    """What is wrong with the points of a tree."""
    found, faults = Counter[str](), list[str]()
    for module in read(tree):
        for node in ast.walk(module.code):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "points.reached":
                said = node.args[0]
                if isinstance(said, ast.Constant) and isinstance(said.value, str):
                    found[said.value] += 1
                else:
                    faults.append(f"{module.shown}:{node.lineno} reaches a point whose name is not written there")
    table = Counter(names)
    for name in sorted(found.keys() | table.keys()):
        if found[name] != 1 or table[name] != 1:
            faults.append(f"{name} stands {table[name]} times in the table and is reached at {found[name]} places")
    return faults
