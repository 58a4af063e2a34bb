"""Requirements and the tests that show them: each names the other."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path


def named_requirements(tests: Path) -> Iterator[tuple[str, str]]:
    """Yield (file:line test, id) for every requirement that a test names."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for requirement in _requirements_of(node):
                    yield f"{path.relative_to(tests)}:{node.lineno} {node.name}", requirement


def _requirements_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "requirement":
            yield from (str(each.value) for each in mark.args if isinstance(each, ast.Constant))


def find_loose_ends(tests: Path, now: Collection[str], later: Collection[str]) -> list[str]:
    """Find requirements without a test, and tests that name no requirement of this version."""
    named = list(named_requirements(tests))
    found = [
        f"{test} names {requirement}, which is a requirement for later"
        for test, requirement in named
        if requirement in later
    ]
    known = {*now, *later}
    found += [
        f"{test} names {requirement}, which is no requirement"
        for test, requirement in named
        if requirement not in known
    ]
    shown = {requirement for _, requirement in named}
    return found + [f"{requirement} is shown by no test" for requirement in now if requirement not in shown]
