"""An inbox against a model of a few lines: whatever is sent, claimed, acked and waited for, in whatever order."""

import asyncio
from collections.abc import Awaitable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase

from molecule_core.common.errors import (
    InboxFull,
    MessageIdReused,
)
from molecule_core.messages import rules
from molecule_core.messages.inbox import acks as settling_module
from molecule_core.messages.model import (
    AgentLogEntry,
    MessageReceipt,
)
from molecule_core.store.queries import Query
from testing.engines import ENGINES
from testing.machines.inboxes import LIMIT, World, check_stories, draft_of, world_on
from testing.step_counts import STEPS
from tests.requirements import requirement


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A world with a small inbox limit on each engine; every story brings its own seats."""
    with world_on(request.param, tmp_path_factory.mktemp("world"), postgres) as world:
        yield world


@requirement("M13", "M16", "M18", "M19", "P2")
def test_an_inbox_does_what_its_model_does(world: World) -> None:
    check_stories(world, STEPS)


def _without_the_check_of_attempts(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "check_attempt", lambda _handout, _attempt: None)


def _with_room_for_one_more(world: World, patch: pytest.MonkeyPatch) -> None:
    right = rules.max_inbound_no
    patch.setattr(rules, "max_inbound_no", lambda inbox, limit: right(inbox, limit) + 1)


def _with_a_floor_that_stays(world: World, patch: pytest.MonkeyPatch) -> None:
    def stays(_workspace_id: str, inbox: Any, _handled: Any) -> Generator[Any, Any, Any]:
        yield from ()
        return inbox

    patch.setattr(settling_module, "_advance_floor", stays)


def _without_leases(world: World, patch: pytest.MonkeyPatch) -> None:
    text = world.store._queries["claimable"].text
    freely = text.replace("AND h.lease_until <= :now", "AND :now > 0")
    assert freely != text
    patch.setitem(world.store._queries, "claimable", Query("claimable", freely, "sqlite"))


def _with_letters_that_the_floor_forgets(world: World, patch: pytest.MonkeyPatch) -> None:
    text = world.store._queries["forget_acknowledged_claims"].text
    forgetful = text.replace(" AND requeued = 0", "")
    assert forgetful != text
    patch.setitem(
        world.store._queries, "forget_acknowledged_claims", Query("forget_acknowledged_claims", forgetful, "sqlite")
    )


def _without_a_look_at_what_a_repeated_message_says(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "replayed_receipt", lambda twin, **_: MessageReceipt(*twin[:3]))


@pytest.mark.parametrize(
    "fault",
    [
        _without_the_check_of_attempts,
        _with_room_for_one_more,
        _with_a_floor_that_stays,
        _without_leases,
        _with_letters_that_the_floor_forgets,
        _without_a_look_at_what_a_repeated_message_says,
    ],
)
def test_the_model_finds_out_an_inbox_that_lacks_one_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """The controls of the test above: the product with one line replaced, in the same stories."""
    with world_on("sqlite", tmp_path, "") as world:
        fault(world, monkeypatch)
        with pytest.raises(AssertionError):
            check_stories(world, 3000, phases=[Phase.generate], derandomize=True, report_multiple_bugs=False)


@requirement("M18")
@pytest.mark.parametrize("last", ["one", "up to"])
def test_a_gap_that_closes_lets_the_floor_rise_over_all_that_was_handled_behind_it(world: World, last: str) -> None:
    """Over more rows than one look of the floor takes, and over rows of the log that are no mail."""
    (box,) = world.seats(1)
    ids = []
    for number in range(LIMIT):
        ids.append(world.run(world.send(box, draft_of(None, str(number), None))).activity_id)
        world.run(world.writer.log_activity(box, AgentLogEntry(activity_type="agent_log")))
    for id_ in reversed(ids[1:]):
        assert world.run(world.handing.acks.ack_message(box, id_, None)) == 0
    assert world.rows("inbox_state", workspace_id=box) == [(0, 0, LIMIT - 1, 0, 0)]
    closing = (
        world.handing.acks.ack_message(box, ids[0], None)
        if last == "one"
        else world.handing.acks.ack_up_to(box, 1, None)
    )
    assert world.run(closing) == 2 * LIMIT - 1
    assert world.rows("inbox_state", workspace_id=box) == [(2 * LIMIT - 1, LIMIT, 0, 0, 0)]
    assert world.rows("claims_upto", workspace_id=box, seq=1_000) == []


# -- at the same moment ------------------------------------------------------------------------------------------------


def _at_once(world: World, *work: Awaitable[Any]) -> list[Any]:
    async def gathered() -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    return list(world.run(gathered()))


@requirement("M15")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("waiting", [0, 1, LIMIT - 1, LIMIT])
def test_a_burst_fills_an_inbox_exactly_to_its_limit(world: World, named: bool, waiting: int) -> None:
    (box,) = world.seats(1)
    for number in range(waiting):
        world.run(world.send(box, draft_of(None, f"before {number}", None)))
    ids = [f"m{number}" if named else None for number in range(12)]
    # Named by one person and unnamed ones take a different number of steps to decide: mix them.
    found = _at_once(world, *(world.send(box, draft_of(None, "hi", id_, person=box)) for id_ in [*ids, None, None]))
    assert sum(isinstance(each, MessageReceipt) for each in found) == LIMIT - waiting
    assert all(isinstance(each, MessageReceipt | InboxFull) for each in found)
    assert world.rows("last_inbound", key=box) == [(LIMIT,)]
    assert world.rows("last_seq", key=box) == [(LIMIT,)]


@requirement("M13", "P2")
def test_the_same_message_many_times_at_once_is_one_message(world: World) -> None:
    box, sender = world.seats(2)
    found = _at_once(world, *(world.send(box, draft_of(sender, "hi", "m")) for _ in range(20)))
    assert len(set(found)) == 1
    assert isinstance(found[0], MessageReceipt)
    assert world.rows("last_seq", key=box) == [(1,)]


@requirement("M13")
def test_of_two_contents_under_one_id_at_once_the_first_wins_and_the_other_is_refused(world: World) -> None:
    box, sender = world.seats(2)
    found = _at_once(world, *(world.send(box, draft_of(sender, text, "m")) for text in ("one", "other") * 5))
    assert len({each for each in found if isinstance(each, MessageReceipt)}) == 1
    assert [type(each) for each in found] == [MessageReceipt, MessageIdReused] * 5


@requirement("M18", "P1")
@pytest.mark.parametrize("first", ["send", "ack"])
def test_an_ack_beyond_all_that_came_does_not_swallow_what_is_just_coming(world: World, first: str) -> None:
    """The agent has not seen it, so it cannot have handled it."""
    (box,) = world.seats(1)
    world.run(world.send(box, draft_of(None, "seen", None)))
    world.run(world.handing.claim(box, lease_seconds=60, count=10))
    both = [world.send(box, draft_of(None, "new", None)), world.handing.acks.ack_up_to(box, 1_000_000, None)]
    found = _at_once(world, *(both if first == "send" else reversed(both)))
    assert not [each for each in found if isinstance(each, BaseException)]
    floor = next(each for each in found if isinstance(each, int))
    rows = world.run(world.handing.claim(box, lease_seconds=60, count=10))
    # Whichever came first, the floor counts exactly the messages that it covers, and no other is lost.
    assert world.rows("inbox_state", workspace_id=box)[0][:2] == (floor, floor)
    assert [row.seq for row in rows] == list(range(floor + 1, 3))


@requirement("M18")
def test_each_message_is_handed_out_to_one_of_many_who_claim_at_once(world: World) -> None:
    (box,) = world.seats(1)
    for number in range(LIMIT):
        world.run(world.send(box, draft_of(None, str(number), None)))
    found = _at_once(world, *(world.handing.claim(box, lease_seconds=60, count=1) for _ in range(LIMIT + 2)))
    assert [[(row.seq, row.attempt) for row in rows] for rows in found] == [
        [(1, 1)],
        [(2, 1)],
        [(3, 1)],
        [(4, 1)],
        [],
        [],
    ]


@requirement("M18", "M33")
def test_a_claim_that_waits_gets_what_comes_and_what_comes_again(world: World) -> None:
    (box,) = world.seats(1)
    clock = world.clock

    async def story() -> list[Any]:
        waiting = asyncio.create_task(world.handing.claim(box, lease_seconds=10, count=5, wait=100))
        while not clock.sleepers:
            await clock.advance(0)
        await world.send(box, draft_of(None, "hi", None))
        first = await waiting
        again = asyncio.create_task(world.handing.claim(box, lease_seconds=10, count=5, wait=100))
        while not clock.sleepers:
            await clock.advance(0)
        await clock.advance(9.9)
        early = again.done()
        await clock.advance(0.1)
        return [first, early, await again]

    first, early, again = world.run(story())
    assert [(row.seq, row.attempt) for row in first] == [(1, 1)]
    assert early is False
    assert [(row.seq, row.attempt) for row in again] == [(1, 2)]
    assert world.wakeups._waiters == {}
