"""scripts/bench --beside: the interval of a median by ranks."""

import math

import pytest

from benchmarks.beside import Ratios, interval_rank


@pytest.mark.parametrize("count", [6, 9, 15, 30, 101])
def test_the_interval_has_at_least_the_stated_probability_and_no_narrower_one_has(count: int) -> None:
    rank = interval_rank(count)
    assert probability(count, rank) >= 0.95 > probability(count, rank + 1)


def test_with_fifteen_rounds_three_values_at_each_end_are_outside() -> None:
    found = Ratios("x", [float(each) for each in range(15, 0, -1)], "")
    assert found.interval == (4.0, 12.0)


def test_of_a_few_rounds_the_interval_is_all_that_was_measured() -> None:
    assert Ratios("x", [1.0, 3.0, 2.0], "").interval == (1.0, 3.0)


def probability(count: int, rank: int) -> float:
    """Return how likely the median is between the values that are `rank` places from either end."""
    outside: int = sum(2 * math.comb(count, each) for each in range(rank + 1))
    return 1 - outside / (1 << count)
