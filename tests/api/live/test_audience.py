"""Who is told what: random trees and acts against a shadow model written from the spec, live and by resume."""

import contextlib
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from molecule_core.client.api import ApiError
from molecule_core.views.feed import Audience
from testing.engines import Engine
from testing.live_clients import UPGRADE, Bye, Channel, all_live, channel, check_chain, hand_made, token_of, told
from testing.running_server import ADMIN_TOKEN, Running, Seat
from testing.waits import bounded
from testing.workspaces import beat, remove
from tests.requirements import requirement
from tests.views.delayed_commits import lagging, woken_early

# Events of these names are for peers (docs/reference/events.md).
PEERS_SEE = ("WORKSPACE_", "AGENT_CARD_UPDATED")


class Planned(NamedTuple):
    """An organisation of the shadow model: who sits below whom."""

    id: str
    skips: bool
    parents: dict[str, str | None]

    def above(self, workspace_id: str) -> set[str]:
        """All ancestors."""
        found: set[str] = set()
        parent = self.parents[workspace_id]
        while parent is not None:
            found.add(parent)
            parent = self.parents[parent]
        return found

    def may_talk(self, one: str, other: str) -> bool:
        """The rule of `org/rules.py`: itself, parent, children, siblings; with skip-level ancestors and descendants."""
        if one not in self.parents or other not in self.parents:
            return False
        if one == other or self.parents[one] == self.parents[other]:
            return True
        if other == self.parents[one] or one == self.parents[other]:
            return True
        return self.skips and (other in self.above(one) or one in self.above(other))

    def shows(self, workspace_id: str, event: dict[str, Any]) -> bool:
        """Whether a workspace is told an event of this organisation."""
        if event["workspace_id"] == workspace_id:
            return True
        return event["event"].startswith(PEERS_SEE) and self.may_talk(workspace_id, event["workspace_id"])


class World(NamedTuple):
    """Organisations, their seats and everybody's open channel."""

    server: Running
    orgs: list[Planned]
    seats: dict[str, list[Seat]]
    persons: dict[str, str]
    channels: dict[str, Channel]


async def world_of(server: Running, dice: random.Random, stack: contextlib.AsyncExitStack) -> World:
    """Two or three organisations of random trees; a channel for each workspace and for a person of each."""
    world = World(server, [], {}, {}, {})
    for number in range(dice.randint(2, 3)):
        skips = number == 0
        answer = await server.admin.post("/orgs", {"name": f"Org {number}", "allow_skip_level": skips})
        org = Planned(answer["id"], skips, {})
        world.orgs.append(org)
        seats = world.seats[org.id] = []
        for count in range(dice.randint(4, 6)):
            parent = dice.choice([None, *(seat.id for seat in seats)]) if count else None
            seat = await server.seat(f"Seat {count}", org_id=org.id, parent_id=parent)
            seats.append(seat)
            org.parents[seat.id] = parent
        world.persons[org.id] = await token_of(server, "viewer", org.id)
    for org in world.orgs:
        callers = {org.id: world.persons[org.id], **{seat.id: seat.token for seat in world.seats[org.id]}}
        for name, token in callers.items():
            world.channels[name] = await stack.enter_async_context(channel(server, token))
    return world


async def act(world: World, dice: random.Random) -> None:
    """Something that somebody does."""
    org = dice.choice(world.orgs)
    seat, other = dice.choice(world.seats[org.id]), dice.choice(world.seats[org.id])
    choice = dice.randrange(8)
    if choice == 0:
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": str(dice.random())}})
    elif choice == 1:
        await beat(seat, error_rate=dice.choice([0.0, 0.9]), current_task=str(dice.random()))
    elif choice == 2:
        await world.server.admin.send(seat.id, "from a person")
    elif choice == 3:
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "to the user"})
    elif choice == 4:
        await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log", "summary": "worked"})
    elif choice == 5:
        await world.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": str(dice.random())})
    elif choice == 6 and org.may_talk(seat.id, other.id):
        await seat.api.send(other.id, "from a peer")
    else:
        new = await world.server.seat("New", org_id=org.id, parent_id=seat.id)
        org.parents[new.id] = seat.id


@requirement("M24", "M32", "S8")
@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("seed", range(3))
async def test_everybody_is_told_what_the_spec_lets_them_see_and_nothing_else(
    server: Running, monkeypatch: pytest.MonkeyPatch, seed: int, few: int
) -> None:
    """However many listen: a crowd is found by the neighbours of a workspace, a few by themselves."""
    monkeypatch.setattr("molecule_core.api.live.hub._YIELD_THRESHOLD", few)
    dice = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        world = await world_of(server, dice, stack)
        for _ in range(40):
            await act(world, dice)
        assert all(len(org.parents) > 1 for org in world.orgs)
        for org in world.orgs:
            await _check_org(world, org)


async def _check_org(world: World, org: Planned) -> None:
    """A mark for each workspace ends what it was told; then a person's view is the journal to compare with."""
    marks = {seat.id: await _mark(world.server, seat) for seat in world.seats[org.id]}
    person = world.channels[org.id]
    start = person.frames[0]["head"]
    journal = await _upto(person, list(marks.values())[-1])
    check_chain(journal, start)
    assert [event["seq"] for event in journal] == list(range(start + 1, start + 1 + len(journal)))
    await person.subscribe(0)
    await person.control("resumed")
    everything = await _upto(person, list(marks.values())[-1])
    assert told(everything)[start:] == told(journal)
    told_of = {event["workspace_id"] for event in everything if event["event"] != "PEOPLE_CHANGED"}
    assert told_of == set(org.parents)
    for seat in world.seats[org.id]:
        own = world.channels[seat.id]
        head = own.frames[0]["head"]
        upto = [event["entity"]["id"] for event in everything].index(marks[seat.id]) + 1
        allowed = [event for event in everything[:upto] if org.shows(seat.id, event)]
        live = await _upto(own, marks[seat.id])
        check_chain(live, head)
        assert told(live) == told([event for event in allowed if event["seq"] > head])
        await own.subscribe(0)
        await own.control("resumed")
        again = await _upto(own, marks[seat.id])
        check_chain(again, 0)
        assert told(again) == told(allowed)
        for frame in own.frames:
            if "event" in frame and "seq" not in frame:
                assert org.may_talk(seat.id, frame["workspace_id"])
                assert frame["event"] == "WORKSPACE_HEARTBEAT" or frame["workspace_id"] == seat.id


async def _mark(server: Running, seat: Seat) -> str:
    return str((await server.admin.send(seat.id, "the last one"))["activity_id"])


async def _upto(opened: Channel, activity_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or events[-1]["entity"]["id"] != activity_id:
        events.append(await opened.event())
    return events


# -- removal -----------------------------------------------------------------------------------------------------------


@requirement("M24", "M3")
@pytest.mark.parametrize("few", [0, 1000])
async def test_a_removed_workspace_is_told_so_last_and_its_peers_too(
    server: Running, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("molecule_core.api.live.hub._YIELD_THRESHOLD", few)
    lead = await server.seat("Lead")
    gone = await server.seat("Gone", parent_id=lead.id)
    below = await server.seat("Below", parent_id=gone.id)
    async with (
        channel(server, gone.token) as own,
        channel(server, below.token) as child,
        channel(server, lead.token) as peer,
        channel(server) as person,
    ):
        await remove(server.admin, gone)
        assert await own.bye() == Bye(4001, "workspace removed")
        assert await child.bye() == Bye(4001, "workspace removed")
        removed = {gone.id, below.id}
        assert {(await person.event())["workspace_id"] for _ in range(2)} == removed
        event = await peer.event()
        assert (event["event"], event["workspace_id"]) == ("WORKSPACE_REMOVED", gone.id)
        await server.admin.send(lead.id, "still there")
        assert (await peer.event())["event"] == "USER_MESSAGE"
    for opened in (own, child):
        assert opened.frames[-1]["event"] == "WORKSPACE_REMOVED"
    removals = [frame["workspace_id"] for frame in own.frames if frame.get("event") == "WORKSPACE_REMOVED"]
    assert removals == [below.id, gone.id]  # its child went first, and it was still there to hear it
    assert child.frames[-1]["workspace_id"] in removed


@requirement("M24", "M3")
async def test_a_workspace_that_is_removed_while_its_channel_opens_is_cut_too(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await server.seat("Lead")
    gone = await server.seat("Gone", parent_id=lead.id)
    await gone.api.get(f"/workspaces/{gone.id}")  # its token is known from here on
    rows, armed = server.server.store.rows, True

    async def removing(name: str, params: Any) -> Any:
        nonlocal armed
        if name == "last_event" and armed:
            armed = False
            await remove(server.admin, gone)
        return await rows(name, params)

    monkeypatch.setattr(server.server.store, "rows", removing)
    async with _opening(server, gone.token) as own:
        assert own is None or (await own.bye()).code == 4001


@contextlib.asynccontextmanager
async def _opening(server: Running, token: str) -> AsyncIterator[Channel | None]:
    """A channel, or None if it was refused."""
    from websockets.exceptions import InvalidStatus

    try:
        async with channel(server, token) as opened:
            yield opened
    except InvalidStatus as error:
        assert error.response.status_code == 410
        yield None


# -- who comes while a seat is made ------------------------------------------------------------------------------------


@requirement("M24", "M32")
async def test_a_peer_that_is_made_during_a_resume_is_told_about(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who the peers are, and how far the journal reaches, are two looks: what happens between them is not lost."""
    one = await server.seat("One")
    feed, armed = server.server.live_hub._feed, True
    after = feed.read_after

    async def making(scope: Audience, *place: int) -> Any:
        nonlocal armed
        if armed and scope.workspace_id is not None:
            armed = False
            await server.seat("Made meanwhile")
        return await after(scope, *place)

    async with channel(server, one.token) as opened:
        await all_live(server)
        monkeypatch.setattr(feed, "read_after", making)
        await opened.subscribe(0)
        await opened.control("resumed")
        await server.admin.send(one.id, "mark")
        seen = [await opened.event()]
        while seen[-1]["event"] != "USER_MESSAGE":
            seen.append(await opened.event())
    assert not armed
    names = [event["payload"]["name"] for event in seen if event["event"] == "WORKSPACE_PROVISIONING"]
    assert names == ["One", "Made meanwhile"]


@requirement("M24", "M32")
async def test_a_peer_is_told_about_even_if_the_tree_in_memory_lags_behind_the_journal(
    engine: Engine, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit comes the tree in memory: whoever reads the journal in between must not draw on the old tree."""
    async with lagging(engine, place, tmp_path, monkeypatch) as (server, lag):
        one = await server.seat("One")
        async with channel(server, one.token) as opened, channel(server) as person:
            lag.then = partial(woken_early, server)
            await bounded(server.seat("Other"))
            await server.admin.send(one.id, "mark")
            await person.event("USER_MESSAGE")
            names = [(await opened.event())["event"] for _ in range(2)]
    assert lag.happened
    assert names == ["WORKSPACE_PROVISIONING", "USER_MESSAGE"]


@requirement("S8")
async def test_an_organisation_of_others_answers_as_one_that_is_not_there(server: Running) -> None:
    other = await server.org("Other")
    token = await token_of(server, "owner")
    unknown = "01900000-0000-7000-8000-00000000beef"
    api = server.api(token)
    answers = []
    for org_id in (other, unknown):
        with pytest.raises(ApiError) as refused:
            await api.get(f"/orgs/{org_id}/snapshot")
        answers.append(refused.value.problem)
    assert answers[0] == answers[1]
    assert answers[0]["code"] == "not_found"
    for path, headers in (("/events/stream", {}), ("/ws", UPGRADE)):
        async with hand_made(server) as opened_by:
            reply = await opened_by.ask("GET", f"{path}?org_id={unknown}", token=ADMIN_TOKEN, headers=headers)
            assert (reply.status, reply.json["code"]) == (404, "not_found")
    async with channel(server, token, query=f"?org_id={other}") as opened:
        assert opened.frames[0]["org_id"] != other
