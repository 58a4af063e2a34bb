"""Timers: each is called when it is due, none is lost, whatever the clocks, the owners and the store do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from molecule_core.common.clock import DAY, SECOND
from molecule_core.common.errors import StoreUnavailable
from molecule_core.store.database import Row
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS_KEY, TimerWorker, set_timer
from molecule_core.store.wakeups import Notifier
from testing.clocks import START, FakeClock, settle
from testing.engines import Engine
from testing.waits import IN_PROCESS_SECONDS
from tests.store.instrumented_store import Bench, bench_on, eventually, write

NEVER = START + 100_000 * DAY


class TwoClocks(FakeClock):
    """A clock whose wall time can be set by somebody while the monotonic time goes its way."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0

    def now(self) -> int:
        return self.at + self.jumped


class Diary:
    """Timers at work, and who was called when: (key, seconds after the start by the wall clock)."""

    def __init__(self, bench: Bench, clock: FakeClock, wakeups: Notifier) -> None:
        self.bench = bench
        self.clock = clock
        self.wakeups = wakeups
        self.timers = TimerWorker(bench.store, clock, wakeups)
        self.timers.register("test", self.on_due)
        self.timers.register("failing", self.on_failing)
        self.worker = asyncio.create_task(self.timers.run())
        self.calls: list[tuple[str, float]] = []
        self.failures = 0

    async def on_due(self, key: str) -> None:
        """Is called, and asks not to be called again."""
        self.calls.append((key, (self.clock.now() - START) / SECOND))
        await self.set({key: None})

    async def on_failing(self, key: str) -> None:
        """Fails as often as it is told to."""
        if self.failures:
            self.failures -= 1
            self.calls.append((f"{key} fails", (self.clock.now() - START) / SECOND))
            raise ValueError("this owner fails")
        self.calls.append((key, (self.clock.now() - START) / SECOND))
        await self.set({key: None}, kind="failing")

    async def set(self, due: dict[str, float | None], *, kind: str = "test") -> None:
        """Sets timers, given in seconds after the start; None is a time that never comes."""
        statements = [
            set_timer(kind, key, NEVER if at is None else START + round(at * SECOND)) for key, at in due.items()
        ]
        await self.bench.run(write(*statements, rings=(TIMERS_KEY,)))

    async def asleep(self) -> None:
        """Returns once the worker has done all that is due and sleeps."""
        await settle()
        await eventually(self._sleeps)
        assert not self.worker.done(), "the timers have ended"

    async def _sleeps(self) -> bool:
        return self.clock.sleepers == 1 or self.worker.done()

    async def after(self, seconds: float) -> list[tuple[str, float]]:
        """Lets so much time pass; the calls so far."""
        await self.clock.advance(seconds)
        await self.asleep()
        return self.calls


@asynccontextmanager
async def at_work(engine: Engine, place: str, clock: FakeClock) -> AsyncIterator[Diary]:
    """A store whose timers run until the block ends."""
    wakeups = Notifier(clock)
    async with bench_on(engine, place, clock=clock, ring=wakeups.notify) as bench:
        diary = Diary(bench, clock, wakeups)
        try:
            yield diary
        finally:
            wakeups.close()
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                await diary.worker


@pytest.fixture
async def diary(engine: Engine, place: str, clock: FakeClock) -> AsyncIterator[Diary]:
    """Timers at work on each engine."""
    async with at_work(engine, place, clock) as diary:
        yield diary


async def test_timers_are_called_in_the_order_in_which_they_are_due_and_not_before(diary: Diary) -> None:
    await diary.set({"c": 30, "a": 10, "b": 20})
    await diary.asleep()
    assert await diary.after(9.99) == []
    assert await diary.after(0.01) == [("a", 10)]
    assert await diary.after(25) == [("a", 10), ("b", 35), ("c", 35)]
    assert len(await diary.after(DAY / SECOND)) == 3


async def test_a_timer_that_is_set_later_but_due_earlier_wakes_the_worker(diary: Diary) -> None:
    await diary.set({"late": 100})
    await diary.asleep()
    await diary.set({"early": 5})
    assert await diary.after(5) == [("early", 5)]
    assert await diary.after(95) == [("early", 5), ("late", 100)]


async def test_a_later_wish_under_the_same_key_replaces_the_earlier_one(diary: Diary) -> None:
    await diary.set({"a": 10})
    await diary.set({"a": 50})
    assert await diary.after(20) == []
    assert await diary.after(30) == [("a", 50)]


async def test_a_timer_that_is_due_already_is_called_at_once(diary: Diary) -> None:
    await diary.set({"a": -10, "b": 0})
    await diary.asleep()
    assert diary.calls == [("a", 0), ("b", 0)]


async def test_a_restart_keeps_the_timers_and_calls_what_became_due_meanwhile(
    engine: Engine, place: str, clock: FakeClock
) -> None:
    async with at_work(engine, place, clock) as diary:
        await diary.set({"a": 10, "b": 1000})
        await diary.asleep()
    await clock.advance(60)
    async with at_work(engine, place, clock) as diary:
        await diary.asleep()
        assert diary.calls == [("a", 60)]
        assert await diary.after(940) == [("a", 60), ("b", 1000)]


async def test_an_owner_that_fails_is_asked_again(diary: Diary, caplog: pytest.LogCaptureFixture) -> None:
    diary.failures = 2
    await diary.set({"f": 10}, kind="failing")
    assert await diary.after(10) == [("f fails", 10)]
    assert await diary.after(1) == [("f fails", 10)]
    assert await diary.after(9) == [("f fails", 10), ("f fails", 20)]
    assert (await diary.after(10))[2:] == [("f", 30)]
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["the handler of a timer failed; it is retried"] * 2 + ["the handler of a timer succeeded again"]


async def test_an_owner_that_fails_does_not_hold_up_the_others(diary: Diary) -> None:
    diary.failures = 1_000_000
    await diary.set({"f": 10}, kind="failing")
    await diary.set({"a": 11})
    await diary.asleep()
    await diary.after(12)
    assert ("a", 12) in await diary.after(30)


async def test_an_owner_that_fails_for_all_its_keys_does_not_hold_up_the_others_either(diary: Diary) -> None:
    """Such as one timer for each workspace, and a mistake in what they all do."""
    diary.failures = 1_000_000
    await diary.set({f"f{number}": 10 for number in range(250)}, kind="failing")
    await diary.set({"a": 11})
    await diary.asleep()
    await diary.after(12)
    assert "a" in [key for key, _ in await diary.after(30)]


async def test_a_timer_whose_owner_this_server_does_not_know_does_not_hold_up_the_others(diary: Diary) -> None:
    """It may belong to a newer server beside this one, or to a slice that was taken out."""
    await diary.set({"x": 10}, kind="of another version")
    await diary.set({"a": 11})
    await diary.asleep()
    await diary.after(12)
    assert ("a", 12) in await diary.after(30)


async def test_a_store_that_did_not_answer_once_does_not_end_the_timers(
    diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    await diary.set({"a": 10})
    await diary.asleep()
    answering, failures = diary.bench.store.rows, iter([True])

    async def rows(name: str, params: Params) -> Sequence[Row]:
        if next(failures, False):
            raise StoreUnavailable
        found: Sequence[Row] = await answering(name, params)
        return found

    monkeypatch.setattr(diary.bench.store, "rows", rows)
    await diary.clock.advance(10)
    await diary.asleep()
    assert [key for key, _ in await diary.after(30)] == ["a"]


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
async def test_a_jump_of_the_wall_clock_neither_loses_a_timer_nor_runs_one_early(
    engine: Engine, place: str, hours: int
) -> None:
    clock = TwoClocks()
    async with at_work(engine, place, clock) as diary:
        await diary.set({"a": 600, "b": 48 * 3600})
        await diary.asleep()
        clock.jumped = hours * 3600 * SECOND
        calls: list[Any] = []
        for _ in range(80):
            calls = await diary.after(3600)
        assert [key for key, _ in calls] == ["a", "b"]
        due = {"a": 600, "b": 48 * 3600}
        assert all(at >= due[key] for key, at in calls)
        # It sleeps by the monotonic clock: called at the latest when the sleep that it knew of ends, or when it is due.
        assert all(at <= due[key] + max(hours, 0) * 3600 + 3600 for key, at in calls)


async def test_closing_ends_the_timers_at_once(engine: Engine, place: str, clock: FakeClock) -> None:
    async with at_work(engine, place, clock) as diary:
        await diary.set({"a": 1000})
        await diary.asleep()
        assert diary.wakeups.count_waiters(TIMERS_KEY) == 1
    assert diary.calls == []
    assert diary.wakeups.count_waiters(TIMERS_KEY) == 0
