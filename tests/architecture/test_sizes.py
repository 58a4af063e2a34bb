"""A file is one idea."""

from pathlib import Path

import pytest

from tests.architecture.guards.sizes import find_long_files
from tests.architecture.repository import SOURCES, TESTING, TESTS, write_tree
from tests.architecture.sizes import LONG_SOURCES, LONG_TESTS, MAX_LINES

FILE = "src/molecule_core/wire/a.py"


def test_the_real_sources_are_short_enough_to_read() -> None:
    assert find_long_files(SOURCES, MAX_LINES, LONG_SOURCES) == []


@pytest.mark.long
def test_the_real_tests_are_short_enough_to_read() -> None:
    assert find_long_files(TESTS, MAX_LINES, LONG_TESTS) == []
    assert find_long_files(TESTING, MAX_LINES, {}) == []


@pytest.mark.parametrize(
    ("lines", "exceptions"),
    [(1, {}), (10, {}), (11, {FILE: 11}), (30, {FILE: 30})],
)
def test_a_file_within_its_limit_gives_no_finding(tmp_path: Path, lines: int, exceptions: dict[str, int]) -> None:
    tree = write_tree(tmp_path, {"wire/a.py": "#\n" * lines})
    assert find_long_files(tree, 10, exceptions) == []


@pytest.mark.parametrize(
    ("lines", "exceptions", "fault"),
    [
        (11, {}, "has 11 lines: at most 10"),
        (21, {FILE: 20}, "has 21 lines: its exception says 20, and an exception is never raised"),
        (19, {FILE: 20}, "has 19 lines: lower its exception from 20"),
        (10, {FILE: 20}, "has 10 lines: drop its exception, at most 10 is allowed"),
    ],
)
def test_a_file_against_its_limit_is_the_one_finding(
    tmp_path: Path, lines: int, exceptions: dict[str, int], fault: str
) -> None:
    tree = write_tree(tmp_path, {"wire/a.py": "#\n" * lines})
    assert find_long_files(tree, 10, exceptions) == [f"{FILE} {fault}"]


def test_an_exception_for_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"wire/b.py": "#\n"})
    assert find_long_files(tree, 10, {FILE: 20}) == [f"{FILE} has 0 lines: drop its exception, at most 10 is allowed"]
