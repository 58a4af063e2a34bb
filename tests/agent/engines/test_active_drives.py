"""Which threads are driven when: each once at a time, and one that breaks down later and later."""

import logging

import pytest

from molecule_core.agent.engines.active_drives import ActiveDrives
from testing.clocks import FakeClock, SeededRandomness, settle
from tests.requirements import requirement


@requirement("AR3")
async def test_a_thread_whose_drive_breaks_down_is_driven_again_later_and_later_and_others_at_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    times: dict[str, list[float]] = {"bad": [], "good": []}

    async def drive(thread_id: str) -> None:
        times[thread_id].append(clock.monotonic())
        if thread_id == "bad" and len(times["bad"]) != 9:
            raise ValueError("nobody has foreseen this")

    driven = ActiveDrives(drive, clock=clock, randomness=SeededRandomness())

    async def told() -> None:
        """The server tells of the threads, as it does at once of those that were released with an open turn."""
        for each in ("bad", "good"):
            if each not in driven:
                driven.start_drive(each)
        await settle()

    while len(times["bad"]) < 11:
        await told()
        await clock.advance(0.5)
    waits = [later - earlier for earlier, later in zip(times["bad"], times["bad"][1:], strict=False)]
    assert waits[0] <= 1.5 and all(30 <= each <= 61 for each in waits[6:8]), waits
    assert waits[8] == 0.5 and waits[9] <= 1.5, "one that went well begins anew"
    assert len(times["good"]) > 200
    assert "thread bad cannot be driven" in caplog.text and "nobody has foreseen this" in caplog.text
    caplog.set_level(logging.CRITICAL)
    for each in driven.tasks:
        each.cancel()
    await settle()
    assert not driven.tasks
