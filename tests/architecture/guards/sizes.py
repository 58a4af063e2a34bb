"""A file is one idea: it has a limit of lines, and an exception is a number that only falls."""

from collections.abc import Mapping

from tests.architecture.guards.trees import Tree, read


def find_long_files(tree: Tree, limit: int, exceptions: Mapping[str, int]) -> list[str]:
    """Find files above the limit or above their exception, and exceptions that are too high or not needed."""
    lines = {module.shown: module.lines for module in read(tree)}
    found = [
        f"{shown} has {count} lines: at most {limit}"
        for shown, count in lines.items()
        if count > limit and shown not in exceptions
    ]
    for shown, allowed in exceptions.items():
        found += _check_exception(shown, lines.get(shown, 0), allowed, limit)
    return found


def _check_exception(shown: str, count: int, allowed: int, limit: int) -> list[str]:
    if count <= limit:
        return [f"{shown} has {count} lines: drop its exception, at most {limit} is allowed"]
    if count > allowed:
        return [f"{shown} has {count} lines: its exception says {allowed}, and an exception is never raised"]
    if count < allowed:
        return [f"{shown} has {count} lines: lower its exception from {allowed}"]
    return []
