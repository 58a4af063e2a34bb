"""A test is named by its outcome, asserts something, never sleeps and is never skipped without a reason."""

import ast
from collections.abc import Iterator

from tests.architecture.guards.names import Names, is_use_of
from tests.architecture.guards.trees import Module, Tree, read

SLEEPS = ("time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep")
LEAST_WORDS = 4
HELPERS = ("check_", "expect_")
EXPECT = {"playwright.async_api.expect", "tests.canvas.expectations.expect"}
# Methods of fakes that have the name of the method they replace.
METHODS_OF_FAKES = ("check_url",)

Function = ast.FunctionDef | ast.AsyncFunctionDef

# how a test can be skipped -> the position of the reason among the arguments, None if only by keyword
_SKIPS = {
    "pytest.skip": 0,
    "pytest.xfail": 0,
    "pytest.importorskip": None,
    "pytest.mark.skip": 0,
    "pytest.mark.skipif": None,
    "pytest.mark.xfail": None,
}


def find_weak_tests(tree: Tree) -> list[str]:
    """Find sleeps, skips without a reason, names that are too short, tests and helpers that assert nothing."""
    found: list[str] = []
    for module in read(tree):
        names = Names(module.code)
        found += [f"{module.shown}:{line} sleeps with {dotted}" for line, dotted in names.uses if _sleeps(dotted)]
        found += _silent_skips(module, names)
        for function in _functions(module):
            found += [f"{module.shown}:{function.lineno} {function.name} {fault}" for fault in _faults(function, names)]
    return found


def _sleeps(dotted: str) -> bool:
    return any(is_use_of(dotted, sleep) for sleep in SLEEPS)


def _functions(module: Module) -> Iterator[Function]:
    """Yield the tests and the helpers that assert for them; a function inside a function is no test."""
    is_test_file = module.name.split(".")[-1].startswith("test_")
    classes = [node for node in module.code.body if isinstance(node, ast.ClassDef)]
    for node in [*module.code.body, *(inner for one in classes for inner in one.body)]:
        if not isinstance(node, Function) or node.name in METHODS_OF_FAKES:
            continue
        if node.name.startswith(HELPERS) or (is_test_file and _is_test(node)):
            yield node


def _is_test(node: Function) -> bool:
    return node.name.startswith("test") and not any("fixture" in ast.dump(item) for item in node.decorator_list)


def _faults(function: Function, names: Names) -> Iterator[str]:
    if _is_test(function) and len([word for word in function.name.split("_") if word]) - 1 < LEAST_WORDS:
        yield f"is no sentence: test_ and at least {LEAST_WORDS} words"
    raises = not _is_test(function) and any(isinstance(node, ast.Raise) for node in ast.walk(function))
    if not raises and not any(_asserts(node, names) for node in ast.walk(function)):
        yield "asserts nothing"


def _asserts(node: ast.AST, names: Names) -> bool:
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    if not isinstance(node, ast.Call):
        return False
    if {"pytest.raises", "pytest.warns", "pytest.fail"}.intersection(names.meanings(node.func)):
        return True
    if _is_browser_expectation(node, names):
        return True
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called.startswith(HELPERS)


def _is_browser_expectation(node: ast.Call, names: Names) -> bool:
    """`expect(page).to_have_title("x")`; `expect(page)` alone asserts nothing."""
    subject = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(subject, ast.Call) and not EXPECT.isdisjoint(names.meanings(subject.func))


def _silent_skips(module: Module, names: Names) -> Iterator[str]:
    calls = {id(node.func): node for node in ast.walk(module.code) if isinstance(node, ast.Call)}
    for node in ast.walk(module.code):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        for dotted in names.meanings(node):
            if dotted in _SKIPS and not _has_reason(calls.get(id(node)), _SKIPS[dotted]):
                yield f"{module.shown}:{node.lineno} {dotted} gives no reason"


def _has_reason(call: ast.Call | None, position: int | None) -> bool:
    if call is None:
        return False
    values = [keyword.value for keyword in call.keywords if keyword.arg in {"reason", "msg"}]
    if position is not None:
        values += call.args[position : position + 1]
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in values)
