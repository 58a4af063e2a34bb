"""Only the server registers subscribers, so that the table in docs/order.md is complete."""

import ast
import re

from tests.architecture.guards.trees import Tree, read

MAY_SUBSCRIBE = "server.composition"


def find_foreign_subscriptions(tree: Tree) -> list[str]:
    """Find uses of a method `subscribe` of the subscriber table outside the composition root."""
    return [
        f"{module.shown}:{node.lineno} {module.name} registers a subscriber, which only {MAY_SUBSCRIBE} may"
        for module in read(tree)
        if module.dotted != MAY_SUBSCRIBE
        for node in ast.walk(module.code)
        if isinstance(node, ast.Attribute) and re.search(r"\bsubscribers\.subscribe$", ast.unparse(node))
    ]
