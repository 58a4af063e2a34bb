"""Counts times by buckets of a round length. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from molecule_core.common.clock import DAY, SECOND, to_rfc3339
from molecule_core.wire.schemas.event_log import ActivityBucket

_MINUTE, _HOUR = 60 * SECOND, 3600 * SECOND
_LENGTHS = (
    *(SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY),
)


class CountedTimes(NamedTuple):
    """Buckets, oldest first. `until`: the end of the last one (microseconds); None without buckets."""

    buckets: list[ActivityBucket]
    until: int | None


def count_by_time(times: Sequence[int], since: int | None, until: int, most: int) -> CountedTimes:
    """Count times (microseconds) in at most about `most` buckets between two times; since None: the oldest time.

    Buckets begin at multiples of their length in UTC, so that they do not move while time passes."""
    first = min(times, default=None) if since is None else since
    if first is None:
        return CountedTimes([], None)
    last = max(until - 1, first, *times[:1])
    length = next((each for each in _LENGTHS if (last // each - first // each) < most), 0)
    if not length:  # more than four years: as many days as it takes
        length = -(-(last - first + 1) // most // DAY) * DAY
    start = first // length
    counts = [0] * (last // length - start + 1)
    for each in times:
        counts[min(max(each // length - start, 0), len(counts) - 1)] += 1
    buckets = [ActivityBucket(to_rfc3339((start + number) * length), count) for number, count in enumerate(counts)]
    return CountedTimes(buckets, (start + len(counts)) * length)
