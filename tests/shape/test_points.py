"""Named points at which a process may die: one table, one place each."""

from pathlib import Path

import pytest

from molecule_core.common.crash_points import POINTS
from tests.shape.guards.points import find_stray_points
from tests.shape.planting import SOURCES, plant

_REACHES = "from molecule_core.ground import points\npoints.reached({})\n"


def test_each_point_of_the_table_is_reached_at_one_place_of_the_package() -> None:
    assert find_stray_points(SOURCES, POINTS) == []
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
def test_a_stray_point_is_found(tmp_path: Path, reached: list[str], names: list[str]) -> None:
    files = {f"store/place{n}.py": _REACHES.format(name) for n, name in enumerate(reached)}
    assert find_stray_points(plant(tmp_path, {"store/other.py": "", **files}), names) != []
