"""No SQL in Python outside the store: a statement in a string has no name, no description and no owner."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.guards.trees import Tree, read

_SQL = re.compile(r"\b(SELECT .* FROM|INSERT INTO|UPDATE .* SET|DELETE FROM)\b", re.IGNORECASE)


def find_sql_in_python(tree: Tree) -> list[str]:
    """Find strings outside store/ that read like a statement, also when they are composed of pieces."""
    return [
        f"{module.shown}:{line} {module.name} holds SQL: {text[:40]}"
        for module in read(tree)
        if module.head != "store"
        for line, text in _texts(module.code)
        if _SQL.search(text)
    ]


def _texts(code: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each outermost string expression as one line of text, except docstrings."""
    for node in ast.iter_child_nodes(code):
        text = _text(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if text is None:
            yield from _texts(node)
        else:
            yield getattr(node, "lineno", 0), " ".join(text.split())


def _text(node: ast.AST) -> str | None:
    """Return the text of a literal, an f-string or a sum of them, with `?` for computed parts; else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "?" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else (left or "?") + (right or "?")
    return None
