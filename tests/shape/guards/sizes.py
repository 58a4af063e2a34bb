"""A file is one idea: it has a limit of lines, and an exception is a number that only falls.

Above: test_sizes. Below: trees.
"""

from collections.abc import Mapping

from tests.shape.guards.trees import Tree, read


def find_long_files(tree: Tree, limit: int, exceptions: Mapping[str, int]) -> list[str]:
    """Files above the limit or above their exception; exceptions that are higher than their file or not needed."""
    lines = {module.shown: module.lines for module in read(tree)}
    found = [
        f"{shown} has {count} lines: at most {limit}"
        for shown, count in lines.items()
        if count > limit and shown not in exceptions
    ]
    for shown, allowed in exceptions.items():
        found += _judge(shown, lines.get(shown, 0), allowed, limit)
    return found


def _judge(shown: str, count: int, allowed: int, limit: int) -> list[str]:
    if count <= limit:
        return [f"{shown} has {count} lines: strike its exception, at most {limit} is for all"]
    if count > allowed:
        return [f"{shown} has {count} lines: its exception says {allowed}, and an exception is never raised"]
    if count < allowed:
        return [f"{shown} has {count} lines: lower its exception from {allowed}"]
    return []
