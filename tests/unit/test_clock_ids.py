"""Time and ids: stamps as RFC 3339, waits with a bound, ids that grow."""

import asyncio
import itertools
import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.common import clock as clock_module
from molecule_core.common.clock import SECOND, SystemClock, to_rfc3339, yield_to_others
from molecule_core.common.ids import IdGenerator, SystemRandomness
from testing.clocks import START, FakeClock, SeededRandomness, settle
from testing.step_counts import examples
from testing.waits import IN_PROCESS_SECONDS
from tests.store.mutated_modules import changed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


# -- stamps ------------------------------------------------------------------------------------------------------------


@examples(300)
@given(st.integers(0, 4_102_444_800 * SECOND))
@example(999_999)
@example(1_709_164_800 * SECOND)  # a 29th of February
def test_a_stamp_is_rfc_3339_in_utc_with_six_digits(at: int) -> None:
    text = to_rfc3339(at)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert datetime.fromisoformat(text) == EPOCH + timedelta(microseconds=at)


@examples(100)
@given(st.lists(st.integers(0, 5 * SECOND), min_size=2, max_size=10))
def test_stamps_sort_as_text_like_the_times_they_stand_for(offsets: list[int]) -> None:
    times = [START + offset for offset in offsets]
    assert sorted(map(to_rfc3339, times)) == list(map(to_rfc3339, sorted(times)))


def test_the_first_stamp_of_a_process_is_whole_whatever_its_second() -> None:
    """A seat whose agent was never heard has the time 0."""
    fresh = changed(clock_module)
    assert fresh.to_rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert fresh.to_rfc3339(START) == fresh.to_rfc3339(START) == to_rfc3339(START)


def test_an_example_of_a_stamp_reads_as_documented() -> None:
    assert to_rfc3339(1_795_300_867_000_042) == "2026-11-21T22:41:07.000042Z"


# -- ids ---------------------------------------------------------------------------------------------------------------


class OneBit(SeededRandomness):
    """Chance at its worst: always the highest, or always the lowest."""

    def __init__(self, highest: bool) -> None:
        super().__init__()
        self._highest = highest

    def bits(self, count: int) -> int:
        return (1 << count) - 1 if self._highest else 0


@pytest.mark.parametrize("randomness", [SeededRandomness(), OneBit(True), OneBit(False)])
def test_ids_within_one_millisecond_grow_strictly_and_are_valid(randomness: SeededRandomness) -> None:
    clock = FakeClock()
    ids = IdGenerator(clock, randomness)
    made = [ids.new() for _ in range(3000)]
    assert all(earlier < later for earlier, later in itertools.pairwise(made))
    for text in made:
        assert FORM.fullmatch(text)
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


@examples(100)
@given(st.lists(st.integers(-5_000_000, 5_000_000), max_size=30), st.integers())
def test_ids_grow_also_when_the_clock_goes_back(jumps: list[int], seed: int) -> None:
    clock = FakeClock()
    ids = IdGenerator(clock, SeededRandomness(seed))
    last = ids.new()
    for jump in jumps:
        clock.at += jump
        text = ids.new()
        assert text > last
        assert FORM.fullmatch(text)
        last = text


def test_an_id_carries_its_millisecond_so_that_later_ones_sort_behind() -> None:
    clock = FakeClock()
    one, other = IdGenerator(clock, SeededRandomness(1)), IdGenerator(clock, SeededRandomness(2))
    first = one.new()
    assert int(first[:8] + first[9:13], 16) == clock.at // 1000
    clock.at += 1000
    assert other.new() > first


def test_ids_of_two_servers_in_the_same_millisecond_differ() -> None:
    clock = FakeClock()
    servers = [IdGenerator(clock, SeededRandomness(seed)) for seed in range(50)]
    assert len({ids.new() for ids in servers}) == 50


def test_random_ids_are_valid_and_share_no_beginning() -> None:
    """The original runtime names the cursor file of a workspace by the first eight digits of its id."""
    ids = IdGenerator(FakeClock(), SystemRandomness())
    made = [ids.new_random() for _ in range(100)]
    assert len({text[:8] for text in made}) == 100
    for text in [*made, IdGenerator(FakeClock(), OneBit(True)).new_random()]:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)


def test_the_machines_chance_gives_what_is_asked_for() -> None:
    chance = SystemRandomness()
    assert len(chance.secret(32)) == 32
    assert chance.secret(32) != chance.secret(32)
    drawn = [chance.bits(74) for _ in range(100)]
    assert len(set(drawn)) == 100
    assert all(0 <= each < 1 << 74 for each in drawn)
    assert SystemRandomness().bits(74) != SystemRandomness().bits(74)


# -- waits -------------------------------------------------------------------------------------------------------------


async def test_a_wait_says_whether_its_signal_came() -> None:
    clock = SystemClock()
    signal = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        waiting = asyncio.create_task(clock.wait(signal, IN_PROCESS_SECONDS * 2))
        await settle(2)
        assert not waiting.done()
        signal.set_result(None)
        assert await waiting is True


@pytest.mark.parametrize("seconds", [0.01, 0, -5])
async def test_a_signal_that_does_not_come_in_time_is_cancelled(seconds: float) -> None:
    signal = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        assert await SystemClock().wait(signal, seconds) is False
    assert signal.cancelled()


async def test_whoever_cancels_a_wait_cancels_it_and_it_does_not_look_like_a_time_out() -> None:
    signal = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(SystemClock().wait(signal, IN_PROCESS_SECONDS * 2))
    await settle(2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert signal.cancelled()


async def test_who_lets_others_go_first_goes_on_after_them_and_can_be_cancelled_meanwhile() -> None:
    loop, order, complaints = asyncio.get_running_loop(), list[str](), list[str]()
    loop.set_exception_handler(lambda _loop, told: complaints.append(told["message"]))

    async def polite(name: str) -> None:
        await yield_to_others()
        order.append(name)

    first, cancelled = asyncio.create_task(polite("first")), asyncio.create_task(polite("cancelled"))
    loop.call_soon(order.append, "others")
    loop.call_soon(cancelled.cancel)  # while it lets them go first
    await asyncio.gather(first, cancelled, return_exceptions=True)
    await yield_to_others()
    assert (order, cancelled.cancelled(), complaints) == (["others", "first"], True, [])


def test_the_machines_clocks_are_what_they_say() -> None:
    clock = SystemClock()
    seconds = datetime.now(UTC).timestamp()
    assert abs(clock.now() / SECOND - seconds) < 60
    marks = [clock.monotonic() for _ in range(100)]
    assert marks == sorted(marks)
