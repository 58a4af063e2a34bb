"""What a name in a module stands for: `now` after `from time import time as now` is `time.time`."""

import ast
from collections import defaultdict
from collections.abc import Iterator


class Names(ast.NodeVisitor):
    """Every use of an imported name in one module, as (line, dotted name). Scopes are not distinguished."""

    def __init__(self, code: ast.Module) -> None:
        self.uses: list[tuple[int, str]] = []
        self._meanings = defaultdict[str, set[str]](set)
        for node in ast.walk(code):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._record_import(node)
        self.visit(code)

    def meanings(self, expression: ast.expr) -> Iterator[str]:
        """The dotted names that `a.b.c` may stand for; none if it does not begin with an imported name."""
        if isinstance(expression, ast.Attribute):
            yield from (f"{base}.{expression.attr}" for base in self.meanings(expression.value))
        elif isinstance(expression, ast.Name):
            yield from sorted(self._meanings[expression.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and any(alias.name == "*" for alias in node.names):
            self.uses.append((node.lineno, f"{node.module}.*"))

    def _use(self, node: ast.Attribute | ast.Name) -> None:
        found = list(self.meanings(node))
        self.uses += [(node.lineno, dotted) for dotted in found]
        if not found:
            self.generic_visit(node)

    def _record_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                if node.level == 0:  # what is relative is ours
                    self._meanings[alias.asname or alias.name].add(f"{node.module}.{alias.name}")
            elif alias.asname:
                self._meanings[alias.asname].add(alias.name)
            else:
                first = alias.name.split(".")[0]
                self._meanings[first].add(first)


def is_use_of(dotted: str, forbidden: str) -> bool:
    """True for the forbidden name itself, what hangs below it, and a star import that brings it in."""
    if dotted.endswith(".*"):
        return forbidden.startswith(dotted[:-1]) or forbidden == dotted[:-2]
    return dotted == forbidden or dotted.startswith(f"{forbidden}.")
