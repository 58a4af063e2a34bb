"""Two versions of a template are compared by an exact test: right to the last digit, seldom wrong, and soon sure."""

import itertools
import math
import random
import statistics
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.limits import Limits
from molecule_core.instructions.canary_statistics import (
    FALSE_ALARM_RATE,
    MAX_CANARY_OUTCOMES,
    OutcomeCount,
    alarm_threshold,
    is_significantly_worse,
    p_value,
)
from molecule_core.instructions.rules import hash64, is_in_canary_share
from tests.requirements import requirement

LEAST = Limits().canary_outcomes
_SEED = 20261122
_RUNS, _MESSAGES = 250, 400


def drawn(old: OutcomeCount, new: OutcomeCount) -> Fraction:
    """The same chance by dealing every possible hand: what the test means, without its arithmetic."""
    everything = [1] * (old.missed + new.missed) + [0] * (old.good + new.good)
    hands = list(itertools.combinations(range(len(everything)), new.outcomes))
    return Fraction(sum(sum(everything[card] for card in hand) >= new.missed for hand in hands), len(hands))


@requirement("I16")
@given(st.tuples(*[st.integers(0, 4)] * 4))
def test_the_chance_is_the_part_of_all_possible_hands(counts: tuple[int, int, int, int]) -> None:
    old, new = OutcomeCount(*counts[:2]), OutcomeCount(*counts[2:])
    assert p_value(old, new) == drawn(old, new)


@requirement("I16")
def test_the_chance_agrees_with_tables_in_books() -> None:
    # The lady tasting tea with three of four cups; one of ten men against nine of twelve women who diet.
    assert p_value(OutcomeCount(3, 1), OutcomeCount(1, 3)) == Fraction(17, 70)
    assert float(p_value(OutcomeCount(11, 3), OutcomeCount(1, 9))) == pytest.approx(0.001379728, abs=5e-10)


@requirement("I16")
@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
def test_one_question_is_wrong_no_oftener_than_its_part_allows(missed: int, good: int, size: int) -> None:
    """Of all hands that may be dealt to a version that is as good, those that are called worse weigh no more."""
    if not LEAST <= size <= missed + good:
        return
    wrong = Fraction(0)
    for found in range(max(0, size - good), min(missed, size) + 1):
        if is_significantly_worse(
            OutcomeCount(good - size + found, missed - found), OutcomeCount(size - found, found), min_outcomes=LEAST
        ):
            hands = math.comb(missed, found) * math.comb(good, size - found)
            wrong += Fraction(hands, math.comb(missed + good, size))
    assert wrong <= (alarm_threshold(size, LEAST) or 0)


@requirement("I16")
@pytest.mark.parametrize("least", [1, 3, 10])
def test_all_questions_together_are_wrong_no_oftener_than_one_canary_in_a_hundred(least: int) -> None:
    parts = [alarm_threshold(asked, least) for asked in range(MAX_CANARY_OUTCOMES * 2)]
    assert parts.count(None) == least + MAX_CANARY_OUTCOMES - 1
    assert 0.9 * FALSE_ALARM_RATE < sum(part or 0 for part in parts) < FALSE_ALARM_RATE == Fraction(1, 100)


Judge = Callable[[OutcomeCount, OutcomeCount], bool]


def as_shipped(old: OutcomeCount, new: OutcomeCount) -> bool:
    return is_significantly_worse(old, new, min_outcomes=LEAST)


def naive(old: OutcomeCount, new: OutcomeCount) -> bool:
    """One chance in twenty, asked again and again: how it is commonly done."""
    return new.missed * old.outcomes > old.missed * new.outcomes and p_value(old, new) <= Fraction(1, 20)


def trial(chance: random.Random, judge: Judge, share: float, misses: tuple[float, float], messages: int) -> int | None:
    """The message after which a canary is rolled back; None if it is not. `misses`: how often each version does."""
    good, missed = [0, 0], [0, 0]
    for number in range(1, messages + 1):
        version = int(chance.random() < share)
        (missed if chance.random() < misses[version] else good)[version] += 1
        if version and judge(OutcomeCount(good[0], missed[0]), OutcomeCount(good[1], missed[1])):
            return number
    return None


def alarms_of(judge: Judge) -> tuple[int, int]:
    """Of so many canaries that were as good, how many were rolled back."""
    chance = random.Random(_SEED)
    cases = list(itertools.product((0.1, 0.5), (0.01, 0.1, 0.5, 0.9), range(_RUNS)))
    found = [trial(chance, judge, share, (misses, misses), _MESSAGES) for share, misses, _ in cases]
    return sum(each is not None for each in found), len(cases)


@requirement("I16")
def test_a_version_that_is_as_good_is_hardly_ever_rolled_back() -> None:
    alarms, trials = alarms_of(as_shipped)
    control, _ = alarms_of(naive)
    tale = f"of {trials} canaries that are as good, {_MESSAGES} messages each, {alarms} are rolled back"
    sys.stdout.write(f"\nseed {_SEED}: {tale}; by the naive question {control}\n")
    assert alarms <= trials * FALSE_ALARM_RATE
    assert control > 5 * trials * FALSE_ALARM_RATE


@requirement("I16")
@pytest.mark.parametrize("missed", [3, 4, 5])
def test_three_misses_of_five_beside_forty_five_answers_are_enough(missed: int) -> None:
    assert is_significantly_worse(OutcomeCount(45, 0), OutcomeCount(5 - missed, missed), min_outcomes=LEAST)


@requirement("I16")
def test_two_misses_of_five_or_misses_on_both_sides_are_not_enough_yet() -> None:
    assert not is_significantly_worse(OutcomeCount(45, 0), OutcomeCount(3, 2), min_outcomes=LEAST)
    assert not is_significantly_worse(OutcomeCount(40, 5), OutcomeCount(2, 3), min_outcomes=LEAST)


@requirement("I16")
@given(st.uuids(), st.integers(0, 1 << 40), st.integers(1, 1000))
def test_fifty_messages_in_a_row_hold_four_to_six_of_a_tenth(seat: uuid.UUID, first: int, version: int) -> None:
    row = [drawn_by_canary(str(seat), version, number, 10) for number in range(first, first + 50)]
    assert 4 <= sum(row) <= 6
    assert row == [drawn_by_canary(str(seat), version, number, 10) for number in range(first, first + 50)]


@requirement("I16")
@pytest.mark.parametrize("percent", [1, 10, 37, 50, 99])
def test_many_seats_with_one_message_each_share_as_well(percent: int) -> None:
    """A spread that began alike everywhere would give the canary the first message of every seat, or of none."""
    got = sum(drawn_by_canary(f"seat-{number}", 2, 1, percent) for number in range(10_000))
    assert abs(got - 100 * percent) < 5 * (percent * (100 - percent)) ** 0.5


@requirement("I16")
def test_neither_everything_nor_nothing_is_a_share() -> None:
    assert not any(drawn_by_canary("seat", 2, number, 0) for number in range(1000))
    assert all(drawn_by_canary("seat", 2, number, 100) for number in range(1000))


def drawn_by_canary(seat: str, version: int, number: int, percent: int) -> bool:
    place = hash64(seat, "claude-code-default", str(version))
    return is_in_canary_share(percent, place, number, f"activity-{number}")


def spread_trial(chance: random.Random, seats: int, misses: tuple[float, float], messages: int) -> int:
    """As `trial`, with the share as it is really spread over the inboxes of some seats. One more than there are
    messages if it is not rolled back."""
    names = [f"seat-{chance.random()}" for _ in range(seats)]
    numbers, good, missed = Counter[str](), [0, 0], [0, 0]
    for number in range(1, messages + 1):
        numbers[seat := chance.choice(names)] += 1
        version = int(drawn_by_canary(seat, 2, numbers[seat], 10))
        (missed if chance.random() < misses[version] else good)[version] += 1
        if version and as_shipped(OutcomeCount(good[0], missed[0]), OutcomeCount(good[1], missed[1])):
            return number
    return messages + 1


@requirement("I16")
@pytest.mark.parametrize(("seats", "least"), [(1, 1000), (3, 980)])
def test_a_version_that_nobody_answers_is_rolled_back_within_fifty_messages(seats: int, least: int) -> None:
    """Of a thousand trials on a tenth of the messages, each with other seats."""
    chance = random.Random(_SEED)
    ends = [spread_trial(chance, seats, (0.01, 1.0), 50) for _ in range(1000)]
    assert sum(end <= 50 for end in ends) >= least


@requirement("I16")
def test_the_worse_it_is_the_sooner_it_is_known() -> None:
    """The table of docs/how-to/measure-instructions.md."""
    medians = []
    for misses in ((0.0, 1.0), (0.05, 1.0), (0.05, 0.5), (0.05, 0.3), (0.05, 0.15)):
        chance = random.Random(_SEED)
        ends = sorted(spread_trial(chance, 1, misses, 5000) for _ in range(50))
        medians.append(statistics.median(ends))
        sys.stdout.write(f"\nseed {_SEED}, missed {misses}: median {medians[-1]:.0f}, nine of ten {ends[45]}")
    assert medians == sorted(medians)
    assert medians[0] < medians[1] < 50 < medians[2] < 200 < medians[3] < 500 < medians[4] < 3000


@requirement("I16")
def test_a_version_that_is_never_answered_is_known_after_three() -> None:
    assert is_significantly_worse(OutcomeCount(27, 0), OutcomeCount(0, 3), min_outcomes=LEAST)
    assert not is_significantly_worse(OutcomeCount(18, 0), OutcomeCount(0, 2), min_outcomes=LEAST)


@requirement("I16")
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 1200), st.integers(0, 1200))
def test_a_version_that_does_better_or_as_well_is_never_worse(a: int, b: int, c: int, d: int) -> None:
    old, new = OutcomeCount(a, b), OutcomeCount(c, d)
    if new.rate is not None and (old.rate is None or new.rate >= old.rate):
        assert not is_significantly_worse(old, new, min_outcomes=LEAST)


@requirement("I16")
@pytest.mark.parametrize("least", [3, 5, 20])
def test_nothing_is_said_before_the_limit_of_outcomes(least: int) -> None:
    assert not is_significantly_worse(OutcomeCount(10_000, 0), OutcomeCount(0, least - 1), min_outcomes=least)
    assert is_significantly_worse(OutcomeCount(10_000, 0), OutcomeCount(0, least), min_outcomes=least)


@requirement("I16")
def test_without_anything_to_compare_with_nothing_is_rolled_back() -> None:
    assert not is_significantly_worse(OutcomeCount(), OutcomeCount(0, 500), min_outcomes=LEAST)
    assert OutcomeCount().rate is None
