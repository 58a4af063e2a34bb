"""The tools of the merged inbox: what they wait for, what they show, what they settle. Time stands still."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.config import AgentSettings
from molecule_core.agent.mailbox.membership import MembershipState
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.tools.inbox_tools import InboxTools
from molecule_core.client.api import ApiError
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.schemas.messages import (
    InboxPeekArguments,
    InboxPopArguments,
    ReplyToWorkspaceArguments,
    WaitForMessageArguments,
)
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded
from tests.agent.inbox_server import StandIn
from tests.agent.mailbox.test_membership import Life
from tests.requirements import requirement


class Told:
    """A call under way, and the progress that was told."""

    def __init__(self, **meta: Any) -> None:
        self.meta: dict[str, Any] = meta
        self.progressed: list[tuple[float, float | None]] = []

    async def progress(self, value: float, total: float | None, message: str) -> None:
        assert message
        self.progressed.append((value, total))


class Desk:
    """A process with its tools."""

    def __init__(self, life: Life, clock: FakeClock, *, single: bool) -> None:
        self.life = life
        self.seats = Memberships(list(life.seats.values()), single=single)
        randomness = SeededRandomness()
        self.verbs = InboxTools(
            self.seats,
            life.inbox,
            clock=clock,
            ids=IdGenerator(clock, randomness),
            randomness=randomness,
            settings=AgentSettings(),
        )

    async def wait(self, seconds: float, told: Told | None = None) -> dict[str, Any]:
        return await self.verbs.wait_for_message(WaitForMessageArguments(timeout_secs=seconds), told or Told())

    async def next_id(self) -> str:
        """The id of the next message."""
        return str((await bounded(self.wait(60)))["message"]["activity_id"])


@asynccontextmanager
async def desk_of(
    folder: Path, clock: FakeClock, *servers: StandIn, single: bool = False, **more: Any
) -> AsyncIterator[Desk]:
    """A process with seats on these servers."""
    life = Life(folder, clock, {each.workspace_id: each for each in servers}, **more)
    await life.begin()
    try:
        yield Desk(life, clock, single=single)
    finally:
        await life.die()


@pytest.fixture
def server(clock: FakeClock) -> StandIn:
    """The server of the workspace w."""
    return StandIn(clock, "w")


@requirement("G9", "G13")
async def test_a_wait_ends_with_the_message_and_tells_progress_until_then(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        told = Told(progressToken=1)
        waiting = asyncio.create_task(desk.wait(60, told))
        await settle()
        for _ in range(25):
            await clock.advance(1)
        assert told.progressed == [(10, 60), (20, 60)]
        server.put("m-1")
        waited = await bounded(waiting)

    assert waited["message"]["activity_id"] == "m-1"
    assert waited["message"]["arrival_workspace_id"] == "w"


@requirement("G9")
async def test_a_wait_whose_time_is_up_has_no_message(server: StandIn, clock: FakeClock, tmp_path: Path) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        waiting = asyncio.create_task(desk.wait(3))
        await settle()
        await clock.advance(2)
        assert not waiting.done()
        await clock.advance(1.5)
        assert (await bounded(waiting)) == {"message": None, "waiting": 0, "note": ""}
        assert (await bounded(desk.wait(0)))["message"] is None


@requirement("G9")
async def test_two_who_wait_get_two_messages_and_none_gets_the_same(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        waiting = [asyncio.create_task(desk.wait(60)) for _ in range(2)]
        await settle()
        server.put("m-1")
        server.put("m-2")
        found = await bounded(asyncio.gather(*waiting))
    assert {each["message"]["activity_id"] for each in found} == {"m-1", "m-2"}


@requirement("G10")
async def test_a_wait_brings_news_before_what_was_shown_and_reminds_of_that_in_the_end(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with desk_of(tmp_path, clock, server) as desk:
        assert await desk.next_id() == "m-1"
        waiting = asyncio.create_task(desk.wait(5))
        await settle()
        await clock.advance(4)
        assert not waiting.done()
        await clock.advance(2)
        reminded = await bounded(waiting)
        server.put("m-2")
        await settle()
        assert await desk.next_id() == "m-2"

    assert reminded["message"]["activity_id"] == "m-1" and "shown before" in reminded["note"]


@requirement("G13")
async def test_a_wait_that_is_cancelled_takes_no_message_along(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        waiting = asyncio.create_task(desk.wait(60))
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        server.put("m-1")
        await settle()
        assert await desk.next_id() == "m-1"


@requirement("G9")
async def test_in_single_mode_no_form_of_a_message_names_the_seat(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with desk_of(tmp_path, clock, server, single=True) as desk:
        waited = (await bounded(desk.wait(0)))["message"]
        (peeked,) = (await desk.verbs.peek_messages(InboxPeekArguments()))["messages"]
    assert waited == peeked
    assert "arrival_workspace_id" not in waited


@requirement("G10")
async def test_a_peek_shows_the_oldest_and_how_many_more_wait(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(7):
        server.put(f"m-{number}")
    async with desk_of(tmp_path, clock, server) as desk:
        peeked = await desk.verbs.peek_messages(InboxPeekArguments(limit=3))
    assert [each["activity_id"] for each in peeked["messages"]] == ["m-0", "m-1", "m-2"]
    assert peeked["note"] == "4 more messages are open"


@requirement("G10")
async def test_a_pop_settles_once_and_says_what_it_did(server: StandIn, clock: FakeClock, tmp_path: Path) -> None:
    server.put("m-1")
    async with desk_of(tmp_path, clock, server) as desk:
        first = await desk.verbs.pop_message(InboxPopArguments(activity_id="m-1"))
        second = await desk.verbs.pop_message(InboxPopArguments(activity_id="m-1"))
        with pytest.raises(ToolError, match="message m-2 not found") as unknown:
            await desk.verbs.pop_message(InboxPopArguments(activity_id="m-2"))
        with pytest.raises(ToolError, match="is not one of yours"):
            await desk.verbs.pop_message(InboxPopArguments(activity_id="m-1", workspace_id="other"))

    assert (first["removed"], first["workspace_id"], first["note"]) == (True, "w", "")
    assert (second["removed"], second["note"]) == (False, "the message was already handled")
    assert unknown.value.code == "unknown_message"
    assert server.open_ids == []


@requirement("G10", "G11")
async def test_one_id_in_two_workspaces_must_be_told_apart_to_be_popped(clock: FakeClock, tmp_path: Path) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    for each in servers:
        each.put("same")
    async with desk_of(tmp_path, clock, *servers) as desk:
        with pytest.raises(ToolError, match="several workspaces have a message with this id: w-1, w-2"):
            await desk.verbs.pop_message(InboxPopArguments(activity_id="same"))
        await desk.verbs.pop_message(InboxPopArguments(activity_id="same", workspace_id="w-2"))
    assert [each.open_ids for each in servers] == [["same"], []]


@requirement("G14")
async def test_a_process_that_follows_can_pop_what_the_leader_has_shown(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with desk_of(tmp_path, clock, server) as leader, desk_of(tmp_path, clock, server) as other:
        shown = await bounded(leader.verbs.peek_messages(InboxPeekArguments()))
        peeked = await bounded(other.verbs.peek_messages(InboxPeekArguments()))
        popped = await bounded(other.verbs.pop_message(InboxPopArguments(activity_id="m-1")))
        left = await bounded(leader.verbs.peek_messages(InboxPeekArguments()))

    assert [each["activity_id"] for each in shown["messages"]] == ["m-1"]
    assert peeked == {"messages": [], "note": ""}
    assert popped["removed"] and server.open_ids == []
    assert left["messages"] == []


@requirement("G14")
async def test_without_a_way_to_the_leader_a_process_says_who_reads(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    (tmp_path / ".mcp_mail_w.sock").mkdir()  # cannot be made a socket
    async with desk_of(tmp_path, clock, server), desk_of(tmp_path, clock, server) as other:
        note = (await bounded(other.verbs.peek_messages(InboxPeekArguments())))["note"]

    assert "the inbox of workspace w is read by process" in note


@requirement("G9", "G13")
async def test_a_first_look_waits_until_what_waits_is_known_and_says_where_it_is_not(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    server.slow = asyncio.Event()
    async with desk_of(tmp_path, clock, server) as desk:
        looking = [
            asyncio.create_task(desk.verbs.peek_messages(InboxPeekArguments())),
            asyncio.create_task(desk.wait(0)),
        ]
        await settle()
        assert not any(each.done() for each in looking)
        await clock.advance(6)
        peeked, waited = await bounded(asyncio.gather(*looking))
        server.slow.set()
        late = (await bounded(desk.verbs.peek_messages(InboxPeekArguments())))["messages"]

    assert (peeked["messages"], waited["message"]) == ([], None)
    assert "workspace w is still connecting and may have messages: call again" in peeked["note"] == waited["note"]
    assert [message["activity_id"] for message in late] == ["m-1"]


@requirement("G9", "G13")
async def test_the_first_look_at_an_empty_seat_is_not_held_by_the_server(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        assert await bounded(desk.verbs.peek_messages(InboxPeekArguments())) == {"messages": [], "note": ""}


@requirement("G7")
async def test_what_is_wrong_with_a_seat_is_noted_where_a_model_looks(clock: FakeClock, tmp_path: Path) -> None:
    good = StandIn(clock, "good")
    async with desk_of(tmp_path, clock, good, ids=["good", "away"]) as desk:
        note = (await desk.verbs.peek_messages(InboxPeekArguments()))["note"]
    assert note.startswith("workspace away: http://server returned an unexpected response") and "good" not in note


@requirement("G8", "G11")
@pytest.mark.parametrize("named", ["other", "w-11", "W-1"])
async def test_a_reply_as_a_workspace_that_is_none_of_ours_asks_no_server(
    named: str, clock: FakeClock, tmp_path: Path
) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    async with desk_of(tmp_path, clock, *servers) as desk:
        before = [len(each.asked) for each in servers]
        with pytest.raises(ToolError, match="not one of yours") as caught:
            await desk.verbs.reply_to_workspace(ReplyToWorkspaceArguments(text="x", workspace_id=named), Told())
        assert [len(each.asked) for each in servers] == before
    assert caught.value.code == "unknown_workspace" and "w-1 (at http://server), w-2" in caught.value.text


@requirement("G11")
async def test_without_a_workspace_several_seats_are_listed(clock: FakeClock, tmp_path: Path) -> None:
    async with desk_of(tmp_path, clock, StandIn(clock, "w-1"), StandIn(clock, "w-2")) as desk:
        with pytest.raises(ToolError, match="Set workspace_id to the one to act as: w-1") as caught:
            await desk.verbs.reply_to_workspace(ReplyToWorkspaceArguments(text="x"), Told())
    assert caught.value.code == "ambiguous_workspace"


@requirement("G10", "G6")
@pytest.mark.parametrize(
    ("status", "code", "told"),
    [(503, "", True), (429, "", True), (401, "", True), (403, "credential_not_accepted", True), (404, "", False)],
)
async def test_that_no_message_waits_is_the_servers_to_say_to_who_does_not_lead(
    status: int, code: str, told: bool, server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server, single=True) as desk:
        desk.life.seats["w"].state = MembershipState.FOLLOWING
        server.refuses["/activity/ack"] = ApiError(status, {"error": "not now", "code": code})
        with pytest.raises(ApiError if told else ToolError) as caught:
            await desk.verbs.pop_message(InboxPopArguments(activity_id="m-1"))
        assert told or (isinstance(caught.value, ToolError) and caught.value.code == "unknown_message")


@requirement("G11", "G10")
async def test_what_is_said_without_naming_a_message_settles_none_that_nobody_was_shown(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server, single=True) as desk:
        server.hello = {"status": "sent", "activity_id": "said"}
        server.put("m-1")
        await clock.advance(1)
        told = await desk.verbs.reply_to_workspace(ReplyToWorkspaceArguments(text="by the way"), Told())
        assert (server.open_ids, "m-1" in told["note"]) == (["m-1"], True)
        assert await desk.next_id() == "m-1"
        await desk.verbs.reply_to_workspace(ReplyToWorkspaceArguments(text="done"), Told())
        assert server.open_ids == []


@requirement("G11")
async def test_the_same_answer_to_the_same_message_has_one_key_and_other_answers_have_others(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    async with desk_of(tmp_path, clock, server) as desk:
        key: Callable[..., str] = desk.verbs._idempotency_key
        answer = ReplyToWorkspaceArguments(text="yes", workspace_id="w", activity_id="m-1")
        assert key(answer, Told()) == key(answer, Told(**{"claudecode/toolUseId": "t"}))
        others = [
            ReplyToWorkspaceArguments(text="no", workspace_id="w", activity_id="m-1"),
            ReplyToWorkspaceArguments(text="yes", workspace_id="w", activity_id="m-2"),
            ReplyToWorkspaceArguments(text="yes", workspace_id="v", activity_id="m-1"),
        ]
        assert len({key(each, Told()) for each in (answer, *others)}) == 4
        free = ReplyToWorkspaceArguments(text="yes", workspace_id="w")
        assert key(free, Told()) != key(free, Told())
        assert key(free, Told(**{"claudecode/toolUseId": "t"})) == key(free, Told(**{"claudecode/toolUseId": "t"}))
