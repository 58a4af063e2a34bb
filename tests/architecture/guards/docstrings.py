"""Every module and every public class has a docstring, and every folder of modules an `__init__.py`.

Functions need none: if the name says it all, no docstring is better than a repetition.
"""

import ast
from collections.abc import Iterator

from tests.architecture.guards.trees import Module, Tree, read


def find_missing_docstrings(tree: Tree) -> list[str]:
    """Find modules and public classes without a docstring, and folders of modules without an `__init__.py`."""
    found = list(_folders_without_init(tree))
    for module in read(tree):
        if not _has_docstring(module.code):
            found.append(f"{module.shown}:1 {module.name or tree.package} has no docstring")
        found += [f"{module.shown}:{node.lineno} {node.name} has no docstring" for node in _undocumented(module)]
    return found


def _folders_without_init(tree: Tree) -> Iterator[str]:
    for folder in sorted({path.parent for path in tree.files(".py")}):
        if not (folder / "__init__.py").is_file():
            yield f"{tree.shown(folder)} has no __init__.py"


def _has_docstring(node: ast.Module | ast.ClassDef) -> bool:
    return bool((ast.get_docstring(node) or "").strip())


def _undocumented(module: Module) -> Iterator[ast.ClassDef]:
    """Yield the public classes of a module without a docstring, also below `if` and `try`, not inside functions."""
    pending: list[ast.AST] = [module.code]
    while pending:
        for node in ast.iter_child_nodes(pending.pop(0)):
            if isinstance(node, ast.ClassDef):
                if not node.name.startswith("_"):
                    pending.append(node)
                    if not _has_docstring(node):
                        yield node
            elif not isinstance(node, ast.expr | ast.FunctionDef | ast.AsyncFunctionDef):
                pending.append(node)
