"""Chains against a shadow model of a few lines: whatever is sent, claimed and acked, root and hop are as it says."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import ChainFrozen, ChainNotFrozen
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.chains.model import Cause, Chain
from molecule_core.messages.model import ActivityFilters, UserNotice
from molecule_core.store.journal import Journal
from testing.engines import ENGINES, Engine
from testing.machines.inboxes import World, draft_of, world_on
from tests.requirements import requirement

LOOSE = Limits(chain_hops=10**6, chain_messages=10**6, pingpong=10**6)
_SEATS = 3
STORIES = st.lists(
    st.tuples(
        st.sampled_from(["person", "send", "send", "named", "claim", "ack", "notify", "wait"]),
        st.integers(0, _SEATS - 1),
        st.integers(0, _SEATS - 1),
        st.integers(0, 7),
    ),
    max_size=40,
)


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A store of each engine whose chains have no end."""
    engine: Engine = request.param
    with world_on(engine, tmp_path_factory.mktemp("lineage"), postgres, LOOSE) as made:
        yield made


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As everywhere, but for fixtures of this module."""
    return "asyncio"


class Shadow:
    """A message as the model knows it."""

    def __init__(self, id_: str, at: int, cause: "Shadow | None") -> None:
        self.id, self.at, self.state = id_, at, "waits"
        self.root: str = cause.root if cause else id_
        self.hop: int = cause.hop + 1 if cause else 0


def cause_in(inbox: list[Shadow], named: str | None, now: int) -> Shadow | None:
    """Of what a message is the consequence: the named one if it was handed out, else the newest at work, else the
    newest that was handled lately."""
    known = [each for each in reversed(inbox) if each.state != "waits"]
    for each in known:
        if each.id == named:
            return each
    for each in known:
        if each.state == "held":
            return each
    return known[0] if known and known[0].at >= now - 600 * SECOND else None


@requirement("M30")
@given(story=STORIES)
@settings(deadline=None)
def test_root_and_hop_of_every_message_are_as_a_shadow_model_says(world: World, story: list[Any]) -> None:
    seats, waited = world.seats(_SEATS), 0
    inboxes: list[list[Shadow]] = [[] for _ in seats]

    def check(place: int, id_: str, cause: Shadow | None) -> Shadow:
        (row,) = world.run(world.reader.list_newest(seats[place], ActivityFilters(), 1))
        made = Shadow(id_, world.clock.now(), cause)
        assert row.id == id_
        assert (row.root_id or row.id, row.hop, row.cause_id) == (made.root, made.hop, cause.id if cause else None)
        return made

    for act, who, whom, number in story:
        inbox, now = inboxes[who], world.clock.now()
        if act == "person":
            id_ = world.run(world.send(seats[who], draft_of(None, "hello", None))).activity_id
            inbox.append(check(who, id_, None))
        elif act in ("send", "named"):
            named = inbox[number % len(inbox)].id if act == "named" and inbox else None
            draft = draft_of(seats[who], "hello", None)
            draft.message["metadata"].update(in_reply_to=named, intent="ack")  # closes and acknowledges nothing
            cause = cause_in(inbox, named, now)
            id_ = world.run(world.send(seats[whom], draft)).activity_id
            inboxes[whom].append(check(whom, id_, cause))
        elif act == "notify":
            parts = [{"kind": "text", "text": "hello"}]
            id_ = world.run(
                world.writer.notify_user(seats[who], UserNotice(parts, None, {"progress": True}))
            ).activity_id
            check(who, id_, cause_in(inbox, None, now))
        elif act == "claim":
            world.run(world.handing.claim(seats[who], lease_seconds=3600, count=2))
            for each in [each for each in inbox if each.state == "waits"][:2]:
                each.state = "held"
        elif act == "ack" and (held := [each for each in inbox if each.state == "held"]):
            done = held[number % len(held)]
            world.run(world.handing.acks.ack_message(seats[who], done.id, 1))
            done.state = "handled"
        elif act == "wait" and waited + 200 * number < 3500:
            waited += 200 * number
            world.run(world.clock.advance(200 * number))


@requirement("M30")
def test_a_body_cannot_choose_its_chain(world: World) -> None:
    one, other = world.seats(2)
    first = world.run(world.send(other, draft_of(None, "hello", None))).activity_id
    for lie in ({"in_reply_to": first}, {"cause_activity_id": [first]}, {"root_id": first, "hop": -5}):
        draft = draft_of(one, "hello", None)
        draft.message["metadata"].update(lie)
        world.run(world.send(other, draft))
        (row,) = world.run(world.reader.list_newest(other, ActivityFilters(), 1))
        assert (row.root_id, row.hop, row.cause_id) == (None, 0, None)


# -- limits, with many at once -----------------------------------------------------------------------------------------


async def frozen_events(world: World, org_id: str) -> list[Any]:
    """What the journal tells of stopped chains."""
    facts = await Journal(world.store).read_after(org_id, 0, 5000)
    return [msgspec.json.decode(fact.payload or "{}") for fact in facts if fact.name == "CHAIN_FROZEN"]


def _crowd(world: World, one: str, other: str, count: int) -> list[Any]:
    """So many messages at the same time; the refusals among the answers."""

    async def all_at_once() -> list[Any]:
        sends = (world.writer.send(other, draft_of(one, f"part {number}", None)) for number in range(count))
        return await asyncio.gather(*sends, return_exceptions=True)

    return [answer for answer in world.run(all_at_once()) if isinstance(answer, BaseException)]


@requirement("M30")
@pytest.mark.parametrize("engine", ENGINES)
def test_of_a_fan_of_more_than_a_thousand_messages_exactly_a_thousand_are_taken(
    engine: Engine, tmp_path: Path, postgres: str
) -> None:
    with world_on(engine, tmp_path, postgres, Limits()) as world:
        one, other = world.seats(2)
        org_id = world.registry.active_workspace(one).org_id
        root = world.run(world.send(one, draft_of(None, "tell everybody", None))).activity_id
        world.run(world.handing.claim(one, lease_seconds=60, count=1))

        refusals = _crowd(world, one, other, 1012)

        assert [type(each) for each in refusals] == [ChainFrozen] * 12
        (told,) = world.run(frozen_events(world, org_id))
        assert told == {"root_id": root, "workspace_id": one, "reason": "messages", "hops": 0, "messages": 1000}
        chain = world.run(world.writer.chains.release(org_id, root, "person:p", 30))
        assert (chain.state, chain.most_messages) == ("released", 1030)
        assert len(_crowd(world, one, other, 40)) == 10
        assert len(world.run(frozen_events(world, org_id))) == 2
        world.run(world.writer.chains.end(org_id, root, "person:p"))
        with pytest.raises(ChainNotFrozen):
            world.run(world.writer.chains.release(org_id, root, "person:p", None))
        assert len(_crowd(world, one, other, 3)) == 3
        assert len(world.run(frozen_events(world, org_id))) == 2


# -- the rules themselves ----------------------------------------------------------------------------------------------

NUMBERS = st.integers(0, 60)


@requirement("M30")
@given(hop=NUMBERS, messages=NUMBERS, talk=NUMBERS, hops=NUMBERS, most=NUMBERS, pingpong=NUMBERS)
def test_a_chain_trips_exactly_where_a_limit_is_passed(
    hop: int, messages: int, talk: int, hops: int, most: int, pingpong: int
) -> None:
    limits = Limits(chain_hops=hops + 1, chain_messages=most + 1, pingpong=pingpong + 1)
    cause = Cause("c", "r", hop, talk, "peer", 0, 1)
    link = rules.next_link(cause, "peer", "thanks", limits)
    assert (link.root_id, link.hop, link.cause_id, link.small_talk) == ("r", hop + 1, "c", talk + 1)
    reason = rules.exceeded_limit(cause, link, messages, 1, limits)
    passed = {"hops": hop > hops, "messages": messages > most, "pingpong": talk > pingpong}
    assert reason == next((name for name, is_passed in passed.items() if is_passed), None)


@requirement("M30")
@given(hops=NUMBERS, messages=NUMBERS, talk=NUMBERS, more=st.none() | st.integers(1, 50))
def test_a_release_never_takes_away_and_allows_so_many_more(
    hops: int, messages: int, talk: int, more: int | None
) -> None:
    most = {"most_hops": 24, "most_messages": 1000, "most_small_talk": 6}
    far = {"hops": hops, "messages": messages, "small_talk": talk}
    place = {"root_id": "r", "org_id": "o", "workspace_id": "w", "state": "frozen", "reason": "hops", "trips": 1}
    new = rules.released_chain(Chain(**place, **far, **most, frozen_at=0), messages, more, Limits())  # type: ignore[arg-type]
    assert new.most_hops == max(24, hops + (more or 24))
    assert new.most_messages == messages + (more or 1000)
    assert new.most_small_talk == max(6, talk + (more or 6))


@pytest.mark.parametrize(
    ("source", "target", "text", "counted"),
    [
        ("peer", "peer", "thanks!", True),
        ("peer", "peer", "thanks, but no", False),
        ("peer", "peer", None, False),
        ("third", "peer", "thanks!", False),
        (None, None, "thanks!", False),
    ],
)
def test_only_small_talk_back_to_whom_it_came_from_counts(
    source: str | None, target: str | None, text: str | None, *, counted: bool
) -> None:
    link = rules.next_link(Cause("c", None, 0, 4, source, 0, 1), target, text, Limits())
    assert link.small_talk == (5 if counted else None)
