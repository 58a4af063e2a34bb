"""The one primitive of every wait: register, look, sleep. It never misses, ends on closing, and leaks nobody."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from molecule_core.store import wakeups as wakeups_module
from molecule_core.store.wakeups import Notifier, Poll
from testing.clocks import FakeClock, settle
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.mutated_modules import EARLY_RING_FORGOTTEN, REGISTERED_LATE, changed

LONG = 1_000_000.0
SEEDS = 300


class ShuffledLoop(asyncio.SelectorEventLoop):
    """An event loop that runs what is ready in an order, and in portions, that a seed decides."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)

    def _run_once(self) -> None:
        loop: Any = self
        ready = list(loop._ready)
        self.chance.shuffle(ready)
        portion = self.chance.randint(1, len(ready)) if ready else 0
        loop._ready = deque(ready[:portion])
        super()._run_once()  # type: ignore[misc]
        loop._ready.extend(ready[portion:])


class Story:
    """Writers change cells and ring; each waiter waits until its cell holds all that will ever be written to it."""

    def __init__(self, wakeups: Any, chance: random.Random) -> None:
        self.wakeups = wakeups
        self.chance = chance
        self.cells = {"a": 0, "b": 0}
        self.plans = [[chance.choice("ab") for _ in range(3)] for _ in range(3)]
        self.close_calls = 0

    async def pause(self) -> None:
        """Lets others run, or does not."""
        await settle(self.chance.randrange(3))

    async def write(self, plan: list[str]) -> None:
        """Changes the cells of a plan, one after the other."""
        for key in plan:
            await self.pause()
            self.cells[key] += 1
            self.wakeups.notify([key])

    async def wait(self, key: str) -> None:
        """Waits for the last change of a cell. A look takes time, and what it saw may be old when it returns."""
        wanted = sum(plan.count(key) for plan in self.plans)

        async def look() -> Any:
            await self.pause()
            seen = self.cells[key]
            await self.pause()
            self.close_calls += seen != self.cells[key]
            return Poll("all" if seen == wanted else None)

        await self.wakeups.wait_until(key, look, LONG)

    async def lost(self) -> int:
        """Plays the story; how many still sleep when nothing will ever ring again."""
        waiters = [asyncio.create_task(self.wait(key)) for key in "ab" * 3]
        await asyncio.gather(*(asyncio.create_task(self.write(plan)) for plan in self.plans))
        await settle(100)
        asleep = [waiter for waiter in waiters if not waiter.done()]
        for waiter in asleep:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        return len(asleep)


def play(module: Any) -> tuple[int, int]:
    """(waiters that were never woken, looks that were out of date when they returned) over all seeds."""
    lost = close_calls = 0
    for seed in range(SEEDS):
        loop = ShuffledLoop(seed)
        try:
            story = Story(module.Notifier(FakeClock()), loop.chance)
            lost += loop.run_until_complete(story.lost())
            close_calls += story.close_calls
        finally:
            loop.close()
    return lost, close_calls


@requirement("M33")
def test_no_order_of_events_makes_a_waiter_miss_what_it_waits_for() -> None:
    lost, close_calls = play(wakeups_module)
    assert lost == 0
    assert close_calls > SEEDS  # the rings did come while somebody looked


def test_whoever_looks_before_registering_misses_what_comes_between() -> None:
    """A control of the test above."""
    late = changed(wakeups_module, *REGISTERED_LATE)
    lost, close_calls = play(late)
    assert lost > 0
    assert close_calls > SEEDS


def test_a_bell_that_forgets_an_early_ring_misses_it() -> None:
    """Another control: the ring came while the waiter was looking, not sleeping."""
    forgetful = changed(wakeups_module, EARLY_RING_FORGOTTEN)
    lost, close_calls = play(forgetful)
    assert lost > 0
    assert close_calls > SEEDS


# -- one wait ----------------------------------------------------------------------------------------------------------


class Looks:
    """A look that finds nothing until it is told to; counts how often it was asked."""

    def __init__(self, again_in: float | None = None) -> None:
        self.count = 0
        self.found: Any = None
        self.again_in = again_in

    async def __call__(self) -> Poll[Any]:
        self.count += 1
        return Poll(self.found, self.again_in)


@pytest.fixture
def wakeups(clock: FakeClock) -> Notifier:
    """Wake-ups on a clock that stands still."""
    return Notifier(clock)


async def _started(waiting: Awaitable[Any]) -> "asyncio.Future[Any]":
    task = asyncio.ensure_future(waiting)
    await settle()
    return task


async def _done(task: "asyncio.Future[Any]") -> Any:
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        return await task


async def test_what_is_there_already_is_found_without_a_wait(wakeups: Notifier, clock: FakeClock) -> None:
    look = Looks()
    look.found = "it"
    assert await _done(await _started(wakeups.wait_until("k", look, LONG))) == "it"
    assert (look.count, clock.sleepers, wakeups.count_waiters("k")) == (1, 0, 0)


@pytest.mark.parametrize("found", [0, False, "", []])
async def test_a_find_that_is_empty_or_zero_is_a_find(wakeups: Notifier, found: Any) -> None:
    look = Looks()
    look.found = found
    assert await _done(await _started(wakeups.wait_until("k", look, LONG))) == found


async def test_a_ring_wakes_all_who_wait_for_its_key_and_nobody_else(wakeups: Notifier) -> None:
    looks = [Looks() for _ in range(3)]
    first, second, other = [
        await _started(wakeups.wait_until(key, look, LONG)) for key, look in zip("kkx", looks, strict=True)
    ]
    assert (wakeups.count_waiters("k"), wakeups.count_waiters("x"), wakeups.count_waiters("nobody")) == (2, 1, 0)
    looks[0].found = looks[1].found = looks[2].found = "it"
    wakeups.notify(["k", "nobody"])
    assert (await _done(first), await _done(second)) == ("it", "it")
    await settle()
    assert (other.done(), looks[2].count) == (False, 1)
    wakeups.notify(["x"])
    assert await _done(other) == "it"


async def test_a_ring_for_nothing_costs_one_look(wakeups: Notifier) -> None:
    look = Looks()
    waiting = await _started(wakeups.wait_until("k", look, LONG))
    for _ in range(3):
        wakeups.notify(["k"])
    await settle()
    assert (look.count, waiting.done()) == (2, False)
    wakeups.close()
    assert await _done(waiting) is None


async def test_a_wait_ends_with_nothing_when_its_time_is_up(wakeups: Notifier, clock: FakeClock) -> None:
    look = Looks()
    waiting = await _started(wakeups.wait_until("k", look, 10))
    await clock.advance(9.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert await _done(waiting) is None
    assert (look.count, wakeups.count_waiters("k")) == (2, 0)


async def test_many_waits_share_one_timer_and_each_ends_in_its_time(wakeups: Notifier, clock: FakeClock) -> None:
    looks = [Looks() for _ in range(100)]
    tasks = asyncio.all_tasks()
    waits = [await _started(wakeups.wait_until("k", look, 1 + number % 10)) for number, look in enumerate(looks)]
    assert (wakeups.sleeping, clock.sleepers) == (100, 1)
    assert len(asyncio.all_tasks() - tasks) == 100 + 1  # the waits, which here are tasks of the test, and the alarm
    left = []
    for _ in range(10):
        await clock.advance(1)
        left.append(sum(not wait.done() for wait in waits))
    assert left == [90, 80, 70, 60, 50, 40, 30, 20, 10, 0]
    assert (wakeups.sleeping, clock.sleepers) == (0, 0)


async def test_a_shorter_wait_that_begins_later_ends_first(wakeups: Notifier, clock: FakeClock) -> None:
    long = await _started(wakeups.wait_until("k", Looks(), 10))
    short = await _started(wakeups.wait_until("k", Looks(), 2))
    await clock.advance(2)
    assert (long.done(), short.done()) == (False, True)
    await clock.advance(8)
    assert long.done()


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_wait_of_no_time_looks_once(wakeups: Notifier, seconds: float) -> None:
    look = Looks()
    assert await _done(await _started(wakeups.wait_until("k", look, seconds))) is None
    assert look.count == 1


async def test_a_look_that_names_a_time_is_repeated_then_without_being_woken(
    wakeups: Notifier, clock: FakeClock
) -> None:
    look = Looks(again_in=3)
    waiting = await _started(wakeups.wait_until("k", look, 10))
    counts = []
    for _ in range(6):
        await clock.advance(1.5)
        counts.append(look.count)
    assert counts == [1, 2, 2, 3, 3, 4]
    look.found = "it"
    await clock.advance(1)  # the time of the whole wait is up before the look would be repeated
    assert await _done(waiting) == "it"


@requirement("M33", "O1")
async def test_closing_ends_every_wait_at_once_with_what_it_has(wakeups: Notifier, clock: FakeClock) -> None:
    empty, full = Looks(), Looks()
    waits = [await _started(wakeups.wait_until(key, look, LONG)) for key, look in (("k", empty), ("x", full))]
    full.found = "it"
    wakeups.close()
    assert [await _done(each) for each in waits] == [None, "it"]
    await settle()
    assert (wakeups.sleeping, clock.sleepers) == (0, 0)


async def test_a_wait_that_begins_after_closing_looks_once_and_ends(wakeups: Notifier) -> None:
    wakeups.close()
    look = Looks()
    assert await _done(await _started(wakeups.wait_until("k", look, LONG))) is None
    assert look.count == 1


async def test_closing_while_somebody_looks_ends_that_wait_too(wakeups: Notifier) -> None:
    gate = asyncio.get_running_loop().create_future()

    async def look() -> Poll[Any]:
        await gate
        return Poll(None)

    waiting = await _started(wakeups.wait_until("k", look, LONG))
    wakeups.close()
    gate.set_result(None)
    assert await _done(waiting) is None


async def test_nobody_is_left_registered_after_a_cancellation_or_a_failed_look(wakeups: Notifier) -> None:
    async def stuck() -> Poll[Any]:
        await asyncio.get_running_loop().create_future()
        return Poll(None)

    async def failing() -> Poll[Any]:
        raise ValueError("the look failed")

    looks: list[Callable[[], Awaitable[Poll[Any]]]] = [Looks(), stuck]
    for look in looks:
        waiting = await _started(wakeups.wait_until("k", look, LONG))
        assert wakeups.count_waiters("k") == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await _done(waiting)
        assert wakeups.count_waiters("k") == 0
    with pytest.raises(ValueError, match="the look failed"):
        await _done(await _started(wakeups.wait_until("k", failing, LONG)))
    assert wakeups._waiters == {}


async def test_one_waiter_that_leaves_takes_no_other_with_it(wakeups: Notifier) -> None:
    look = Looks()
    leaving, staying = [await _started(wakeups.wait_until("k", look, LONG)) for _ in range(2)]
    leaving.cancel()
    await settle()
    look.found = "it"
    wakeups.notify(["k"])
    assert await _done(staying) == "it"
    assert leaving.cancelled()


@requirement("M38", "M33")
async def test_where_wake_ups_may_get_lost_nobody_sleeps_longer_than_the_floor_and_all_share_one_timer(
    clock: FakeClock,
) -> None:
    wakeups = Notifier(clock, look_again_seconds=5)
    looks = 0

    async def look() -> Poll[bool]:
        nonlocal looks
        looks += 1
        return Poll(None, next_poll_in=60)

    async def wait(number: int) -> bool | None:
        return await wakeups.wait_until(f"log:{number}", look, 22)

    waiting = [asyncio.create_task(wait(number)) for number in range(10)]
    await settle()
    counts = [looks]
    for _ in range(4):
        assert clock.sleepers == 1
        await clock.advance(5.1)
        counts.append(looks)
    assert counts == [10, 20, 30, 40, 50]
    await clock.advance(5)
    assert [task.result() for task in waiting] == [None] * 10
