"""Which messages wait for an answer, as a page knows it: an old snapshot and its events are the new snapshot."""

from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.random_histories import Duties
from testing.running_server import running
from testing.snapshot_follower import follow, state_of
from tests.requirements import requirement

ENDS = ("answered", "declined")


@requirement("M34", "M26", "M28")
@pytest.mark.parametrize("seed", range(4))
async def test_what_waits_for_an_answer_is_the_same_by_events_as_in_a_new_snapshot(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        duties = Duties(server, clock, [await server.seat("One"), await server.seat("Two")], seed)
        await duties.go_on(70)
        events = await journal_of(server)
    end = duties.taken[-1]
    assert any(each["unanswered"] for each in duties.taken)
    for snapshot in duties.taken:
        behind = [event for event in events if event["seq"] > snapshot["as_of"]]
        assert follow(state_of(snapshot), behind)["unanswered"] == state_of(end)["unanswered"]
    told = {event["event"] for event in events}
    ticks = {event["payload"]["tick"] for event in events if event["event"] == "MESSAGE_TICK"}
    assert {"MESSAGE_OVERDUE", "MESSAGE_DRAFTED"} <= told
    assert {*ENDS, "overdue", "answered_outside"} <= ticks


@requirement("M34", "M26")
async def test_without_one_event_of_an_answer_the_page_would_be_wrong(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The control: some snapshot becomes something else if the last word about an answer is lost."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        duties = Duties(server, clock, [await server.seat("One"), await server.seat("Two")], 1)
        await duties.go_on(70)
        events = await journal_of(server)
    end = state_of(duties.taken[-1])["unanswered"]
    found = 0
    for dropped in [event for event in events if event["event"] in ("MESSAGE_OVERDUE", "MESSAGE_DRAFTED")]:
        rest = [event for event in events if event is not dropped]
        found += follow(state_of(duties.taken[0]), rest)["unanswered"] != end
    assert found > 0
