"""Rates: a minute's worth at once, refilled evenly, one bucket a caller, and no memory of who has gone."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.api.http import rate_limits as module
from molecule_core.api.http.rate_limits import RateStatus, TokenBuckets, address_key
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.common.errors import RateLimited
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from tests.requirements import requirement


def taken(buckets: TokenBuckets, key: str, count: int) -> int:
    """How many of so many requests in one moment get through."""
    through = 0
    for _ in range(count):
        try:
            buckets.consume(key)
        except RateLimited:
            continue
        through += 1
    return through


@requirement("S22")
async def test_a_bucket_gives_a_minutes_worth_and_then_as_much_as_time_brings_back(clock: FakeClock) -> None:
    buckets = TokenBuckets(60, clock)
    assert taken(buckets, "a", 100) == 60
    await clock.advance(7)
    assert taken(buckets, "a", 100) == 7
    await clock.advance(3600)
    assert taken(buckets, "a", 100) == 60


@requirement("S22")
async def test_an_empty_bucket_says_when_to_come_again_and_that_is_true(clock: FakeClock) -> None:
    buckets = TokenBuckets(10, clock)
    assert taken(buckets, "a", 10) == 10
    with pytest.raises(RateLimited) as refused:
        buckets.consume("a")
    assert refused.value.extras == {"retry_after": 6}
    await clock.advance(refused.value.details["retry_after"])
    buckets.consume("a")


@requirement("S22")
async def test_one_flood_empties_no_other_bucket(clock: FakeClock) -> None:
    buckets = TokenBuckets(10, clock)
    assert taken(buckets, "flood", 1000) == 10
    assert [taken(buckets, f"calm {number}", 10) for number in range(5)] == [10] * 5


@requirement("S22")
async def test_a_flooding_workspace_takes_from_its_organisation_only_what_it_may_send(clock: FakeClock) -> None:
    rates = RateLimiter(Limits(sends_per_minute=5, org_sends_per_minute=12), clock)
    sent = {"a": 0, "b": 0, "c": 0, "other org": 0}
    for who in [*["a"] * 100, *["b"] * 100, *["c"] * 100, *["other org"] * 5]:
        try:
            rates.charge_sends(who, "2" if who == "other org" else "1")
        except RateLimited:
            continue
        sent[who] += 1
    assert sent == {"a": 5, "b": 5, "c": 2, "other org": 5}


@requirement("S22")
async def test_what_a_caller_is_told_is_what_it_still_may(clock: FakeClock) -> None:
    buckets = TokenBuckets(60, clock)
    assert buckets.current_status("a") == RateStatus(60, 60, 0)
    assert buckets.consume("a") == RateStatus(60, 59, 1)
    assert buckets.consume("a", 40) == RateStatus(60, 19, 41)
    await clock.advance(10)
    assert buckets.current_status("a") == RateStatus(60, 29, 31)


@requirement("S22")
async def test_more_than_a_bucket_can_hold_is_taken_once_and_empties_it(clock: FakeClock) -> None:
    buckets = TokenBuckets(10, clock)
    assert buckets.consume("a", 500).remaining == 0
    with pytest.raises(RateLimited):
        buckets.consume("a")


@requirement("S22")
async def test_whoever_was_silent_for_two_minutes_is_forgotten(clock: FakeClock) -> None:
    buckets = TokenBuckets(10, clock)
    for number in range(1000):
        buckets.consume(f"caller {number}")
    assert len(buckets) == 1000
    for _ in range(3):
        await clock.advance(61)
        buckets.consume("steady")
    assert len(buckets) <= 2


@requirement("S22")
async def test_a_million_addresses_in_a_minute_take_bounded_memory(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BUCKETS", 100)
    buckets = TokenBuckets(10, clock)
    for number in range(1000):
        buckets.consume(f"address {number}")
    assert len(buckets) <= 201


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), max_size=40))
@requirement("S22")
def test_in_no_minute_more_gets_through_than_two_minutes_worth_and_it_equals_a_plain_model(
    limit: int, story: list[tuple[float, int]]
) -> None:
    clock = FakeClock()
    buckets, level, last = TokenBuckets(limit, clock), float(limit), clock.monotonic()
    for pause, count in story:
        clock.at += round(pause * 1_000_000)
        now = clock.monotonic()
        level, last = min(limit, level + (now - last) * limit / 60), now
        cost = min(count, limit)
        if abs(level - cost) < 1e-4:  # too close to call
            continue
        if level >= cost:
            buckets.consume("a", count)
            level -= cost
        else:
            with pytest.raises(RateLimited):
                buckets.consume("a", count)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("192.0.2.7", 1234), "192.0.2.7"),
        (("::ffff:192.0.2.7", 1, 0, 0), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 1, 0, 0), "20010db800010002::"),
        (("2001:db8:1:2:ffff::1", 1, 0, 0), "20010db800010002::"),
        (("fe80::1%eth0", 1, 0, 2), "fe80000000000000::"),
        (None, ""),
        ("/a/socket", ""),
    ],
)
def test_an_ipv6_caller_is_known_by_its_network(peer: object, address: str) -> None:
    assert address_key(peer) == address


async def test_random_callers_are_told_apart(clock: FakeClock) -> None:
    dice = random.Random(5)
    buckets, asked = TokenBuckets(3, clock), dict.fromkeys("abcdef", 0)
    for _ in range(200):
        who = dice.choice("abcdef")
        asked[who] += taken(buckets, who, 1)
    assert asked == dict.fromkeys("abcdef", 3)
