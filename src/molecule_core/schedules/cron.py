"""Cron expressions with time zones. The only module that imports the library for them.

An expression whose hour is `*` repeats by elapsed time, also while clocks change. Any other one names local times: one
that clocks skip is planned at the next instant that exists, and one that they repeat is planned once.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidField

MAX_EXPRESSION_LENGTH = 200
_FIELDS = 5
_MINUTE = timedelta(minutes=1)
# Any two consecutive days contain each distance between runs of one day, and that over midnight.
_SAMPLE = 2 * 86_400 * SECOND
_HINT = "Use five fields: minute, hour, day of the month, month, day of the week, such as 30 8 * * MON-FRI"


def load_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name. Raises InvalidField."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidField(
            reason="time_zone is not a known IANA time zone. Use a name such as Europe/Berlin."
        ) from None


def check_expression(expression: str, zone: ZoneInfo, now: int) -> None:
    """Raise InvalidField unless an expression is valid and has a next time."""
    if len(expression) > MAX_EXPRESSION_LENGTH or len(expression.split()) != _FIELDS:
        raise InvalidField(reason=f"cron is not a valid expression. {_HINT}.")
    try:
        found = next(planned_times(expression, zone, now), None)
    except CronSimError as error:
        raise InvalidField(reason=f"cron is not a valid expression: {str(error).lower()}. {_HINT}.") from None
    if found is None:
        raise InvalidField(reason="cron never comes due. Use a date that exists.")


def shortest_interval(expression: str, now: int) -> int:
    """Return the shortest time between two runs of an expression in seconds, without changes of clocks."""
    times = planned_times(expression, ZoneInfo("UTC"), now)
    first = previous = next(times, now)
    shortest = _SAMPLE
    for count, at in enumerate(times):
        shortest, previous = min(shortest, at - previous), at
        if count and at - first > _SAMPLE:
            break
    return shortest // SECOND


def planned_times(expression: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    """Yield the planned times of a valid expression after a time, in order. Times are microseconds."""
    start = datetime.fromtimestamp(after // SECOND, zone)
    if expression.split()[1] == "*":
        for each in CronSim(expression, start):
            yield round(each.timestamp()) * SECOND
        return
    previous = after
    for local in CronSim(expression, start.replace(tzinfo=None, fold=0)):
        at = _to_instant(local, zone)
        if at > previous:
            previous = at
            yield at


def local_text(at: int, zone: ZoneInfo) -> str:
    """Return a time in a zone as RFC 3339 text with the offset of the zone."""
    return datetime.fromtimestamp(at // SECOND, zone).isoformat()


def _to_instant(local: datetime, zone: ZoneInfo) -> int:
    """Return the first instant with a local time; of a time that clocks skip, the first that exists after it."""
    known = local.replace(tzinfo=zone)
    while known.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
        local += _MINUTE
        known = local.replace(tzinfo=zone)
    return round(known.timestamp()) * SECOND
