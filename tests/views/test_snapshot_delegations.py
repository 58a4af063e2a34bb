"""Which work is under way, as a page knows it: an old snapshot and its events are the new snapshot."""

from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.random_histories import bustle
from testing.snapshot_follower import compared, follow, state_of
from tests.requirements import requirement


@requirement("M34", "C23", "D1")
@pytest.mark.parametrize("seed", range(3))
async def test_what_is_under_way_is_the_same_by_events_as_in_a_new_snapshot(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    taken, events = await bustle(engine, place, tmp_path, clock, seed)
    assert max(len(each["delegations"]) for each in taken) > 2
    for number, old in enumerate(taken):
        for new in taken[number:]:
            between = [event for event in events if event["seq"] <= new["as_of"]]
            assert compared(follow(state_of(old), between))["delegations"] == compared(state_of(new))["delegations"]
    told = {event["event"] for event in events if event["entity"]["kind"] == "delegation"}
    assert told == {"DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE", "DELEGATION_FAILED"}


@requirement("M34", "C23")
async def test_without_one_event_of_a_delegation_the_page_would_be_wrong(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The control: some snapshot becomes something else if the beginning or the end of some work is lost."""
    taken, events = await bustle(engine, place, tmp_path, clock, 1)
    end = compared(state_of(taken[-1]))["delegations"]
    wrong = dict.fromkeys(("DELEGATION_SENT", "DELEGATION_COMPLETE", "DELEGATION_FAILED"), 0)
    for dropped in [event for event in events if event["event"] in wrong]:
        rest = [event for event in events if event is not dropped]
        for old in taken:
            if old["as_of"] < dropped["seq"]:
                wrong[dropped["event"]] += compared(follow(state_of(old), rest))["delegations"] != end
    assert all(wrong.values()), wrong
