"""Promises and the tests that show them, held together from both ends.

Above: test_requirements. Below: the manifest, handed in.
"""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path


def named_requirements(tests: Path) -> Iterator[tuple[str, str]]:
    """(file:line test, id) for every promise that a test names."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for promise in _promises_of(node):
                    yield f"{path.relative_to(tests)}:{node.lineno} {node.name}", promise


def _promises_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "requirement":
            yield from (str(each.value) for each in mark.args if isinstance(each, ast.Constant))


def find_loose_ends(tests: Path, now: Collection[str], later: Collection[str]) -> list[str]:
    """Promises without a test, and tests that name no promise of this version."""
    named = list(named_requirements(tests))
    found = [f"{test} names {promise}, which is a promise for later" for test, promise in named if promise in later]
    known = {*now, *later}
    found += [f"{test} names {promise}, which is no promise" for test, promise in named if promise not in known]
    shown = {promise for _, promise in named}
    return found + [f"{promise} is shown by no test" for promise in now if promise not in shown]
