"""Every promise has a test, every named promise exists; also on planted trees that break this."""

from pathlib import Path

import pytest

from tests.requirements import LATER, NOW
from tests.shape.guards.requirements import find_loose_ends

TESTS = Path(__file__).resolve().parent.parent


def test_every_promise_is_shown_and_every_named_one_exists() -> None:
    assert find_loose_ends(TESTS, NOW, LATER) == []


@pytest.mark.parametrize(
    ("mark", "finding"),
    [
        ('@requirement("A")\n', []),
        ("", ["A is shown by no test"]),
        ('@requirement("A", "B")\n', ["test_it.py:2 test_that_it_holds names B, which is a promise for later"]),
        ('@requirement("A", "C")\n', ["test_it.py:2 test_that_it_holds names C, which is no promise"]),
    ],
)
def test_a_loose_end_is_the_one_finding(tmp_path: Path, mark: str, finding: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(f"{mark}def test_that_it_holds() -> None:\n    assert 1\n")
    assert find_loose_ends(tmp_path, {"A"}, {"B"}) == finding
