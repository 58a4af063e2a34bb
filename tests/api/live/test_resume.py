"""The live channel over a WebSocket: hello, live tail, resume; no gap, no repeat, whoever writes meanwhile."""

import asyncio
from typing import Any

import msgspec
import pytest
from anyio.lowlevel import checkpoint

from molecule_core.wire.schemas.live import HelloFrame
from testing.engines import Engine
from testing.live_clients import (
    Channel,
    all_live,
    channel,
    check_chain,
    check_shape,
    head_of,
    journal_of,
    token_of,
    told,
)
from testing.running_server import Running, Seat
from testing.waits import IN_PROCESS_SECONDS, bounded
from testing.workspaces import beat, remove
from tests.polling_agent import PollingAgent
from tests.requirements import requirement


async def say(server: Running, seat: Seat, *texts: str) -> None:
    """Messages of the admin, one after the other."""
    for text in texts:
        await server.admin.send(seat.id, text)


def texts(events: list[dict[str, Any]]) -> list[str]:
    """What the messages among the events say."""
    return [event["payload"]["summary"] for event in events if event["event"] == "USER_MESSAGE"]


# -- hello and the live tail -------------------------------------------------------------------------------------------


@requirement("M24")
async def test_the_first_frame_says_where_the_journal_stands_and_who_is_asking(server: Running) -> None:
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    seat, token = await server.seat("Ops"), await token_of(server, "viewer")
    for caller, kind, role in ((token, "person", "viewer"), (seat.token, "workspace", "operator")):
        async with channel(server, caller) as opened:
            hello = msgspec.convert(opened.frames[0], HelloFrame)
            assert (hello.protocol, hello.org_id, hello.heartbeat_s) == (1, org_id, 15)
            assert (hello.user.kind, hello.user.role) == (kind, role)
            assert hello.head == 2
            assert hello.epoch == server.server.store.epoch


@requirement("M24", "M32")
async def test_a_socket_that_asks_for_nothing_is_told_what_happens_from_now_on(server: Running) -> None:
    seat = await server.seat("Ops")
    await say(server, seat, "before")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await say(server, seat, "one", "two", "three")
        events = await opened.upto(head + 3)
    assert texts(events) == ["one", "two", "three"]
    check_chain(events, head)


@requirement("M24")
async def test_the_admin_names_the_organisation_it_wants_to_hear(server: Running) -> None:
    other = await server.org("Other")
    async with channel(server, query=f"?org_id={other}") as there, channel(server) as here:
        assert there.frames[0]["org_id"] == other
        await server.seat("Here")
        await server.seat("There", org_id=other)
        assert (await there.event())["payload"]["name"] == "There"
        assert (await here.event())["payload"]["name"] == "Here"


# -- resume ------------------------------------------------------------------------------------------------------------


@requirement("M24", "M34")
async def test_what_was_missed_comes_first_and_then_what_happens(server: Running) -> None:
    seat = await server.seat("Ops")
    await say(server, seat, "one", "two", "three", "four")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await opened.subscribe(head - 3, opened.frames[0]["epoch"])
        assert await opened.control() == {"type": "resumed", "after": head - 3, "upto": head, "count": 3}
        missed = await opened.upto(head)
        await say(server, seat, "five")
        live = await opened.upto(head + 1)
    assert texts(missed + live) == ["two", "three", "four", "five"]
    check_chain(missed + live, head - 3)


@requirement("M24")
async def test_who_missed_nothing_is_told_so(server: Running) -> None:
    seat = await server.seat("Ops")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        for after in (head, None):
            await opened.subscribe(after)
            assert await opened.control() == {"type": "current", "after": head}
        await say(server, seat, "one")
        check_chain([await opened.event()], head)


@requirement("M24")
async def test_numbers_of_another_epoch_or_of_the_future_ask_for_a_snapshot(server: Running) -> None:
    await server.seat("Ops")
    async with channel(server) as opened:
        head, epoch = opened.frames[0]["head"], opened.frames[0]["epoch"]
        for after, claimed, reason in ((head, "another", "epoch_changed"), (head + 1, epoch, "ahead")):
            await opened.subscribe(after, claimed)
            assert await opened.control() == {"type": "snapshot_required", "reason": reason}
        await opened.subscribe(head, epoch)
        assert (await opened.control())["type"] == "current"
        await server.seat("More")
        check_chain([await opened.event()], head)


@requirement("M24")
@pytest.mark.parametrize("after", [-1, -(1 << 40), 1 << 63, 1 << 70, 1.5, True, "1", [1]])
async def test_a_number_that_no_event_can_have_is_not_answered_with_events(server: Running, after: Any) -> None:
    """A mistake of a client's must not look like a resume that worked: it is left alone, or asks for a snapshot."""
    await server.seat("Ops")
    async with channel(server) as opened:
        await opened.say(type="subscribe", after=after)
        await opened.pong()
        await opened.say(type="subscribe")
        while (said := await opened.control())["type"] != "current":
            assert said["type"] == "snapshot_required", said


@requirement("M24")
async def test_a_resume_from_anywhere_is_the_rest_of_the_journal(server: Running) -> None:
    seat = await server.seat("Ops")
    await say(server, seat, *map(str, range(12)))
    journal = await journal_of(server)
    check_chain(journal, 0)
    for cut in range(len(journal)):
        rest = await journal_of(server, after=cut)
        check_chain(rest, cut)
        assert told(rest) == told(journal[cut:])


@pytest.mark.long
@requirement("M24")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
async def test_nothing_is_missed_or_doubled_while_many_write(server: Running, engine: Engine) -> None:
    """Sockets come, resume and leave at many places while three write: each sees the whole journal, once."""
    seats = [await server.seat(f"Ops {number}") for number in range(3)]
    start, per_seat, sockets = await head_of(server), 30, 4
    end = start + len(seats) * per_seat

    async def writing(seat: Seat) -> None:
        await say(server, seat, *map(str, range(per_seat)))

    async def listening(visit: int) -> tuple[list[dict[str, Any]], int]:
        """All events, over many connections; the second: how many came live."""
        found: list[dict[str, Any]] = []
        last, live = start, 0
        while last < end:
            async with channel(server) as opened:
                await opened.subscribe(last, opened.frames[0]["epoch"])
                said = await opened.control()
                upto = said.get("upto", said["after"])
                for _ in range(5 + visit):
                    if last == end:
                        break
                    event = await opened.event()
                    assert event["prev"] == last
                    found.append(event)
                    last, live = event["seq"], live + (event["seq"] > upto)
        return found, live

    work = [*(writing(seat) for seat in seats), *(listening(visit) for visit in range(sockets))]
    async with asyncio.timeout(8 * IN_PROCESS_SECONDS):
        heard = [each for each in await asyncio.gather(*work) if each is not None]
    journal = await journal_of(server, after=start)
    assert len(journal) == end - start
    for found, _ in heard:
        assert told(found) == told(journal)
    # They did interleave: somebody was told something live, and somebody caught up on something.
    assert 0 < sum(live for _, live in heard) < sockets * len(journal)


@requirement("M24")
async def test_a_new_wish_takes_the_place_of_one_that_is_still_being_served(server: Running) -> None:
    seat = await server.seat("Ops")
    await say(server, seat, *map(str, range(150)))
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await opened.subscribe(0)
        await opened.subscribe(head - 5)
        while (said := await opened.control()).get("after") != head - 5:
            assert said["type"] == "resumed"
        events = await opened.upto(head)
        await say(server, seat, "live")
        events.append(await opened.event())
    check_chain(events, head - 5)
    assert texts(events)[-1] == "live"


@requirement("M24")
async def test_the_count_of_a_resume_is_the_number_of_events_that_follow(server: Running) -> None:
    """For a workspace too, which may not see all that happened."""
    one, other = await server.seat("One"), await server.seat("Other")
    await say(server, other, "not for One", "nor this")
    await say(server, one, "for One")
    async with channel(server, one.token) as opened:
        head = opened.frames[0]["head"]
        await opened.subscribe(0)
        said = await opened.control("resumed")
        events = await opened.upto(head)
    assert [event["event"] for event in events] == ["WORKSPACE_PROVISIONING", "WORKSPACE_PROVISIONING", "USER_MESSAGE"]
    assert said["count"] == len(events)


# -- what a frame holds ------------------------------------------------------------------------------------------------


@requirement("M32")
async def test_every_event_has_the_members_of_the_table_and_no_others(server: Running) -> None:
    org_id = await server.org("Complete")
    async with channel(server, query=f"?org_id={org_id}") as opened:
        lead = await server.seat("Lead", org_id=org_id)
        ops = await server.seat("Ops", org_id=org_id, parent_id=lead.id)
        await ops.api.post("/registry/register", {"id": ops.id, "agent_card": {"name": "Ops"}})
        await beat(ops, error_rate=0.9, sample_error="broken")
        await beat(ops, error_rate=0.0)
        await ops.api.post("/registry/update-card", {"workspace_id": ops.id, "agent_card": {"name": "New"}})
        await server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"name": "Operations"})
        await server.admin.send(ops.id, "hello", message_id="m-1")
        await lead.api.send(ops.id, "from a peer")
        await ops.api.post(
            f"/workspaces/{ops.id}/notify", {"message": "hi", "attachments": [{"uri": "a", "name": "b"}]}
        )
        await ops.api.post(f"/workspaces/{ops.id}/activity", {"activity_type": "agent_log", "summary": "worked"})
        await remove(server.admin, lead)
        seen: list[dict[str, Any]] = []
        while not seen or (seen[-1]["event"], seen[-1]["workspace_id"]) != ("WORKSPACE_REMOVED", lead.id):
            seen.append(await opened.frame())
    for frame in seen:
        check_shape(frame)
    names = [frame["event"] for frame in seen if "seq" in frame]
    assert names == [
        "WORKSPACE_PROVISIONING",
        "WORKSPACE_PROVISIONING",
        "WORKSPACE_ONLINE",
        "AGENT_CARD_UPDATED",
        "WORKSPACE_DEGRADED",
        "WORKSPACE_ONLINE",
        "AGENT_CARD_UPDATED",
        "WORKSPACE_UPDATED",
        "USER_MESSAGE",
        "ACTIVITY_LOGGED",
        "AGENT_MESSAGE",
        "ACTIVITY_LOGGED",
        "WORKSPACE_REMOVED",
        "WORKSPACE_REMOVED",
    ]


@requirement("M32")
async def test_a_silent_agent_is_told_about_with_the_time_it_was_heard_last(poller: PollingAgent) -> None:
    external = await poller.server.seat("Awaited", external=True)
    async with channel(poller.server) as opened:
        for seat in (poller.ops, external):
            await beat(seat)
        await poller.clock.advance(120)
        events: dict[str, dict[str, Any]] = {}
        while len(events) < 2:
            event = await opened.event()
            if event["event"] in ("WORKSPACE_OFFLINE", "WORKSPACE_AWAITING_AGENT"):
                events[event["event"]] = event
    for name, seat in (("WORKSPACE_OFFLINE", poller.ops), ("WORKSPACE_AWAITING_AGENT", external)):
        assert events[name]["workspace_id"] == seat.id
        check_shape(events[name])
        assert events[name]["payload"]["last_heard_at"].startswith("2027-01-15T08:00:00")


@requirement("M32")
async def test_a_persons_message_comes_back_with_the_id_its_client_chose(server: Running) -> None:
    seat = await server.seat("Ops")
    async with channel(server, await token_of(server, "viewer")) as opened:
        receipt = await server.admin.send(seat.id, "hello", message_id="mine-1")
        event = await opened.event()
        other = await server.admin.send(seat.id, "no id of one's own")
        unnamed = await opened.event()
    assert (event["client_id"], event["entity"]["id"]) == ("mine-1", receipt["activity_id"])
    assert event["payload"]["request_body"]["params"]["message"]["messageId"] == "mine-1"
    assert event["payload"]["request_body"]["params"]["metadata"]["username"] == "admin"
    assert event["payload"]["seq"] == 1
    assert unnamed["entity"]["id"] == other["activity_id"]


@requirement("M32")
async def test_an_agents_message_is_told_with_its_text_its_name_and_its_files(server: Running) -> None:
    seat = await server.seat("Ops")
    async with channel(server) as opened:
        file = {"uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain", "size": 3}
        sent = await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "done\nsoon", "attachments": [file]})
        event = await opened.event()
    assert (event["event"], event["entity"]) == (
        "AGENT_MESSAGE",
        {"kind": "activity", "id": sent["activity_id"], "rev": 0},
    )
    told_file = {"kind": "file", "uri": "file:///a.txt", "name": "a.txt", "mime_type": "text/plain", "size": 3}
    assert event["payload"] == {
        "message": "done\nsoon",
        "workspace_id": seat.id,
        "name": "Ops",
        "seq": 1,
        "attachments": [told_file],
    }


@requirement("M32")
async def test_large_bodies_are_left_out_but_what_a_person_wrote_is_told_in_full(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    long = "x" * 5000
    async with channel(server) as opened:
        report = {"activity_type": "agent_log", "summary": "a report", "request_body": {"a": 1}, "response_body": long}
        await ops.api.post(f"/workspaces/{ops.id}/activity", report)
        await lead.api.send(ops.id, long)
        await lead.api.send(ops.id, "short")
        await server.admin.send(ops.id, long * 40)
        large, peers, short, persons = [(await opened.event())["payload"] for _ in range(4)]
    assert (large["summary"], large.keys() & {"request_body", "response_body"}) == ("a report", set())
    assert "request_body" not in peers
    assert short["request_body"]["params"]["message"]["parts"] == [{"kind": "text", "text": "short"}]
    assert persons["request_body"]["params"]["message"]["parts"] == [{"kind": "text", "text": long * 40}]


@requirement("M32", "S14")
@pytest.mark.parametrize(
    "body", [None, 5, "text", [], {}, {"params": 1}, {"params": {"message": {"parts": [1, {"kind": "text"}, {}]}}}]
)
async def test_what_an_agent_reports_about_itself_cannot_stop_the_channels(server: Running, body: Any) -> None:
    """An agent may name any method in its own log, also the one that messages to people have."""
    seat = await server.seat("Ops")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        for method in ("notify", "message/send"):
            report = {"activity_type": "agent_log", "method": method, "request_body": body, "summary": "mine"}
            await seat.api.post(f"/workspaces/{seat.id}/activity", report)
        await say(server, seat, "after")
        events = await opened.upto(head + 3)
    assert [event["event"] for event in events] == ["ACTIVITY_LOGGED", "ACTIVITY_LOGGED", "USER_MESSAGE"]
    assert [event["payload"].get("summary") for event in events] == ["mine", "mine", "after"]
    for event in events:
        check_shape(event)
    assert told(await journal_of(server, after=head)) == told(events)


# -- what is only broadcast --------------------------------------------------------------------------------------------


@requirement("M31", "M32")
async def test_what_agents_say_of_themselves_is_told_but_not_kept(server: Running) -> None:
    seat = await server.seat("Ops")
    await beat(seat)
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await all_live(server)
        await beat(seat, active_tasks=2, current_task="sorting", uptime_seconds=7)
        heard = [await opened.frame(), await opened.frame()]
        await say(server, seat, "after")
        event = await opened.event()
    for frame in heard:
        check_shape(frame)
        assert frame["entity"] == {"kind": "workspace", "id": seat.id, "rev": 0}
    assert heard[0]["event"] == "WORKSPACE_HEARTBEAT"
    assert {**heard[0]["payload"], "last_heard_at": ""} == {
        "active_tasks": 2,
        "uptime_seconds": 7,
        "current_task": "sorting",
        "last_heard_at": "",
    }
    assert (heard[1]["event"], heard[1]["payload"]) == ("TASK_UPDATED", {"current_task": "sorting", "active_tasks": 2})
    check_chain([event], head)
    assert not {"WORKSPACE_HEARTBEAT", "TASK_UPDATED"} & {each["event"] for each in await journal_of(server)}


@requirement("M31")
async def test_a_task_is_told_only_when_it_changes(poller: PollingAgent) -> None:
    async with channel(poller.server) as opened:
        await all_live(poller.server)
        told_tasks: list[Any] = []
        for task in ("a", "a", "a", "b", "b", None):
            await beat(poller.ops, current_task=task)
            await bounded(_heartbeat(opened))
            told_tasks += await _tasks_so_far(poller, opened)
            await poller.clock.advance(1)
    assert told_tasks == ["a", "b", None]


async def _heartbeat(opened: Channel) -> None:
    while (await opened.frame())["event"] != "WORKSPACE_HEARTBEAT":
        pass


async def _tasks_so_far(poller: PollingAgent, opened: Channel) -> list[Any]:
    """The tasks told since the last look: up to the event of a message that is sent now."""
    await poller.say("a mark")
    start = len(opened.frames)
    await opened.event("USER_MESSAGE")
    frames = opened.frames[start:]
    return [frame["payload"]["current_task"] for frame in frames if frame["event"] == "TASK_UPDATED"]


@requirement("M31", "M34")
async def test_who_comes_while_an_agent_works_learns_what_it_works_on(server: Running) -> None:
    """A page that has loaded its snapshot and is not live yet must not show an older task for ever."""
    seat = await server.seat("Ops")
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    async with channel(server) as before:
        snapshot = await server.admin.get(f"/orgs/{org_id}/snapshot")
        await all_live(server)
        await beat(seat, current_task="sorting")
        while (await before.frame())["event"] != "TASK_UPDATED":
            pass
        assert snapshot["workspaces"][0]["current_task"] is None
        async with channel(server) as opened:
            await opened.subscribe(snapshot["as_of"], snapshot["epoch"])
            await all_live(server)
            await beat(seat, current_task="sorting", uptime_seconds=30)
            while (await opened.frame()).get("event") != "WORKSPACE_HEARTBEAT":
                pass
            await say(server, seat, "a mark")
            await opened.event("USER_MESSAGE")
    tasks = [frame["payload"]["current_task"] for frame in opened.frames if frame.get("event") == "TASK_UPDATED"]
    assert "sorting" in tasks


@requirement("M31")
async def test_a_hundred_heartbeats_in_a_quarter_of_a_second_are_told_twice_at_most(poller: PollingAgent) -> None:
    async with channel(poller.server) as opened:
        await all_live(poller.server)
        for number in range(100):
            await beat(poller.ops, active_tasks=number)
            if number == 50:
                await poller.clock.advance(0.2)
        await poller.clock.advance(0.05)
        found: list[int] = []
        while not found or found[-1] != 99:
            frame = await opened.frame()
            if frame["event"] == "WORKSPACE_HEARTBEAT":
                found.append(frame["payload"]["active_tasks"])
    assert len(found) <= 2
    assert found[-1] == 99  # the last word is never lost


# -- one encoding for all ----------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_frame_is_made_once_however_many_listen(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from molecule_core.views.feed import EncodedEvent

    seat, made = await server.seat("Ops"), []
    frame = EncodedEvent.frame

    def counting(notice: EncodedEvent, prev: int) -> bytes:
        made.append((notice.seq, prev))
        return frame(notice, prev)

    async with _many(server, 50) as sockets:
        monkeypatch.setattr(EncodedEvent, "frame", counting)
        await say(server, seat, "one", "two", "three")
        for opened in sockets:
            assert texts([await opened.event() for _ in range(3)]) == ["one", "two", "three"]
    assert made == [(2, 1), (3, 2), (4, 3)]


class _many:
    """Many sockets at once."""

    def __init__(self, server: Running, count: int) -> None:
        self._openings = [channel(server) for _ in range(count)]

    async def __aenter__(self) -> list[Channel]:
        return list(await asyncio.gather(*(opening.__aenter__() for opening in self._openings)))

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(opening.__aexit__(None, None, None) for opening in self._openings))


# -- a long resume lets others in --------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_long_resume_gives_others_their_turn(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an engine that answers at once too: between two pages of a resume everything that is ready runs."""
    seat = await server.seat("Ops")
    await asyncio.gather(*(server.admin.send(seat.id, str(number)) for number in range(200)))
    turns: list[int] = []
    now = 0
    feed = server.server.live_hub._feed
    after = feed.read_after

    async def turning() -> None:
        nonlocal now
        while True:
            now += 1
            await checkpoint()

    async def noted(*args: Any) -> Any:
        turns.append(now)
        return await after(*args)

    async with channel(server) as opened:
        monkeypatch.setattr(feed, "read_after", noted)
        ticking = asyncio.create_task(turning())
        await opened.subscribe(0)
        await opened.upto(201)
        ticking.cancel()
    assert len(turns) >= 4
    assert len(set(turns[:4])) == 4, turns
