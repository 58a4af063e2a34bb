"""The snapshot: its shape, whose it is, and that it and the events behind it are the next snapshot."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.org import writer as org_writer
from molecule_core.wire.schemas.live import Snapshot, SnapshotChat, SnapshotWorkspace
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import all_live, channel, journal_of, token_of
from testing.random_histories import NO_SWEEP, UNSEEN, Story, differences, read, snapshot_of, told_story
from testing.running_server import Running, running
from testing.snapshot_follower import compared, follow, state_of
from testing.waits import refused
from testing.workspaces import beat, remove
from tests.requirements import requirement
from tests.store.mutated_modules import WITHOUT_EVENT, changed
from tests.views.delayed_commits import lagging


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
    assert (chat["unread"], chat["read_seq"], chat["last"]["role"], chat["last"]["seq"]) == (0, 1, "user", 1)
    assert chat["last"]["content"].startswith("hello xxx")
    assert len(chat["last"]["content"]) == 80
    limits = server.server.settings.limits
    told = {name: getattr(limits, name) for name in ("text_bytes", "name_length", "reply_seconds", "grace_seconds")}
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
    planted = changed(org_writer, WITHOUT_EVENT)
    monkeypatch.setattr("molecule_core.server.composition.OrgWriter", planted.OrgWriter)
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
