"""What an engine asks again, and what it does not."""

import asyncio

import pytest

from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.client.api import ApiError, NoAnswerError
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded
from tests.requirements import requirement


def refusal(status: int, code: str = "") -> ApiError:
    """A refusal of a server."""
    return ApiError(status, {"error": "no", "code": code})


@requirement("G6", "AR3")
@pytest.mark.parametrize(
    "trouble",
    [
        NoAnswerError("away"),
        *(refusal(status) for status in (401, 429, 500, 503)),
        *(refusal(403, code) for code in ("credential_not_accepted", "invalid_caller", "role_too_low")),
    ],
)
async def test_what_passes_is_asked_again_later_and_later_until_there_is_an_answer(
    trouble: Exception, clock: FakeClock
) -> None:
    times: list[float] = []

    async def call() -> str:
        times.append(clock.monotonic())
        if len(times) <= 12:
            raise trouble
        return "at last"

    asking = asyncio.ensure_future(PersistentRetry(clock, SeededRandomness()).retry_call(call))
    while not asking.done():
        await settle()
        assert len(times) > 12 or clock.sleepers == 1, "it pauses between two tries"
        await clock.advance(0.1)
    assert await bounded(asking) == "at last"
    assert times[-1] - times[-2] >= 15


@requirement("AR3")
@pytest.mark.parametrize(
    "final", [refusal(400), refusal(403), refusal(403, "approval_needed"), refusal(404), refusal(409), refusal(410)]
)
async def test_what_waiting_does_not_end_is_raised_at_once(final: ApiError, clock: FakeClock) -> None:
    async def call() -> None:
        raise final

    with pytest.raises(ApiError) as raised:
        await bounded(PersistentRetry(clock, SeededRandomness()).retry_call(call))
    assert raised.value is final


@requirement("G6", "AR3")
async def test_what_is_not_found_is_asked_again_as_long_as_the_whole_seat_is_not(clock: FakeClock) -> None:
    known = list[ApiError]()

    async def call() -> None:
        raise refusal(404)

    async def is_about_seat(error: ApiError) -> bool:
        known.append(error)
        return len(known) < 3

    asking = asyncio.ensure_future(PersistentRetry(clock, SeededRandomness(), is_about_seat).retry_call(call))
    for _ in range(2):
        await settle()
        assert not asking.done()
        await clock.advance(30)
    with pytest.raises(ApiError):
        await bounded(asking)
    assert len(known) == 3
