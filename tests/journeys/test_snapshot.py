"""The snapshot: its shape, whose it is, and that it and the events behind it are the next snapshot."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import Api, ApiError
from molecule_core.ground.limits import Limits
from molecule_core.org import writer as org_writer
from molecule_core.wire.live import Snapshot, SnapshotChat, SnapshotWorkspace
from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.follow import compared, follow, state_of
from tests.journeys.lag import lagging
from tests.journeys.livewire import all_live, channel, journal_of, token_of
from tests.journeys.patience import bounded, refused
from tests.journeys.seats import beat, remove
from tests.requirements import requirement
from tests.running import Running, Seat, running
from tests.store.changed import changed

# The sweep is called by the test alone: what it changes must not come between two looks.
NO_SWEEP = Limits(sweep_seconds=10_000_000)


async def snapshot_of(server: Running, api: Api | None = None, org_id: str | None = None) -> dict[str, Any]:
    """A snapshot of the first organisation."""
    org_id = org_id or server.server.registry.orgs()[0].id
    found: dict[str, Any] = await bounded((api or server.admin).get(f"/orgs/{org_id}/snapshot"))
    return found


def members(shape: type[Any]) -> set[str]:
    """What a struct of the wire has."""
    return set(shape.__struct_fields__)


# -- what it holds -----------------------------------------------------------------------------------------------------


@requirement("M34")
async def test_a_snapshot_has_the_members_of_the_wire_and_no_others(server: Running) -> None:
    seat = await server.seat("Ops", role="Operations")
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "Ops", "skills": [1]}})
    await beat(seat, active_tasks=3, current_task="sorting", uptime_seconds=5, error_rate=0.2)
    await server.admin.send(seat.id, "hello\n" + "x" * 200)
    token = await token_of(server, "viewer")
    snapshot = await snapshot_of(server, server.api(token))
    assert set(snapshot) == members(Snapshot)
    (workspace,), (chat,) = snapshot["workspaces"], snapshot["chats"]
    assert set(workspace) == members(SnapshotWorkspace)
    assert set(chat) == members(SnapshotChat)
    assert workspace["agent_card"] == {"name": "Ops", "skills": [1]}
    assert (workspace["active_tasks"], workspace["current_task"], workspace["uptime_seconds"]) == (3, "sorting", 5)
    assert workspace["last_error_rate"] == 0.2
    msgspec.convert({**workspace, "agent_card": None}, SnapshotWorkspace)
    msgspec.convert(chat, SnapshotChat)
    assert (chat["unread"], chat["read_seq"], chat["last"]["role"], chat["last"]["seq"]) == (0, 0, "user", 1)
    assert chat["last"]["content"].startswith("hello xxx")
    assert len(chat["last"]["content"]) == 80
    limits = server.server.settings.limits
    told = {name: getattr(limits, name) for name in ("text_bytes", "name_length", "reply_seconds")}
    assert snapshot["limits"] == {**told, "stuck_seconds": limits.delegation_stuck_seconds}
    assert (snapshot["user"]["kind"], snapshot["user"]["role"]) == ("person", "viewer")
    async with channel(server) as opened:
        assert {name: opened.frames[0][name] for name in ("epoch", "protocol")} == {
            name: snapshot[name] for name in ("epoch", "protocol")
        }
        assert snapshot["as_of"] == opened.frames[0]["head"]


@requirement("M34", "S8")
async def test_a_snapshot_shows_one_organisation_to_its_people_alone(server: Running) -> None:
    other = await server.org("Other")
    here, there = await server.seat("Here"), await server.seat("There", org_id=other)
    gone = await server.seat("Gone")
    await server.admin.send(gone.id, "hello")
    await remove(server.admin, gone)
    snapshot = await snapshot_of(server)
    assert [each["id"] for each in snapshot["workspaces"]] == [here.id]
    assert snapshot["chats"] == []
    assert [each["id"] for each in (await snapshot_of(server, org_id=other))["workspaces"]] == [there.id]
    stranger = server.api(await token_of(server, "owner"))
    assert (await refused(snapshot_of(server, stranger, other))).status == 404
    assert (await refused(snapshot_of(server, here.api))).code == "credential_not_accepted"
    assert (await refused(snapshot_of(server, server.api()))).status == 401


@requirement("M34")
async def test_a_snapshot_of_an_empty_organisation_is_empty(server: Running) -> None:
    snapshot = await snapshot_of(server)
    assert (snapshot["as_of"], snapshot["workspaces"], snapshot["chats"]) == (0, [], [])


# -- old snapshot + its events == new snapshot -------------------------------------------------------------------------


class Story:
    """Random verbs of all writers, and the snapshots that somebody took meanwhile."""

    def __init__(self, server: Running, clock: FakeClock, seed: int) -> None:
        self.server = server
        self.clock = clock
        self.dice = random.Random(seed)
        self.seats: list[Seat] = []
        self.told: set[str] = set()
        self.marks: list[tuple[str, int, int]] = []
        self.taken: list[tuple[int, dict[str, Any]]] = []
        self.reader: Api

    async def begin(self) -> None:
        """Two seats and the person who looks."""
        self.reader = self.server.api(await token_of(self.server))
        for _ in range(2):
            await self.create(None)
        await self.look()

    async def look(self) -> None:
        """Takes a snapshot."""
        self.taken.append((len(self.marks), await snapshot_of(self.server, self.reader)))

    async def go_on(self, count: int) -> None:
        """Random verbs."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.create,
            self.change,
            self.register,
            self.update_card,
            self.heartbeat,
            self.fall_silent,
            self.ask,
            self.ask,
            self.notify,
            self.notify,
            self.log,
            self.talk,
            self.mark,
            self.take,
            self.take,
            self.say_outside,
            self.move,
            self.put_aside,
            self.expand,
            self.rotate,
        ]
        for _ in range(count):
            verb = self.dice.choice(verbs)
            self.told.add(verb.__name__)
            await verb(self.dice.choice(self.seats))
            await self.clock.advance(self.dice.choice([0, 0.001, 7]))
            if self.dice.random() < 0.15:
                await self.look()
            if self.dice.random() < 0.06 and len(self.seats) > 2:
                await self.remove(self.dice.choice(self.seats))

    async def create(self, parent: Seat | None) -> None:
        parent_id = parent.id if parent is not None and self.dice.random() < 0.3 else None
        external = self.dice.random() < 0.5
        self.seats.append(await self.server.seat("Seat", parent_id=parent_id, external=external))

    async def change(self, seat: Seat) -> None:
        name, value = self.dice.choice([("name", "Seat"), ("role", None), ("tier", 3), ("collapsed", True), ("x", 1.5)])
        await self.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={name: value})

    async def remove(self, seat: Seat) -> None:
        gone = await remove(self.server.admin, seat)
        ids = {each["id"] for each in gone["removed"]}
        self.seats = [each for each in self.seats if each.id not in ids]
        if not self.seats:
            await self.create(None)

    async def move(self, seat: Seat) -> None:
        """Anywhere; often with a change of something else, often to where it may not stand."""
        more = self.dice.choice([{}, {}, {"role": "moved"}, {"name": "Seat"}])
        parent_id = self.dice.choice([None, *(each.id for each in self.seats)])
        with contextlib.suppress(ApiError):
            await self.server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"parent_id": parent_id, **more})

    async def put_aside(self, seat: Seat) -> None:
        with contextlib.suppress(ApiError):
            await self.server.admin.post(f"/workspaces/{seat.id}/{self.dice.choice(['pause', 'hibernate', 'resume'])}")

    async def expand(self, seat: Seat) -> None:
        """A team comes, and sometimes goes again with all that was there before."""
        team = {"children": [{"name": "Seat", "children": [{"name": "Member"}]}]}
        await self.server.admin.post(f"/workspaces/{seat.id}/expand", team)
        if self.dice.random() < 0.4:
            await self.look()
            gone = await self.server.admin.post(f"/workspaces/{seat.id}/collapse", confirm="true")
            self.seats = [each for each in self.seats if each.id not in gone["removed_ids"]]

    async def rotate(self, seat: Seat) -> None:
        await self.server.admin.post(f"/workspaces/{seat.id}/external/rotate", {"grace_seconds": 3600})

    async def register(self, seat: Seat) -> None:
        card = self.dice.choice([{"name": "A"}, {"name": "B"}, None])
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})

    async def update_card(self, seat: Seat) -> None:
        card = {"name": "C", "n": self.dice.randrange(3)}
        await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})

    async def heartbeat(self, seat: Seat) -> None:
        rate = self.dice.choice([0.0, 0.05, 0.3, 0.5, 0.9])
        await beat(seat, error_rate=rate, current_task=str(rate), active_tasks=self.dice.randrange(4))

    async def fall_silent(self, _seat: Seat) -> None:
        await self.clock.advance(100)
        await self.server.server._org.sweep("")

    async def ask(self, seat: Seat) -> None:
        text = self.dice.choice(["hello", "two\nlines", "x" * 100, " spaces   within ", "é" * 90])
        await self.server.admin.send(seat.id, text)

    async def notify(self, seat: Seat) -> None:
        text = self.dice.choice(["done", "two\n\nlines", "y" * 500, "a " * 60])
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})

    async def log(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log", "summary": "worked"})

    async def talk(self, seat: Seat) -> None:
        await seat.api.send(seat.id, "to myself")

    async def take(self, seat: Seat) -> None:
        """Mail that may wait for its answer from then on."""
        for row in await seat.api.claim(seat.id, wait=0):
            await seat.api.ack(seat.id, row)

    async def say_outside(self, seat: Seat) -> None:
        """Drafts, which a person sends, discards or leaves where they are."""
        await self.ask(seat)
        await self.take(seat)
        page = await seat.api.get(f"/workspaces/{seat.id}/obligations")
        for owed in page["obligations"]:
            draft = f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft"
            await seat.api.post(draft, {"text": "said outside"})
            if verb := self.dice.choice(["send", "discard", None, None]):
                await self.server.admin.post(f"{draft}/{verb}")

    async def mark(self, seat: Seat) -> None:
        """The person reads. No event tells it: the page that marks knows, so the test applies it as the page does."""
        for chat in (await snapshot_of(self.server, self.reader))["chats"]:
            if chat["workspace_id"] == seat.id:
                await self.reader.post(f"/workspaces/{seat.id}/chat/read", {"seq": chat["last"]["seq"]})
                as_of = (await snapshot_of(self.server, self.reader))["as_of"]
                self.marks.append((seat.id, chat["last"]["seq"], as_of))


def read(state: dict[str, Any], marks: list[tuple[str, int, int]], events: list[dict[str, Any]]) -> dict[str, Any]:
    """A state after events and the person's own marks, each at its place between them."""
    for workspace_id, seq, as_of in marks:
        state = follow(state, [event for event in events if event["seq"] <= as_of])
        chat = state["chats"].get(workspace_id)
        if chat is not None:  # it begins with an event, which a control leaves out
            chat.update(read_seq=max(chat["read_seq"], seq), unread=0)
    return follow(state, events)


UNSEEN = ("ACTIVITY_LOGGED", "WORKSPACE_EXPANDED", "WORKSPACE_COLLAPSED", "EXTERNAL_CREDENTIALS_ROTATED")
"""Events that change nothing in a snapshot that no other event changes."""


async def told_story(
    server: Running, clock: FakeClock, seed: int
) -> tuple[Story, dict[str, Any], list[dict[str, Any]]]:
    """A story, its end as a snapshot shows it, and all events."""
    story = Story(server, clock, seed)
    await story.begin()
    await story.go_on(60)
    end = await snapshot_of(server, story.reader)
    return story, state_of(end), await journal_of(server)


def differences(story: Story, end: dict[str, Any], events: list[dict[str, Any]]) -> int:
    """How many of the snapshots do not become the last one by their events."""
    found = 0
    for count, snapshot in story.taken:
        behind = [event for event in events if event["seq"] > snapshot["as_of"]]
        found += compared(read(state_of(snapshot), story.marks[count:], behind)) != compared(end)
    return found


@requirement("M34")
@pytest.mark.parametrize("seed", range(6))
async def test_an_old_snapshot_and_its_events_are_the_new_snapshot(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=NO_SWEEP) as server:
        story, end, events = await told_story(server, clock, seed)
        assert len(story.taken) > 3
        for count, snapshot in story.taken:
            behind = [event for event in events if event["seq"] > snapshot["as_of"]]
            assert compared(read(state_of(snapshot), story.marks[count:], behind)) == compared(end)
        # Events that are in a snapshot already change nothing when they are told again.
        for _, snapshot in story.taken:
            state = state_of(snapshot)
            assert follow(state, [event for event in events if event["seq"] <= snapshot["as_of"]]) == state


@requirement("M34")
async def test_the_stories_use_every_verb_and_every_event(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    verbs: set[str] = set()
    names: set[str] = set()
    async with running(engine, place, tmp_path, clock=clock, limits=NO_SWEEP) as server:
        for seed in range(4):
            story = Story(server, clock, seed)
            await story.begin()
            await story.go_on(60)
            verbs |= story.told
        names = {event["event"] for event in await journal_of(server)}
    assert len(verbs) == 17
    assert {"MESSAGE_TICK", "MESSAGE_OVERDUE", "MESSAGE_DRAFTED"} <= names
    assert len(names) >= 19, names


@requirement("M34")
async def test_a_story_with_one_event_dropped_does_not_end_the_same(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The control: without the last event of a workspace or a chat, some snapshot becomes something else."""
    async with running(engine, place, tmp_path, clock=clock, limits=NO_SWEEP) as server:
        story, end, events = await told_story(server, clock, 1)
    assert differences(story, end, events) == 0
    shown = [event for event in events if event["event"] not in UNSEEN]
    last = {(event["entity"]["kind"], event["workspace_id"]): event for event in shown if event["seq"] > _first(story)}
    # What was said in a chat that is gone with its workspace shows nowhere.
    alive = [event for (kind, of), event in last.items() if kind == "workspace" or of in end["workspaces"]]
    assert len(alive) > 5
    for dropped in alive:
        rest = [event for event in events if event is not dropped]
        assert differences(story, end, rest) > 0, dropped


def _first(story: Story) -> int:
    return int(story.taken[0][1]["as_of"])


@requirement("M34")
async def test_a_change_that_is_not_journaled_is_noticed(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the product with one event left out."""
    line = "wanted)\n                events.append("
    planted = changed(org_writer, (line, line.replace("events.append(", "str(")))
    monkeypatch.setattr("molecule_core.server.OrgWriter", planted.OrgWriter)
    async with running(engine, place, tmp_path, clock=clock, limits=NO_SWEEP) as server:
        story, end, events = await told_story(server, clock, 4)
    assert differences(story, end, events) > 0


@requirement("M34")
async def test_what_heartbeats_tell_is_made_good_by_the_next_one(server: Running) -> None:
    """What the comparison above leaves out: a page that is live knows it from the broadcast."""
    seat = await server.seat("Ops")
    await beat(seat)
    old = state_of(await snapshot_of(server))
    async with channel(server) as opened:
        await all_live(server)
        await beat(seat, active_tasks=4, current_task="sorting", uptime_seconds=9)
        heard = [await opened.frame() for _ in range(2)]
        workspace = old["workspaces"][seat.id]
        for frame in heard:
            workspace.update(frame["payload"])
    new = state_of(await snapshot_of(server))["workspaces"][seat.id]
    assert {**workspace, "updated_at": ""} == {**new, "updated_at": ""}


@requirement("M34")
async def test_a_snapshot_is_never_ahead_of_what_it_shows(
    engine: Engine, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a commit and the tree in memory: what is not in the snapshot has to come behind its `as_of`."""
    async with lagging(engine, place, tmp_path, monkeypatch) as (server, lag):
        seat = await server.seat("Before")
        taken: list[dict[str, Any]] = []

        async def look() -> None:
            taken.append(await snapshot_of(server))

        lag.then = look
        await server.seat("Made")
        lag.then = look
        await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": "changed"})
        lag.then = look
        await remove(server.admin, seat)
        events = await journal_of(server)
        end = state_of(await snapshot_of(server))
    assert lag.happened
    assert len(taken) == 3
    for snapshot in taken:
        assert compared(follow(state_of(snapshot), events)) == compared(end)
