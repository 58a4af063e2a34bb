"""Crash points: one table, one place each."""

from pathlib import Path

import pytest

from molecule_core.common.crash_points import POINTS
from tests.architecture.guards.crash_points import find_misplaced_crash_points
from tests.architecture.repository import SOURCES, write_tree

_REACHES = "from molecule_core.common import crash_points\ncrash_points.mark_reached({})\n"


def test_each_point_of_the_table_is_reached_at_one_place_of_the_package() -> None:
    assert find_misplaced_crash_points(SOURCES, POINTS) == []
    assert len(POINTS) >= 24


@pytest.mark.parametrize(
    ("reached", "names"),
    [
        (["'a.b'"], []),
        ([], ["a.b"]),
        (["'a.b'", "'a.b'"], ["a.b"]),
        (["'a.b'"], ["a.b", "a.b"]),
        (["'a.' + 'b'"], ["a.b"]),
    ],
)
def test_a_misplaced_crash_point_is_found(tmp_path: Path, reached: list[str], names: list[str]) -> None:
    files = {f"store/place{n}.py": _REACHES.format(name) for n, name in enumerate(reached)}
    assert find_misplaced_crash_points(write_tree(tmp_path, {"store/other.py": "", **files}), names) != []
