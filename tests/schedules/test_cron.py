"""Planned times of cron expressions in time zones whose clocks change."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidField
from molecule_core.schedules.cron import check_expression, load_zone, planned_times, shortest_interval
from tests.requirements import requirement

MINUTE = timedelta(minutes=1)
FIRST_DAY = datetime(2026, 12, 1, tzinfo=UTC)
ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe"),
    *("America/Santiago", "Asia/Kathmandu", "Antarctica/Troll"),
)
"""Changes by one hour at both ends of the year, by half an hour, by two hours, at midnight, and none."""
FIRST_CHANGES = {
    "Europe/Berlin": datetime(2027, 10, 29, tzinfo=UTC),
    "America/New_York": datetime(2027, 3, 12, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2027, 4, 2, tzinfo=UTC),
    "America/Santiago": datetime(2027, 9, 3, tzinfo=UTC),
    "Asia/Kathmandu": datetime(2027, 1, 1, tzinfo=UTC),
    "Antarctica/Troll": datetime(2027, 3, 26, tzinfo=UTC),
}
EXPRESSIONS = (
    *("0 8 * * *", "30 1 * * *", "30 2 * * *", "15 0,2,3 * * SUN", "*/20 1-3 * * *", "0 */2 * * *"),
    *("0 * * * *", "*/30 * * * *", "0 0 1 * *", "45 23 L * *", "10 2 8-14 * 0"),
)


def micros(at: datetime) -> int:
    """A time in microseconds."""
    return int(at.timestamp()) * SECOND


def locals_of(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The first planned times after a local time, as texts."""
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    found = islice(planned_times(expression, ZoneInfo(zone), micros(start)), count)
    return [datetime.fromtimestamp(at // SECOND, ZoneInfo(zone)).isoformat() for at in found]


@requirement("SC1")
@pytest.mark.parametrize(
    ("zone", "expression", "after", "expected"),
    [
        # Skipped: 02:30 of the day on which clocks jump from 02:00 to 03:00.
        ("Europe/Berlin", "30 2 * * *", "2027-03-27T12:00", ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]),
        ("America/New_York", "15 2 * * *", "2027-03-13T12:00", ["2027-03-14T03:00:00-04:00"]),
        ("Australia/Lord_Howe", "10 2 * * *", "2027-10-02T12:00", ["2027-10-03T02:30:00+11:00"]),
        ("America/Santiago", "0 0 * * *", "2027-09-04T12:00", ["2027-09-05T01:00:00-03:00"]),
        # Repeated: 02:30 comes twice.
        ("Europe/Berlin", "30 2 * * *", "2027-10-30T12:00", ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"]),
        ("America/New_York", "30 1 * * *", "2027-11-06T12:00", ["2027-11-07T01:30:00-04:00"]),
        # Several skipped times are one run.
        ("Europe/Berlin", "0,30 2,3 * * *", "2027-03-28T00:00", [
            "2027-03-28T03:00:00+02:00", "2027-03-28T03:30:00+02:00"]),
        # Each hour repeats by elapsed time.
        ("Europe/Berlin", "0 * * * *", "2027-10-31T01:30", [
            "2027-10-31T02:00:00+02:00", "2027-10-31T02:00:00+01:00", "2027-10-31T03:00:00+01:00"]),
        ("Europe/Berlin", "0 * * * *", "2027-03-28T00:30", ["2027-03-28T01:00:00+01:00", "2027-03-28T03:00:00+02:00"]),
        # A time zone without changes, with an offset of 45 minutes.
        ("Asia/Kathmandu", "0 8 * * *", "2027-03-28T00:00", ["2027-03-28T08:00:00+05:45"]),
    ],
)  # fmt: skip
def test_a_skipped_time_runs_at_the_next_valid_instant_and_a_repeated_one_once(
    zone: str, expression: str, after: str, expected: list[str]
) -> None:
    assert locals_of(expression, zone, after, len(expected)) == expected


@requirement("SC1")
def test_a_time_between_the_two_passes_of_a_repeated_hour_is_not_planned_again() -> None:
    zone = ZoneInfo("Europe/Berlin")
    second_pass = datetime(2027, 10, 31, 2, 10, tzinfo=zone, fold=1)
    (at,) = islice(planned_times("30 2 * * *", zone, micros(second_pass)), 1)
    assert datetime.fromtimestamp(at // SECOND, zone).isoformat() == "2027-11-01T02:30:00+01:00"


def fields_of(expression: str) -> tuple[set[int], set[int]]:
    """The minutes and hours of an expression, by its own short parser."""
    found = []
    for text, size in zip(expression.split()[:2], (60, 24), strict=True):
        numbers: set[int] = set()
        for item in text.split(","):
            span, _, step = item.partition("/")
            first, _, last = ("0", "", str(size - 1)) if span == "*" else span.partition("-")
            numbers |= set(range(int(first), int(last or first) + 1, int(step or 1)))
        found.append(numbers)
    return found[0], found[1]


def is_day(expression: str, local: datetime) -> bool:
    """Whether an expression of `EXPRESSIONS` plans on a local date."""
    day, _, weekday = expression.split()[2:]
    is_sunday = local.weekday() == 6
    if day == "8-14":  # with a weekday: one of the two
        return 8 <= local.day <= 14 or is_sunday
    if day == "L":
        return (local + timedelta(days=1)).day == 1
    return (day == "*" or int(day) == local.day) and (weekday == "*" or is_sunday)


def naive_times(expressions: Sequence[str], zone: ZoneInfo, start: datetime, end: datetime) -> dict[str, list[int]]:
    """The planned times of expressions: each minute that really passes is looked at, and what clocks skip before it."""
    parsed = {each: (*fields_of(each), each.split()[1] == "*") for each in expressions}
    found: dict[str, list[int]] = {each: [] for each in expressions}
    seen: dict[str, set[datetime]] = {each: set() for each in expressions}
    at, before = start, (start - MINUTE).astimezone(zone).replace(tzinfo=None)
    while at < end:
        local = at.astimezone(zone).replace(tzinfo=None)
        # More than one where clocks jump ahead; none where they go back.
        shown = [before + MINUTE * (each + 1) for each in range((local - before) // MINUTE)]
        for expression, (minutes, hours, is_each_hour) in parsed.items():
            planned = [
                clock
                for clock in ([local] if is_each_hour else shown)
                if clock.minute in minutes and clock.hour in hours and is_day(expression, clock)
            ]
            if is_each_hour and planned:
                found[expression].append(micros(at))
            elif fresh := set(planned) - seen[expression]:
                seen[expression] |= fresh
                found[expression].append(micros(at))
        # What comes a second time has run already, so the clock that counts never goes back.
        at, before = at + MINUTE, max(before, local)
    return found


@requirement("SC1")
@pytest.mark.parametrize("zone_name", ZONES)
@pytest.mark.parametrize(
    "days", [pytest.param(731, marks=pytest.mark.exhaustive), pytest.param(90, marks=pytest.mark.long), 5]
)
def test_planned_times_equal_those_of_a_minute_by_minute_model(zone_name: str, days: int) -> None:
    zone, start = ZoneInfo(zone_name), FIRST_DAY if days > 5 else FIRST_CHANGES[zone_name]
    end = start + timedelta(days=days)
    expected = naive_times(EXPRESSIONS, zone, start, end)
    for expression in EXPRESSIONS:
        times = planned_times(expression, zone, micros(start - MINUTE))
        assert list(takewhile(lambda at: at < micros(end), times)) == expected[expression], expression


@requirement("SC1")
@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "60 * * * *", "0 24 * * *", "0 0 30 2 *", "x * * * *", "0 0 * * 9", "0 " * 150],
)  # fmt: skip
def test_an_expression_that_is_not_valid_or_never_due_is_rejected(expression: str) -> None:
    with pytest.raises(InvalidField, match="cron"):
        check_expression(expression, ZoneInfo("UTC"), micros(datetime(2027, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("name", ["", "Mars/Phobos", "../../etc/passwd", "Europe", "x" * 300, "a\x00b"])
def test_a_time_zone_that_is_not_known_is_rejected(name: str) -> None:
    with pytest.raises(InvalidField, match="time_zone"):
        load_zone(name)


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [("* * * * *", 60), ("*/15 * * * *", 900), ("0 8 * * *", 86_400), ("0 0,23 * * *", 3600), ("5,7 3 1 * *", 120)],
)
def test_the_shortest_interval_is_found_within_a_day_and_over_midnight(expression: str, seconds: int) -> None:
    assert shortest_interval(expression, micros(datetime(2027, 1, 1, 12, tzinfo=UTC))) == seconds
