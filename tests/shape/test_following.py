"""Followers are registered where everything is wired, and nowhere else."""

from pathlib import Path

import pytest

from tests.shape.guards.following import find_follow_calls
from tests.shape.planting import SOURCES, plant


def test_only_the_server_registers_followers() -> None:
    assert find_follow_calls(SOURCES) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def wire(followers):\n    followers.follow(int, 'x', print)\n", 2),
        ("class A:\n    def b(self):\n        self._store.followers.follow(int, 'x', print)\n", 3),
        ("def wire(followers):\n    register = followers.follow\n    register(int, 'x', print)\n", 2),
    ],
)
def test_a_slice_that_registers_its_own_is_the_one_finding(tmp_path: Path, text: str, line: int) -> None:
    tree = plant(
        tmp_path, {"delegations/writer.py": text, "server.py": "def wire(f):\n    f.follow(int, 'x', print)\n"}
    )
    assert find_follow_calls(tree) == [
        f"src/molecule_core/delegations/writer.py:{line} delegations.writer registers a follower, which only server may"
    ]


def test_a_method_with_a_longer_name_and_a_function_are_no_findings(tmp_path: Path) -> None:
    text = "class A:\n    def _follow(self):\n        self._follow()\n        follow()\n        self.follow_up()\n"
    assert find_follow_calls(plant(tmp_path, {"agent/membership.py": text})) == []
