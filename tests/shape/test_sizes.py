"""A file is one idea."""

from pathlib import Path

import pytest

from tests.shape.guards.sizes import find_long_files
from tests.shape.planting import SOURCES, TESTS, plant
from tests.shape.sizes import LONG_SOURCES, LONG_TESTS, SOURCE_LINES, TEST_LINES

SHOWN = "src/molecule_core/wire/a.py"


def test_the_real_sources_are_short_enough_to_read() -> None:
    assert find_long_files(SOURCES, SOURCE_LINES, LONG_SOURCES) == []


def test_the_real_tests_are_short_enough_to_read() -> None:
    assert find_long_files(TESTS, TEST_LINES, LONG_TESTS) == []


@pytest.mark.parametrize(
    ("lines", "exceptions"),
    [(1, {}), (10, {}), (11, {SHOWN: 11}), (30, {SHOWN: 30})],
)
def test_a_file_within_its_limit_gives_no_finding(tmp_path: Path, lines: int, exceptions: dict[str, int]) -> None:
    tree = plant(tmp_path, {"wire/a.py": "#\n" * lines})
    assert find_long_files(tree, 10, exceptions) == []


@pytest.mark.parametrize(
    ("lines", "exceptions", "fault"),
    [
        (11, {}, "has 11 lines: at most 10"),
        (21, {SHOWN: 20}, "has 21 lines: its exception says 20, and an exception is never raised"),
        (19, {SHOWN: 20}, "has 19 lines: lower its exception from 20"),
        (10, {SHOWN: 20}, "has 10 lines: strike its exception, at most 10 is for all"),
    ],
)
def test_a_file_against_its_limit_is_the_one_finding(
    tmp_path: Path, lines: int, exceptions: dict[str, int], fault: str
) -> None:
    tree = plant(tmp_path, {"wire/a.py": "#\n" * lines})
    assert find_long_files(tree, 10, exceptions) == [f"{SHOWN} {fault}"]


def test_an_exception_for_a_file_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"wire/b.py": "#\n"})
    assert find_long_files(tree, 10, {SHOWN: 20}) == [
        f"{SHOWN} has 0 lines: strike its exception, at most 10 is for all"
    ]
