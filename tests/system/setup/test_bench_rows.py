"""The budgets of the canvas are rows of scripts/bench: figures are measured there, and never in a test."""

import pytest

from benchmarks.main import ROWS
from tests.requirements import requirement


@requirement("C53", "C83", "C84", "C85", "C86", "C87", "C88", "C89", "C91")
@pytest.mark.parametrize(
    ("row", "subject"),
    [
        (83, "what the page weighs"),
        (84, "map drawn"),
        (85, "the map panned"),  # also the rows 53, 87 and 91
        (86, "status changes"),
        (88, "event to paint"),
        (89, "layout of the map"),
    ],
)
def test_each_budget_of_the_page_is_measured_by_a_row(row: int, subject: str) -> None:
    assert subject in ROWS[row][0]
