"""Every requirement has a test, and every requirement that a test names exists."""

from pathlib import Path

import pytest

from tests.architecture.guards.requirements import find_loose_ends
from tests.requirements import LATER, NOW

TESTS = Path(__file__).resolve().parent.parent


def test_every_requirement_has_a_test_and_every_named_one_exists() -> None:
    assert find_loose_ends(TESTS, NOW, LATER) == []


@pytest.mark.parametrize(
    ("mark", "finding"),
    [
        ('@requirement("A")\n', []),
        ("", ["A is shown by no test"]),
        ('@requirement("A", "B")\n', ["test_it.py:2 test_that_it_holds names B, which is a requirement for later"]),
        ('@requirement("A", "C")\n', ["test_it.py:2 test_that_it_holds names C, which is no requirement"]),
    ],
)
def test_a_loose_end_is_the_one_finding(tmp_path: Path, mark: str, finding: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(f"{mark}def test_that_it_holds() -> None:\n    assert 1\n")
    assert find_loose_ends(tmp_path, {"A"}, {"B"}) == finding
