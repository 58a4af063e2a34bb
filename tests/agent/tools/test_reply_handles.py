"""Answering by handle: the merged inbox knows the seat that a handle belongs to, and never takes another one. And what
comes once more because nobody has answered it. Time stands still."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.tools.schemas.messages import InboxPeekArguments, InboxPopArguments, ReplyToWorkspaceArguments
from molecule_core.tools.schemas.replies import DeclineArguments, ReplyByHandleArguments
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, settle
from testing.waits import bounded
from tests.agent.inbox_server import StandIn
from tests.agent.tools.test_inbox_tools import Desk, Told, desk_of
from tests.requirements import requirement


def sent(server: StandIn, path: str) -> list[Any]:
    """The bodies that a server was sent to a path."""
    pairs = zip(server.asked, server.bodies, strict=True)
    return [body for (_, asked), body in pairs if asked.endswith(f"/{path}")]


async def waiting(desk: Desk) -> list[str]:
    """The ids of what waits."""
    return [each["activity_id"] for each in (await desk.verbs.peek_messages(InboxPeekArguments()))["messages"]]


@requirement("M27", "G11")
async def test_a_handle_finds_its_seat_among_several_and_settles_the_message(clock: FakeClock, tmp_path: Path) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    servers[0].put("a")
    servers[1].put("b")
    servers[1].put("c")
    async with desk_of(tmp_path, clock, *servers) as desk:
        await bounded(desk.wait(0))
        told = await desk.verbs.answer_by_handle(ReplyByHandleArguments(handle="m2-abcde", text="yes"), Told())
        left = await waiting(desk)

    assert (told["workspace_id"], told["answers"], told["state"], told["acknowledged"]) == (
        "w-2",
        "c",
        "answered",
        True,
    )
    assert sent(servers[1], "reply") == [{"handle": "m2-abcde", "text": "yes"}]
    assert sent(servers[0], "reply") == []
    assert left == ["a", "b"]
    assert servers[1].open_ids == ["b"]


@requirement("M27", "G11")
async def test_a_handle_that_two_seats_have_is_refused_with_the_choices_and_sent_where_it_is_said(
    clock: FakeClock, tmp_path: Path
) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    for each in servers:
        each.put(f"to-{each.workspace_id}")
    async with desk_of(tmp_path, clock, *servers) as desk:
        await bounded(desk.wait(0))
        with pytest.raises(ToolError, match="several of your workspaces: w-1, w-2") as caught:
            await desk.verbs.answer_by_handle(ReplyByHandleArguments(handle="m1-abcde", text="yes"), Told())
        assert [sent(each, "reply") for each in servers] == [[], []]
        told = await desk.verbs.answer_by_handle(
            ReplyByHandleArguments(handle="m1-abcde", text="yes", via_workspace="w-2"), Told()
        )
    assert caught.value.code == "ambiguous_workspace"
    assert (told["workspace_id"], told["answers"]) == ("w-2", "to-w-2")


@requirement("M27", "G11")
async def test_a_handle_of_none_is_asked_at_the_only_seat_and_else_refused_with_the_choices(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    other = StandIn(clock, "v")
    async with desk_of(tmp_path / "one", clock, server) as desk:
        with pytest.raises(ToolError, match="unknown handle"):
            await desk.verbs.answer_by_handle(ReplyByHandleArguments(handle="m9-zzzzz", text="yes"), Told())
    assert len(sent(server, "reply")) == 1
    async with desk_of(tmp_path / "two", clock, server, other) as desk:
        with pytest.raises(ToolError, match="Set via_workspace to the one to act as: w") as caught:
            await desk.verbs.decline_by_handle(DeclineArguments(handle="m9-zzzzz", reason="no"), Told())
        with pytest.raises(ToolError, match="not one of yours"):
            await desk.verbs.answer_by_handle(
                ReplyByHandleArguments(handle="m9-zzzzz", text="x", via_workspace="elsewhere"), Told()
            )
    assert caught.value.code == "ambiguous_workspace"
    assert (len(sent(server, "reply")), sent(other, "reply"), sent(other, "decline")) == (1, [], [])


@pytest.fixture
def server(clock: FakeClock, tmp_path: Path) -> StandIn:
    """The server of the workspace w."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return StandIn(clock, "w")


@requirement("M27", "G11")
async def test_a_handle_of_a_known_seat_as_another_workspace_is_refused_before_anything_is_sent(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    other = StandIn(clock, "v")
    server.put("a")
    async with desk_of(tmp_path, clock, server, other) as desk:
        await bounded(desk.wait(0))
        with pytest.raises(ToolError, match="belongs to a message to workspace w, not to v") as caught:
            await desk.verbs.answer_by_handle(
                ReplyByHandleArguments(handle="m1-abcde", text="x", via_workspace="v"), Told()
            )
    assert caught.value.code == "wrong_workspace"
    assert sent(other, "reply") == sent(server, "reply") == []


@requirement("M27")
async def test_a_handle_is_known_after_its_message_was_answered(clock: FakeClock, tmp_path: Path) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    servers[1].put("a")
    async with desk_of(tmp_path, clock, *servers) as desk:
        await bounded(desk.wait(0))
        both = [
            await desk.verbs.answer_by_handle(ReplyByHandleArguments(handle="m1-abcde", text="yes"), Told())
            for _ in range(2)
        ]
    assert both[0] == both[1]


@requirement("M27")
async def test_data_of_an_answer_is_sent_along(server: StandIn, clock: FakeClock, tmp_path: Path) -> None:
    server.put("a")
    arguments = ReplyByHandleArguments(handle="m1-abcde", text="done", data=[{"total": 1}])
    async with desk_of(tmp_path, clock, server) as desk:
        await bounded(desk.wait(0))
        await desk.verbs.answer_by_handle(arguments, Told())
    assert sent(server, "reply") == [{"handle": "m1-abcde", "text": "done", "data": [{"total": 1}]}]


@requirement("M26", "G10")
async def test_progress_leaves_the_message_open_and_a_refusal_closes_it(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("a")
    async with desk_of(tmp_path, clock, server) as desk:
        await bounded(desk.wait(0))
        begun = await desk.verbs.answer_by_handle(
            ReplyByHandleArguments(handle="m1-abcde", text="on it", progress=True), Told()
        )
        assert await waiting(desk) == ["a"]
        by_id = ReplyToWorkspaceArguments(text="still on it", activity_id="a", progress=True, workspace_id="w")
        assert (await desk.verbs.reply_to_workspace(by_id, Told()))["acknowledged"] is False
        assert await waiting(desk) == ["a"] == server.open_ids
        declined = await desk.verbs.decline_by_handle(DeclineArguments(handle="m1-abcde", reason="not mine"), Told())
        assert await waiting(desk) == [] == server.open_ids
    assert (begun["state"], begun["acknowledged"]) == ("open", False)
    assert (declined["state"], declined["answers"]) == ("declined", "a")


@requirement("G11")
async def test_the_handle_names_the_message_for_reply_to_workspace_too(clock: FakeClock, tmp_path: Path) -> None:
    servers = [StandIn(clock, "w-1"), StandIn(clock, "w-2")]
    servers[0].put("a")
    servers[1].put("b")
    servers[1].put("c")
    async with desk_of(tmp_path, clock, *servers) as desk:
        await bounded(desk.wait(0))
        told = await desk.verbs.reply_to_workspace(
            ReplyToWorkspaceArguments(text="yes", reply_handle="m2-abcde"), Told()
        )
        assert await waiting(desk) == ["a", "b"]
    assert (told["workspace_id"], told["acknowledged"]) == ("w-2", True)
    (notice,) = sent(servers[1], "notify")
    assert notice == {"message": "yes", "in_reply_to": "c", "reply_handle": "m2-abcde"}


@requirement("M27", "G11")
async def test_a_handle_that_was_not_seen_here_adopts_nothing_that_waits(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("a")
    async with desk_of(tmp_path, clock, server, single=True) as desk:
        await bounded(desk.wait(0))
        with pytest.raises(ToolError, match="unknown handle"):  # the server alone knows whose it is
            await desk.verbs.reply_to_workspace(ReplyToWorkspaceArguments(text="yes", reply_handle="m9-zzzzz"), Told())
        elsewhere = ReplyToWorkspaceArguments(text="yes", reply_handle="m9-zzzzz", activity_id="elsewhere")
        told = await desk.verbs.reply_to_workspace(elsewhere, Told())
        assert await waiting(desk) == ["a"] == server.open_ids
    assert sent(server, "notify") == [{"message": "yes", "reply_handle": "m9-zzzzz"}]
    assert (told["acknowledged"], server.count("/ack")) == (True, 0)  # the server has settled what the handle names


@requirement("M27", "G11")
@pytest.mark.parametrize("handle", ["m2-abcde", "m9-zzzzz"])
async def test_a_handle_beside_the_id_of_another_message_is_refused(
    server: StandIn, clock: FakeClock, tmp_path: Path, handle: str
) -> None:
    server.put("a")
    server.put("b")
    async with desk_of(tmp_path, clock, server) as desk:
        await bounded(desk.wait(0))
        with pytest.raises(ToolError, match="belong to two messages") as caught:
            await desk.verbs.reply_to_workspace(
                ReplyToWorkspaceArguments(text="yes", activity_id="a", reply_handle=handle), Told()
            )
        both = ReplyToWorkspaceArguments(text="yes", activity_id="b", reply_handle=" M2-ABCDE ")
        assert (await desk.verbs.reply_to_workspace(both, Told()))["acknowledged"] is True
        assert await waiting(desk) == ["a"]
    assert caught.value.code == "two_messages"
    assert [each["in_reply_to"] for each in sent(server, "notify")] == ["b"]


@requirement("M28", "G15")
async def test_a_reminder_that_comes_again_after_it_was_handled_is_no_news_a_second_time(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("a")
    async with desk_of(tmp_path, clock, server) as desk:
        assert await desk.next_id() == "a"
        await desk.verbs.pop_message(InboxPopArguments(activity_id="a"))
        server.remind("a")
        assert await desk.next_id() == "a"
        await desk.verbs.pop_message(InboxPopArguments(activity_id="a"))
        server.remind("a")  # handed out before the server heard that it is handled
        waiting_on = asyncio.create_task(desk.wait(60))
        await settle()
        assert server.rows[0].attempt == 3
        assert not waiting_on.done() and server.open_ids == []
        waiting_on.cancel()
        await asyncio.gather(waiting_on, return_exceptions=True)


@requirement("M28", "G15")
@pytest.mark.parametrize("handled", [False, True])
async def test_a_reminder_is_news_whether_its_message_waits_or_was_acknowledged(
    server: StandIn, clock: FakeClock, tmp_path: Path, handled: bool
) -> None:
    server.put("a")
    async with desk_of(tmp_path, clock, server) as desk:
        assert await desk.next_id() == "a"
        if handled:
            await desk.verbs.pop_message(InboxPopArguments(activity_id="a"))
        again = asyncio.create_task(desk.wait(60))
        await settle()
        assert not again.done()
        server.remind("a")
        message = (await bounded(again))["message"]
        assert (message["activity_id"], message["attempt"], message["reminder"]) == ("a", 2, True)
        # What is held is claimed anew now and then: that is no second reminder.
        waiting_on = asyncio.create_task(desk.wait(300))
        await settle()
        for _ in range(26):
            await clock.advance(5)
        assert not waiting_on.done()
        waiting_on.cancel()
        await asyncio.gather(waiting_on, return_exceptions=True)
        await desk.verbs.answer_by_handle(ReplyByHandleArguments(handle="m1-abcde", text="late"), Told())
    assert server.open_ids == []
