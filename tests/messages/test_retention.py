"""Retention: only what is old and settled goes, numbers and cursors go on, and who watches sees no hole."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from molecule_core.common.clock import DAY
from molecule_core.common.limits import Limits
from molecule_core.store.retention import RetentionWorker
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import channel, journal_of, streaming, token_of
from testing.random_histories import snapshot_of
from testing.running_server import Running, Seat, running
from testing.snapshot_follower import compared, follow, state_of
from testing.waits import IN_PROCESS_SECONDS, eventually, refused
from testing.workspaces import remove
from tests.requirements import requirement
from tests.store.instrumented_store import seen_from_outside

DAY_SECONDS = DAY // 1_000_000
# Small batches, so that every round has several; a sweep changes nothing in between, and nobody watches for answers, so
# that what is acked may go.
LIMITS = Limits(
    retention_batch=3,
    sweep_seconds=10_000_000,
    prune_seconds=1_000_000_000,
    silence_seconds=10_000_000,
    reply_seconds=0,
)


class Ground(NamedTuple):
    """A server whose time only the test moves, and a look into its store."""

    server: Running
    clock: FakeClock
    engine: Engine
    place: str

    @property
    def retention(self) -> RetentionWorker:
        return self.server.server._retention

    async def round(self) -> dict[str, int]:
        """One whole round that begins now; what was deleted. (The first of the two ends what is under way.)"""
        before = dict(self.retention.deleted_rows)
        for _ in range(2):
            done = self.retention.rounds
            await self.retention.schedule_round(0)
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                while self.retention.rounds == done:
                    await self.clock.advance(0.1)
        after = self.retention.deleted_rows
        return {what: count - before[what] for what, count in after.items() if count > before[what]}

    async def seen(self, sql: str) -> list[tuple[Any, ...]]:
        return await seen_from_outside(self.engine, self.place, sql)

    async def rows(self, seat: Seat) -> list[int]:
        found = await self.seen(f"SELECT seq FROM activities WHERE workspace_id = '{seat.id}' ORDER BY seq")  # noqa: S608
        return [row[0] for row in found]

    async def say(self, seat: Seat, text: str = "hello", message_id: str | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = await self.server.admin.send(seat.id, text, message_id=message_id)
        return answer

    async def answer(self, seat: Seat, text: str = "done") -> None:
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})

    async def ack(self, seat: Seat, **body: Any) -> int:
        return int((await seat.api.post(f"/workspaces/{seat.id}/activity/ack", body))["last_acked_seq"])


@pytest.fixture
async def ground(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Ground]:
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        ground = Ground(server, clock, engine, place)
        await ground.round()
        yield ground


# -- what goes and what stays ------------------------------------------------------------------------------------------


@requirement("M20")
async def test_what_is_old_and_acked_goes_and_what_was_never_acked_stays_for_ever(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    for _ in range(10):
        await ground.say(seat)
    assert await ground.ack(seat, acked_seq=7) == 7
    assert await ground.round() == {}
    await ground.clock.advance(6 * DAY_SECONDS)
    assert (await ground.round()).get("messages", 0) == 0
    await ground.clock.advance(2 * DAY_SECONDS)

    assert (await ground.round())["messages"] == 7
    assert await ground.rows(seat) == [8, 9, 10]
    await ground.clock.advance(1000 * DAY_SECONDS)
    await ground.round()
    assert await ground.rows(seat) == [8, 9, 10]

    assert [row["seq"] for row in await seat.api.claim(seat.id, wait=0)] == [8, 9, 10]


@requirement("M20")
async def test_what_a_workspace_did_itself_goes_when_it_is_old(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    await ground.say(seat)
    for _ in range(4):
        await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log", "summary": "x"})
        await ground.answer(seat)
    await ground.clock.advance(8 * DAY_SECONDS)
    await ground.round()
    assert await ground.rows(seat) == [1, 9]  # not acked; the newest


@requirement("M20", "M18")
async def test_a_message_that_was_acked_alone_stays_until_those_before_it_are_handled(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    ids = [(await ground.say(seat))["activity_id"] for _ in range(6)]
    await ground.clock.advance(8 * DAY_SECONDS)
    assert await ground.ack(seat, activity_id=ids[2]) == 0
    await ground.round()
    assert await ground.rows(seat) == [1, 2, 3, 4, 5, 6]
    assert await ground.ack(seat, acked_seq=2) == 3
    await ground.round()
    assert await ground.rows(seat) == [4, 5, 6]
    assert [row["seq"] for row in await seat.api.claim(seat.id, wait=0)] == [4, 5, 6]


@requirement("M20", "O2")
async def test_zero_days_keep_everything_for_ever(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(retention_days=0)) as server:
        ground = Ground(server, clock, engine, place)
        seat = await server.seat("Ops")
        for _ in range(3):
            await ground.say(seat)
        await ground.ack(seat, acked_seq=3)
        clock.at += 10_000 * DAY
        assert await ground.round() == {}
        assert await ground.rows(seat) == [1, 2, 3]
        asked = await server.admin.post("/admin/prune", dry_run="true")
        assert asked == {"dry_run": True, "before": None, "rows": {}}


@requirement("M20", "M16", "M31")
async def test_numbers_go_on_after_everything_else_has_gone_also_after_a_restart(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        ground = Ground(server, clock, engine, place)
        seat = await server.seat("Ops")
        for _ in range(5):
            await ground.say(seat)
        await ground.answer(seat)
        await ground.ack(seat, acked_seq=6)
        ((head,),) = await ground.seen("SELECT max(seq) FROM events")
        await clock.advance(9 * DAY_SECONDS)
        await ground.round()
        assert await ground.rows(seat) == [5, 6]
        assert [row[0] for row in await ground.seen("SELECT seq FROM events ORDER BY seq")][:1] == [head]
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        ground = Ground(server, clock, engine, place)
        await server.admin.send(seat.id, "more")
        ((seq, inbound_no),) = await ground.seen("SELECT seq, inbound_no FROM activities ORDER BY seq DESC LIMIT 1")
        assert (seq, inbound_no) == (7, 6)
        numbers = [row[0] for row in await ground.seen("SELECT seq FROM events ORDER BY seq")]
        assert numbers == list(range(head, numbers[-1] + 1))
        fresh = server.api(seat.token)
        assert [row["seq"] for row in await fresh.claim(seat.id, wait=0)] == [7]


@requirement("M20", "M17")
async def test_a_pruned_cursor_answers_410_and_the_newest_still_works(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    ids = [(await ground.say(seat))["activity_id"] for _ in range(4)]
    await ground.ack(seat, acked_seq=4)
    await ground.clock.advance(8 * DAY_SECONDS)
    await ground.round()
    path = f"/workspaces/{seat.id}/activity"
    gone = await refused(seat.api.get(path, since_id=ids[0]))
    assert (gone.status, gone.code) == (410, "cursor_gone")
    assert await seat.api.get(path, since_id=ids[3]) == []
    await ground.say(seat)
    assert [row["seq"] for row in await seat.api.get(path, since_id=ids[3])] == [5]


@requirement("M20", "M13")
async def test_an_id_counts_as_used_as_long_as_its_message_is_kept(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    first = await ground.say(seat, "one", "m-1")
    await ground.say(seat, "two", "m-2")
    await ground.ack(seat, acked_seq=1)
    assert (await ground.say(seat, "one", "m-1"))["activity_id"] == first["activity_id"]
    await ground.clock.advance(8 * DAY_SECONDS)
    await ground.round()
    assert (await ground.say(seat, "one", "m-1"))["activity_id"] != first["activity_id"]
    assert (await refused(ground.say(seat, "another", "m-2"))).status == 409


@requirement("M20")
async def test_a_removed_workspace_leaves_only_the_knowledge_that_it_was(ground: Ground) -> None:
    seat, other = await ground.server.seat("Gone"), await ground.server.seat("Stays")
    for _ in range(7):
        await ground.say(seat)
    await ground.answer(seat)
    reader = ground.server.api(await token_of(ground.server))
    await reader.post(f"/workspaces/{seat.id}/chat/read", {"seq": 8})
    await seat.api.claim(seat.id, wait=0)
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, "current_task": "a secret plan"})
    await ground.server.server.org_writer.sweep_silent_agents("")
    await remove(ground.server.admin, seat)
    await ground.round()
    assert len(await ground.rows(seat)) == 8
    await ground.clock.advance(8 * DAY_SECONDS)
    gone = await ground.round()
    assert gone["messages of removed workspaces"] == 8
    assert gone["heartbeats of removed workspaces"] == 1
    for table in ("activities", "inboxes", "handouts", "read_marks", "heartbeats"):
        assert await ground.seen(f"SELECT * FROM {table} WHERE workspace_id = '{seat.id}'") == []  # noqa: S608
    assert (await refused(seat.api.claim(seat.id, wait=0))).status == 410
    assert (await ground.round()).get("messages of removed workspaces", 0) == 0
    await ground.say(other)


@requirement("M20", "M7")
async def test_spent_credentials_go_and_those_that_open_something_stay(ground: Ground) -> None:
    server = ground.server
    org = server.server.registry.orgs()[0].id
    await server.person()
    for _ in range(5):
        await server.admin.post(f"/orgs/{org}/login-links", {})
    await ground.clock.advance(DAY_SECONDS)
    assert (await ground.round()).get("login links", 0) == 0
    await ground.clock.advance(8 * DAY_SECONDS)
    assert (await ground.round())["login links"] == 5
    assert await ground.seen("SELECT count(*) FROM person_tokens") == [(1,)]
    await ground.clock.advance(100 * DAY_SECONDS)
    assert (await ground.round())["tokens of persons"] == 1


@requirement("M20", "M7")
async def test_tokens_that_were_rotated_out_and_invitations_that_let_nobody_in_go(ground: Ground) -> None:
    """A token that is in use stays, and so does that of a removed workspace, which says that it is gone."""
    server = ground.server
    org = server.server.registry.orgs()[0].id
    seat, gone = await server.seat("Ops"), await server.seat("Gone")
    for name in ("Ada", "Ben"):
        await server.admin.post(f"/orgs/{org}/invitations", {"name": name, "role": "viewer"})
    answer = await server.admin.post(f"/workspaces/{seat.id}/external/rotate", {"grace_seconds": 60})
    fresh = server.api(answer["connection"]["auth_token"])
    await remove(server.admin, gone)
    await ground.clock.advance(DAY_SECONDS)
    counts = await ground.round()
    assert (counts.get("tokens of workspaces", 0), counts.get("invitations", 0)) == (0, 0)
    await ground.clock.advance(30 * DAY_SECONDS)
    counts = await ground.round()
    assert (counts["tokens of workspaces"], counts["invitations"]) == (1, 2)
    assert await ground.seen("SELECT count(*) FROM invitations") == [(0,)]
    assert await fresh.claim(seat.id, wait=0) == []
    assert [(await refused(each.api.claim(each.id, wait=0))).status for each in (seat, gone)] == [401, 410]


@requirement("M20", "M14")
async def test_secrets_of_pushes_that_were_rotated_out_go_and_the_current_one_stays(ground: Ground) -> None:
    server = ground.server
    seat = await server.seat("Ops")
    for _ in range(2):
        await server.admin.post(f"/workspaces/{seat.id}/push-secret/rotate", {"grace_seconds": 60})
    await ground.clock.advance(30 * DAY_SECONDS)
    assert (await ground.round())["secrets of pushes"] == 1
    assert await ground.seen("SELECT count(*) FROM push_secrets WHERE ends_at IS NULL") == [(1,)]
    assert await ground.seen("SELECT count(*) FROM push_secrets") == [(1,)]


# -- who watches -------------------------------------------------------------------------------------------------------


@requirement("M20", "M24", "M31")
async def test_who_was_away_for_too_long_is_told_to_load_a_snapshot(ground: Ground) -> None:
    server, seat = ground.server, await ground.server.seat("Ops")
    for _ in range(6):
        await ground.say(seat)
    async with channel(server) as opened:
        assert (opened.frames[0]["oldest"], opened.frames[0]["head"]) == (1, 7)
    await ground.clock.advance(8 * DAY_SECONDS)
    await ground.say(seat)
    await ground.say(seat)
    await ground.round()
    async with channel(server) as opened:
        hello = opened.frames[0]
        oldest, head = hello["oldest"], hello["head"]
        assert (oldest, head) == (8, 9)
        await opened.subscribe(oldest - 2)
        assert await opened.control() == {"type": "snapshot_required", "reason": "pruned"}
        await opened.subscribe(oldest - 1)
        assert await opened.control() == {"type": "resumed", "after": oldest - 1, "upto": head, "count": 2}
        assert [event["seq"] for event in await opened.upto(head)] == [8, 9]
        await opened.subscribe(head)
        assert (await opened.control())["type"] == "current"
    epoch = server.server.store.epoch
    async with streaming(server, Last_Event_ID=f"{epoch}:1") as stream:
        assert (await stream.block())["event"] == "snapshot_required"


@requirement("M20", "M24")
async def test_who_reads_while_retention_goes_by_is_never_told_less_in_silence(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, seat = ground.server, await ground.server.seat("Ops")
    for _ in range(60):
        await ground.say(seat)
    await ground.ack(seat, acked_seq=60)
    feed, pages = server.server.live_hub._feed, 0
    after = feed.read_after

    async def pruned_meanwhile(*args: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            await ground.clock.advance(8 * DAY_SECONDS)
            await ground.round()
        return await after(*args)

    monkeypatch.setattr(feed, "read_after", pruned_meanwhile)
    async with channel(server) as opened:
        await opened.subscribe(0)
        assert (await opened.control("snapshot_required"))["reason"] == "pruned"


@requirement("M20", "M34")
async def test_unread_lines_that_go_are_told_to_who_counts_them(ground: Ground) -> None:
    server, seat = ground.server, await ground.server.seat("Ops")
    reader = server.api(await token_of(server))
    for number in range(6):
        await ground.answer(seat, f"line {number}")
    await reader.post(f"/workspaces/{seat.id}/chat/read", {"seq": 2})
    old = await snapshot_of(server, reader)
    assert old["chats"][0]["unread"] == 4
    async with channel(server) as opened:
        await ground.clock.advance(8 * DAY_SECONDS)
        await ground.round()
        event = await opened.event("CHAT_PRUNED")
        assert event["payload"]["kept"] == [4, 5, 6]
        again = await opened.event("CHAT_PRUNED")
        assert again["payload"]["kept"] == [6]
    new = await snapshot_of(server, reader)
    assert new["chats"][0]["unread"] == 1
    assert follow(state_of(old), [event, again])["chats"] == state_of(new)["chats"]


# -- any history -------------------------------------------------------------------------------------------------------


class Shadow:
    """What a seat's log must hold, in a few lines."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.rows: dict[int, tuple[int, str]] = {}  # seq -> (time, inbound | answer | log)
        self.next, self.floor = 1, 0
        self.acked: set[int] = set()

    def add(self, at: int, kind: str) -> None:
        self.rows[self.next] = (at, kind)
        self.next += 1

    def newest(self, *kinds: str) -> int:
        return max((seq for seq, (_, kind) in self.rows.items() if kind in kinds), default=0)

    def prune(self, before: int) -> None:
        heads = {self.newest("inbound", "answer", "log"), self.newest("inbound"), self.newest("inbound", "answer")}
        for seq, (at, kind) in list(self.rows.items()):
            settled = kind != "inbound" or seq <= self.floor
            if at < before and settled and seq not in heads:
                assert kind != "inbound" or seq in self.acked
                del self.rows[seq]


@requirement("M20", "M34", "M16")
@pytest.mark.parametrize("seed", range(4))
async def test_any_history_leaves_what_the_model_leaves_and_no_floor_moves(ground: Ground, seed: int) -> None:
    dice, server = random.Random(seed), ground.server
    shadows = [Shadow(await server.seat(f"Seat {number}")) for number in range(3)]
    reader = server.api(await token_of(server))
    told = 0
    for _ in range(90):
        shadow = dice.choice(shadows)
        seat, now = shadow.seat, ground.clock.now()
        match dice.choice(["say", "say", "answer", "log", "upto", "one", "time", "prune", "read"]):
            case "say":
                await ground.say(seat)
                shadow.add(now, "inbound")
            case "answer":
                await ground.answer(seat)
                shadow.add(now, "answer")
            case "log":
                await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log"})
                shadow.add(now, "log")
            case "upto":
                seq = dice.randrange(shadow.next + 1)
                shadow.acked |= set(range(1, min(seq, shadow.next - 1) + 1))
                shadow.floor = await ground.ack(seat, acked_seq=seq)
            case "one":
                inbound = [seq for seq, (_, kind) in shadow.rows.items() if kind == "inbound" and seq > shadow.floor]
                if inbound:
                    seq = dice.choice(inbound)
                    found = await seat.api.get(f"/workspaces/{seat.id}/activity", limit=500)
                    (id_,) = [row["id"] for row in found if row["seq"] == seq]
                    shadow.acked.add(seq)
                    shadow.floor = await ground.ack(seat, activity_id=id_)
            case "time":
                await ground.clock.advance(dice.choice([0.5, 2, 8]) * DAY_SECONDS)
            case "read":
                await reader.post(f"/workspaces/{seat.id}/chat/read", {"seq": dice.randrange(shadow.next + 1)})
            case "prune":
                told += await _pruned_as_the_model(ground, shadows, reader)
    told += await _pruned_as_the_model(ground, shadows, reader)
    for shadow in shadows:
        left = [row["seq"] for row in await shadow.seat.api.claim(shadow.seat.id, wait=0, limit=500)]
        assert left == sorted(
            seq for seq, (_, kind) in shadow.rows.items() if kind == "inbound" and seq not in shadow.acked
        )


async def _pruned_as_the_model(ground: Ground, shadows: list[Shadow], reader: Any) -> int:
    """One round: rows, floors, journal and snapshots against the model; returns how many events told of it."""
    server = ground.server
    since = ground.retention.cutoff
    floors = await ground.seen("SELECT workspace_id, acked_seq, acked_no, acked_above FROM inboxes ORDER BY 1")
    old = await snapshot_of(server, reader)
    would = await server.admin.post("/admin/prune", dry_run="true")
    gone = await ground.round()
    # An event about the lines that went takes the place of the newest one, which may then go too.
    more = gone.get("events", 0) - would["rows"].get("events", 0)
    assert more in (0, 1)
    # What is searched goes behind the rows that it was made of, and is counted once they have gone.
    apart = {"events": 0, "search documents": 0}
    assert {**would["rows"], **apart} == {**{what: count for what, count in gone.items() if count}, **apart}
    for shadow in shadows:
        shadow.prune(since - 3600 * 1_000_000)
        assert await ground.rows(shadow.seat) == sorted(shadow.rows)
    assert await ground.seen("SELECT workspace_id, acked_seq, acked_no, acked_above FROM inboxes ORDER BY 1") == floors
    facts = await ground.seen("SELECT seq, at, entity_id, payload IS NULL FROM events ORDER BY seq")
    numbers = [row[0] for row in facts]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert all(at >= since for _, at, *_ in facts[:-1])
    kept = {row[0] for row in await ground.seen("SELECT id FROM activities")}
    assert {entity for _, _, entity, of_a_row in facts if of_a_row} <= kept
    events = await journal_of(server, after=old["as_of"])
    # Lines of agents went, and messages that somebody saw to wait for an answer.
    told = {event["payload"].get("tick", event["event"]) for event in events}
    assert told <= {"CHAT_PRUNED", "forgotten"}
    new = await snapshot_of(server, reader)
    assert compared(follow(state_of(old), events)) == compared(state_of(new))
    return len(events)


# -- its pace ----------------------------------------------------------------------------------------------------------


@requirement("M20")
async def test_a_round_comes_by_itself_in_small_batches_with_rest_between_them(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(LIMITS, retention_batch=2, prune_seconds=30)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        ground = Ground(server, clock, engine, place)
        seat = await server.seat("Ops")
        for _ in range(9):
            await ground.say(seat)
        await ground.ack(seat, acked_seq=9)
        sizes: list[int] = []
        following = ground.retention._next_batch

        async def noted() -> Any:
            batch = await following()
            sizes.append(0 if batch is None else batch.rows)
            return batch

        async def look() -> list[int]:
            await clock.advance(1)
            return await ground.rows(seat)

        monkeypatch.setattr(ground.retention, "_next_batch", noted)
        await clock.advance(8 * DAY_SECONDS)
        await eventually(look, lambda found: found == [9])
        assert max(sizes) == 2
        assert sum(sizes) >= 8


@requirement("M20", "O1")
async def test_the_operator_can_ask_what_would_go_and_can_have_it_go_now(ground: Ground) -> None:
    seat = await ground.server.seat("Ops")
    for _ in range(5):
        await ground.say(seat)
    await ground.ack(seat, acked_seq=5)
    await ground.clock.advance(8 * DAY_SECONDS)
    admin = ground.server.admin
    asked = await admin.post("/admin/prune", dry_run="true")
    assert (asked["dry_run"], asked["rows"]) == (True, {"events": 6, "messages": 4})
    assert len(await ground.rows(seat)) == 5
    assert (await refused(admin.post("/admin/prune", dry_run="perhaps"))).status == 422
    assert (await admin.post("/admin/prune"))["dry_run"] is False

    async def look() -> list[int]:
        await ground.clock.advance(1)
        return await ground.rows(seat)

    assert await eventually(look, lambda found: found == [5]) == [5]
