"""The pace of retention: it rests longer than it works, comes again by itself, and outlives what goes wrong."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from molecule_core.common.clock import DAY, SECOND
from molecule_core.common.limits import Limits
from molecule_core.store.retention import (
    EMPTY_BATCH,
    RETENTION_TIMER,
    RetentionBatch,
    RetentionPolicy,
    RetentionWorker,
    deletion_command,
)
from testing.clocks import FakeClock
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, note


class Rows(RetentionPolicy):
    """A noun with so many rows; each batch takes the time that `costs` says, and the one at `breaks` fails."""

    def __init__(self, clock: FakeClock, rows: int, *, costs: float = 0, breaks: int = -1, looks: int = 0) -> None:
        self.before: list[int] = []
        self._clock = clock
        self._rows = rows
        self._costs = costs
        self._breaks = breaks
        self._looks = looks

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        self.before.append(before)
        for _ in range(self._looks):
            yield EMPTY_BATCH
        for first in range(0, self._rows, count):
            if first == self._breaks:
                self._breaks = -1
                raise LookupError("a mistake of ours")
            self._clock.at += round(self._costs * SECOND)
            yield RetentionBatch("rows", min(count, self._rows - first), deletion_command("", [note(f"batch {first}")]))


async def due(bench: Bench) -> int | None:
    """When the next batch is due; None: no timer is set."""
    rows = await bench.seen(f"SELECT due FROM timers WHERE kind = '{RETENTION_TIMER}'")  # noqa: S608
    return rows[0][0] if rows else None


def retention(bench: Bench, clock: FakeClock, noun: RetentionPolicy, **limits: Any) -> RetentionWorker:
    return RetentionWorker(bench.store, (noun,), clock=clock, limits=Limits(retention_batch=10, **limits))


@requirement("M20")
async def test_a_batch_is_followed_by_nine_times_as_long_a_rest(
    bench: Bench, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "molecule.retention")
    pruning = retention(bench, clock, Rows(clock, 25, costs=0.1))
    for _ in range(3):
        await pruning.on_due("")
        assert abs((await due(bench) or 0) - clock.at - 0.9 * SECOND) < 10
    assert pruning.deleted_rows == {"rows": 25}
    await pruning.on_due("")
    assert (pruning.rounds, await due(bench)) == (1, clock.at + 3600 * SECOND)
    assert set(await bench.notes()) == {"note batch 0", "note batch 10", "note batch 20"}
    assert [record.getMessage() for record in caplog.records] == ["a round of retention deleted 25 rows"]


@requirement("M20")
async def test_a_batch_that_costs_nothing_is_followed_by_a_rest_all_the_same(bench: Bench, clock: FakeClock) -> None:
    pruning = retention(bench, clock, Rows(clock, 5))
    await pruning.on_due("")
    assert await due(bench) == clock.at + round(0.02 * SECOND)


@requirement("M20")
async def test_many_looks_that_find_nothing_take_turns_too(bench: Bench, clock: FakeClock) -> None:
    pruning = retention(bench, clock, Rows(clock, 1, looks=35))
    for _ in range(3):
        await pruning.on_due("")
        assert pruning.deleted_rows == {}
    await pruning.on_due("")
    assert pruning.deleted_rows == {"rows": 1}


@requirement("M20", "O2")
async def test_the_time_is_fixed_for_a_round_and_moves_with_the_next(bench: Bench, clock: FakeClock) -> None:
    noun = Rows(clock, 25)
    pruning, began = retention(bench, clock, noun, retention_days=3), clock.at
    for _ in range(8):
        clock.at += SECOND
        await pruning.on_due("")
    assert noun.before == [began + SECOND - 3 * DAY, began + 5 * SECOND - 3 * DAY]


@requirement("M20")
async def test_a_round_that_fails_begins_anew(bench: Bench, clock: FakeClock) -> None:
    noun = Rows(clock, 25, breaks=10)
    pruning = retention(bench, clock, noun)
    await pruning.on_due("")
    with pytest.raises(LookupError):
        await pruning.on_due("")
    for _ in range(4):
        await pruning.on_due("")
    assert (pruning.rounds, pruning.deleted_rows) == (1, {"rows": 35})


@requirement("M20", "O2")
async def test_nobody_is_asked_where_all_is_kept_for_ever(bench: Bench, clock: FakeClock) -> None:
    noun = Rows(clock, 25)
    pruning = retention(bench, clock, noun, retention_days=0)
    await pruning.on_due("")
    assert (noun.before, pruning.cutoff, await pruning.count_expired()) == ([], 0, {})
    assert await due(bench) == clock.at + 3600 * SECOND
