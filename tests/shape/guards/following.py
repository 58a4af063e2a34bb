"""Who registers followers: `server` alone, so that the table that is printed is the table that there is.

Above: test_following. Below: trees.
"""

import ast

from tests.shape.guards.trees import Tree, read

MAY_REGISTER = "server"


def find_follow_calls(tree: Tree) -> list[str]:
    """Calls of a method `follow` anywhere but in the server's wiring."""
    return [
        f"{module.shown}:{node.lineno} {module.name} registers a follower, which only {MAY_REGISTER} may"
        for module in read(tree)
        if module.spot != MAY_REGISTER
        for node in ast.walk(module.code)
        if isinstance(node, ast.Attribute) and node.attr == "follow"
    ]
