"""Reading: what is unread, how far somebody has read, and paging back through a chat."""

import asyncio
import itertools
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import token_of
from testing.running_server import Running, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.polling_agent import PollingAgent
from tests.requirements import requirement


async def notify(seat: Seat, *texts: str) -> None:
    """What an agent writes to its user."""
    for text in texts:
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})


async def chat_of(server: Running, api: ApiClient, seat: Seat) -> dict[str, Any]:
    """How a chat stands for a person."""
    snapshot = await api.get(f"/orgs/{server.server.registry.orgs()[0].id}/snapshot")
    (found,) = [each for each in snapshot["chats"] if each["workspace_id"] == seat.id]
    return dict(found)


async def mark(api: ApiClient, seat: Seat, seq: int) -> Any:
    """A person has read so far."""
    return await api.post(f"/workspaces/{seat.id}/chat/read", {"seq": seq})


# -- marks -------------------------------------------------------------------------------------------------------------


@requirement("M35", "M34")
async def test_only_what_the_agent_wrote_behind_the_mark_is_unread(server: Running) -> None:
    seat, person = await server.seat("Ops"), server.api(await token_of(server, "viewer"))
    await person_says(server, seat, "one")
    await notify(seat, "two", "three")
    await person_says(server, seat, "four")
    await seat.api.post(f"/workspaces/{seat.id}/activity", {"activity_type": "agent_log", "method": "notify"})
    chat = await chat_of(server, person, seat)
    assert (chat["unread"], chat["read_seq"], chat["last"]["content"], chat["last"]["seq"]) == (2, 0, "four", 4)
    assert await mark(person, seat, 2) == {}
    assert (await chat_of(server, person, seat))["unread"] == 1
    await mark(person, seat, 3)
    await notify(seat, "six")
    chat = await chat_of(server, person, seat)
    assert (chat["unread"], chat["read_seq"], chat["last"]["role"], chat["last"]["seq"]) == (1, 3, "agent", 6)


async def person_says(server: Running, seat: Seat, text: str) -> None:
    """A message of the admin."""
    await server.admin.send(seat.id, text)


@requirement("M35")
async def test_a_mark_never_goes_back_and_never_beyond_what_is_there(server: Running) -> None:
    seat, person = await server.seat("Ops"), server.api(await token_of(server))
    await notify(seat, "one", "two", "three")
    for seq, known in ((2, 2), (1, 2), (0, 2), (1 << 61, 3), (3, 3)):
        await mark(person, seat, seq)
        assert (await chat_of(server, person, seat))["read_seq"] == known
    await notify(seat, "four")
    assert (await chat_of(server, person, seat))["unread"] == 1  # a mark of the future did not swallow it


@requirement("M35")
async def test_marks_that_come_at_the_same_time_end_at_the_highest(server: Running) -> None:
    seat, person = await server.seat("Ops"), server.api(await token_of(server))
    await notify(seat, *map(str, range(8)))
    await asyncio.gather(*(mark(person, seat, seq) for seq in (3, 8, 1, 7, 8, 2)))
    assert (await chat_of(server, person, seat))["read_seq"] == 8


@requirement("M35")
async def test_what_one_has_read_is_unread_for_the_others(server: Running) -> None:
    seat, other_seat = await server.seat("Ops"), await server.seat("Dev")
    one, other = server.api(await token_of(server)), server.api(await token_of(server))
    await notify(seat, "hello")
    await notify(other_seat, "hello")
    await mark(one, seat, 1)
    assert (await chat_of(server, one, seat))["unread"] == 0
    assert (await chat_of(server, one, other_seat))["unread"] == 1
    assert (await chat_of(server, other, seat))["unread"] == 1
    assert (await chat_of(server, server.admin, seat))["unread"] == 1


@requirement("M35", "O2")
async def test_unread_messages_are_counted_up_to_a_limit(
    engine: Engine, place: str, tmp_path: Any, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(unread_count=5)) as server:
        seat = await server.seat("Ops")
        for count in range(1, 8):
            await notify(seat, str(count))
            assert (await chat_of(server, server.admin, seat))["unread"] == min(5, count)
        await mark(server.admin, seat, 4)
        assert (await chat_of(server, server.admin, seat))["unread"] == 3


@requirement("M35", "S20")
async def test_only_people_of_the_organisation_mark_what_they_read(server: Running) -> None:
    seat, peer = await server.seat("Ops"), await server.seat("Dev")
    stranger = server.api(await token_of(server, "owner", await server.org("Other")))
    await notify(seat, "hello")
    assert (await refused(mark(seat.api, seat, 1))).code == "credential_not_accepted"
    assert (await refused(mark(peer.api, seat, 1))).code == "credential_not_accepted"
    assert (await refused(mark(stranger, seat, 1))).code == "not_found"
    assert (await refused(mark(server.api(), seat, 1))).status == 401
    await remove(server.admin, peer)
    assert (await refused(mark(server.admin, peer, 1))).status == 410


@requirement("M35", "S14")
@pytest.mark.parametrize("seq", [-1, 1 << 62, 1 << 70, "1", 1.5, None, True, [1]])
async def test_a_mark_that_is_no_number_of_a_message_is_refused(server: Running, seq: Any) -> None:
    seat = await server.seat("Ops")
    assert (await refused(mark(server.admin, seat, seq))).code == "invalid_field"
    assert (await refused(server.admin.post(f"/workspaces/{seat.id}/chat/read", {}))).code == "invalid_field"


async def test_a_mark_moves_back_only_where_that_is_asked_for(server: Running) -> None:
    seat, person = await server.seat("Ops"), server.api(await token_of(server, "viewer"))
    await notify(seat, "one", "two", "three")
    await mark(person, seat, 3)
    await mark(person, seat, 1)
    assert (await chat_of(server, person, seat))["unread"] == 0
    path = f"/workspaces/{seat.id}/chat/read"
    await person.post(path, {"seq": 1, "unread": True})
    chat = await chat_of(server, person, seat)
    assert (chat["unread"], chat["read_seq"]) == (2, 1)
    await person.post(path, {"seq": 2, "unread": True})
    assert (await chat_of(server, person, seat))["read_seq"] == 1


# -- paging back -------------------------------------------------------------------------------------------------------


async def pages(poller: PollingAgent, limit: int, **start: Any) -> list[dict[str, Any]]:
    """All messages from here back to the first, page by page, as the canvas asks for them; oldest first."""
    found: list[dict[str, Any]] = []
    query = dict(start)
    for _ in range(100):
        page = await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history", limit=limit, **query)
        found = page["messages"] + found
        if page["reached_end"]:
            return found
        assert page["messages"], "a page that is empty and yet not the last would be asked for for ever"
        query = {"before": page["messages"][0]["id"]}
    raise AssertionError("it never reached the end")


@requirement("M35")
async def test_paging_back_by_id_shows_each_message_once_also_within_one_moment(poller: PollingAgent) -> None:
    """The clock stands still, so that all messages have the same time: pages by time alone would lose some."""
    for number in range(5):
        await poller.say(f"person {number}")
        await notify(poller.ops, f"agent {number}")
        await poller.ops.api.post(f"/workspaces/{poller.ops.id}/activity", {"activity_type": "agent_log"})
    for limit in (1, 2, 3, 4, 9, 10, 11):
        found = await pages(poller, limit)
        wanted = [f"{who} {number}" for number in range(5) for who in ("person", "agent")]
        assert [each["content"] for each in found] == wanted
        assert all(one["seq"] < other["seq"] for one, other in itertools.pairwise(found))
        assert len({each["timestamp"] for each in found}) == 1


@requirement("M35")
async def test_before_and_before_ts_together_are_both_kept(poller: PollingAgent) -> None:
    for number in range(6):
        await poller.say(str(number))
        await poller.clock.advance(1)
    history = f"/workspaces/{poller.ops.id}/chat-history"
    every = (await poller.person.get(history))["messages"]
    for row, time in itertools.product(range(6), range(6)):
        page = await poller.person.get(history, before=every[row]["id"], before_ts=every[time]["timestamp"])
        assert [each["content"] for each in page["messages"]] == [str(number) for number in range(min(row, time))]
        assert page["reached_end"]
    first = await poller.person.get(history, before=every[5]["id"], before_ts=every[4]["timestamp"], limit=2)
    assert [each["content"] for each in first["messages"]] == ["2", "3"]
    assert not first["reached_end"]


@requirement("M35", "S13")
async def test_a_place_that_is_not_in_this_log_is_gone(poller: PollingAgent) -> None:
    other = await poller.server.seat("Other")
    foreign = (await poller.server.admin.send(other.id, "elsewhere"))["activity_id"]
    mine = await poller.say("here")
    history = f"/workspaces/{poller.ops.id}/chat-history"
    for place in (foreign, "nonsense", "0", "01900000-0000-7000-8000-00000000beef", "é", "%", "'"):
        for name in ("before", "after"):
            assert (await refused(poller.person.get(history, **{name: place}))).code == "cursor_gone", place
    assert (await poller.person.get(history, before=mine)) == {"messages": [], "reached_end": True}
    page = await poller.person.get(history, before="")
    assert [each["content"] for each in page["messages"]] == ["here"]


@requirement("M35", "M32")
async def test_a_chat_shows_who_wrote_and_under_which_id(poller: PollingAgent) -> None:
    await poller.person.send(poller.ops.id, "hello", message_id="mine-1")
    await notify(poller.ops, "hi")
    said, answered = (await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history"))["messages"]
    assert (said["role"], said["client_id"], said["user"], said["seq"]) == ("user", "mine-1", "A operator", 1)
    assert (answered["role"], answered["seq"]) == ("agent", 2)
    assert not {"client_id", "user"} & set(answered)
