"""reply, decline and present_options over a real server, as the command line, LangChain and MCP hosts call them."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from testing.engines import Engine
from testing.mcp_clients import ERAS, hosted
from testing.running_server import Running, Seat, running
from testing.waits import eventually
from tests.requirements import requirement
from tests.tools.test_caller import chat, refusal
from tests.tools.tool_callers import Sitting


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that tells agents how to answer."""
    async with running(engine, place, tmp_path, push_instructions_enabled=True) as found:
        yield found


async def handed(tools: Sitting) -> Any:
    """The next message."""
    return (await tools("wait_for_message", timeout_secs=1))["message"]


def handle_of(message: Any) -> str:
    """What its instructions say names it."""
    return str(message["instructions"]["reply_handle"])


async def state_of(seat: Seat, activity_id: str) -> str:
    """What became of a message that wanted an answer."""
    page = await seat.api.get(f"/workspaces/{seat.id}/obligations", state="all")
    return str(next(each["state"] for each in page["obligations"] if each["activity_id"] == activity_id))


@requirement("M27", "G1")
async def test_a_handle_alone_answers_a_person_and_a_peer_and_acknowledges(server: Running) -> None:
    ops, peer, person = await server.seat("Ops"), await server.seat("Peer"), await server.person()
    tools, other = Sitting(ops), Sitting(peer)
    asked = (await person.send(ops.id, "tea?"))["activity_id"]
    told = await tools("reply", handle=handle_of(await handed(tools)), text="**yes**")
    assert (told["workspace_id"], told["peer_id"], told["answers"]) == (ops.id, "", asked)
    assert (told["state"], told["acknowledged"]) == ("answered", True)
    assert await chat(server.admin, ops.id) == [("user", "tea?"), ("agent", "**yes**")]
    assert await state_of(ops, asked) == "answered"

    await other("reply_to_workspace", text="and for me?", peer_id=ops.id, intent="request")
    told = await tools("reply", handle=handle_of(await handed(tools)), text="in the blue pot")
    assert told["peer_id"] == peer.id
    heard = await handed(other)
    assert (heard["text"], heard["peer_id"], heard["intent"]) == ("in the blue pot", ops.id, "inform")
    assert (await tools("inbox_peek"))["messages"] == []


@requirement("M27")
async def test_a_handle_that_is_used_twice_gives_the_first_result(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await person.send(ops.id, "tea?")
    tools = Sitting(ops)
    handle = handle_of(await handed(tools))
    first = await tools("reply", handle=handle, text="yes")
    again = await Sitting(ops)("reply", handle=handle, text="yes, of course")
    assert again == first
    assert await chat(server.admin, ops.id) == [("user", "tea?"), ("agent", "yes")]


@requirement("M27", "D20")
@pytest.mark.parametrize("host", ["sitting", *ERAS])
@pytest.mark.parametrize(("data", "outcome"), [([{"total": 42}], "completed"), ([{"total": "42"}], "failed")])
async def test_data_of_a_reply_is_what_a_check_of_a_schema_reads(
    server: Running, host: str, data: list[Any], outcome: str
) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    given = {"target_id": ops.id, "task": "add it up", "accept": [{"type": "schema", "schema": schema}], "rounds": 0}
    begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", given)
    async with contextlib.AsyncExitStack() as stack:
        call: Any = Sitting(ops)
        if host in ERAS:
            call = (await stack.enter_async_context(hosted(server, ops.token, host))).call
        message = (await call("wait_for_message", timeout_secs=1))["message"]
        answer = {"handle": handle_of(message), "text": "The total is in the data.", "data": data}
        assert (await call("reply", **answer))["acknowledged"]

    async def look() -> Any:
        return await lead.api.get(f"/delegations/{begun['delegation_id']}")

    ended = await eventually(look, lambda found: found["delegation"]["phase"] == "ended")
    assert ended["delegation"]["status"] == outcome
    assert [each["type"] for each in ended["acceptance"]["evidence"]] == ["schema"]


@requirement("M27")
async def test_a_handle_of_another_workspace_is_unknown(server: Running) -> None:
    ops, other, person = await server.seat("Ops"), await server.seat("Other"), await server.person()
    asked = (await person.send(ops.id, "tea?"))["activity_id"]
    handle = handle_of(await handed(Sitting(ops)))
    for tool, said in (("reply", {"text": "x"}), ("decline", {"reason": "x"})):
        assert (await refusal(Sitting(other)(tool, handle=handle, **said))).code == "unknown_handle"
        assert (await refusal(Sitting(ops)(tool, handle="m9-zzzzz", **said))).code == "unknown_handle"
    assert await state_of(ops, asked) == "open"


@requirement("M26")
async def test_progress_keeps_a_message_open_and_decline_says_why_it_is_closed(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    asked = (await person.send(ops.id, "tea?"))["activity_id"]
    tools = Sitting(ops)
    message = await handed(tools)
    begun = await tools("reply", handle=handle_of(message), text="on it", progress=True)
    assert (begun["state"], begun["acknowledged"], await state_of(ops, asked)) == ("open", False, "open")
    await tools("send_message_to_user", message="still on it", reply_handle=handle_of(message), progress=True)
    await tools("reply_to_workspace", text="nearly", activity_id=asked, progress=True)
    assert await state_of(ops, asked) == "open"
    assert [each["activity_id"] for each in (await tools("inbox_peek"))["messages"]] == [asked]

    declined = await tools("decline", handle=handle_of(message), reason="the kettle is broken")
    assert (declined["state"], declined["acknowledged"]) == ("declined", True)
    assert await state_of(ops, asked) == "declined"
    assert (await tools("inbox_peek"))["messages"] == []


@requirement("M26", "G2")
async def test_the_older_tools_close_a_message_by_its_handle(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    sent = [(await person.send(ops.id, f"message {number}"))["activity_id"] for number in range(2)]
    first, second = [await handed(tools) for _ in range(2)]
    await tools("send_message_to_user", message="to the first", reply_handle=handle_of(first))
    assert [await state_of(ops, each) for each in sent] == ["answered", "open"]
    await tools("reply_to_workspace", text="to the second", reply_handle=handle_of(second))
    assert [await state_of(ops, each) for each in sent] == ["answered", "answered"]


@requirement("M26", "M27", "G2")
@pytest.mark.parametrize("from_peer", [False, True])
async def test_an_answer_by_a_handle_that_was_not_seen_here_says_truly_whether_its_message_is_done(
    server: Running, from_peer: bool
) -> None:
    ops, peer, person = await server.seat("Ops"), await server.seat("Peer"), await server.person()
    answers: dict[str, Any] = {}
    if from_peer:
        await Sitting(peer)("reply_to_workspace", text="tea?", peer_id=ops.id, intent="request")
        answers["peer_id"] = peer.id
    else:
        await person.send(ops.id, "tea?")
    message = await handed(Sitting(ops))
    answers["reply_handle"] = handle_of(message)

    begun = await Sitting(ops)("reply_to_workspace", text="on it", progress=True, **answers)
    assert (begun["acknowledged"], await state_of(ops, message["activity_id"])) == (False, "open")
    told = await Sitting(ops)("reply_to_workspace", text="yes", **answers)
    assert (told["acknowledged"], told["note"]) == (True, "")
    assert await state_of(ops, message["activity_id"]) == "answered"
    assert await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true", limit=10) == []


@requirement("M27", "G2")
async def test_a_message_beside_whose_id_an_unseen_handle_stood_is_still_known(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    for text in ("first", "second"):
        await person.send(ops.id, text)
    first, second = await handed(tools), await handed(Sitting(ops))
    seen = tools.caller._shown_messages
    seen[first["activity_id"]] = replace(seen[first["activity_id"]], instructions=None)  # a server may tell nothing
    both = {"activity_id": first["activity_id"], "reply_handle": handle_of(second)}
    await tools("reply_to_workspace", text="to the second", **both)
    told = await tools("reply_to_workspace", text="to the first", activity_id=first["activity_id"])
    assert told["acknowledged"] is True


@requirement("M27", "G2", "G11")
async def test_with_several_seats_a_handle_that_was_shown_finds_its_own(server: Running) -> None:
    here, there, person = await server.seat("Here"), await server.seat("There"), await server.person()
    tools = Sitting(here, there)
    await person.send(there.id, "where?")
    message = await handed(tools)
    told = await tools("reply", handle=handle_of(message), text="there")
    assert told["workspace_id"] == there.id
    unseen = await refusal(Sitting(here, there)("reply", handle=handle_of(message), text="x"))
    assert unseen.code == "ambiguous_workspace" and here.id in unseen.text and there.id in unseen.text
    named = await Sitting(here, there)("reply", handle=handle_of(message), text="x", via_workspace=there.id)
    assert named["activity_id"] == told["activity_id"]


@requirement("M29", "G1")
async def test_a_question_with_options_is_asked_once_and_its_choice_comes_back(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    asked = [await tools("present_options", question="Tea?", options=["yes", "no"], key="toolu_1") for _ in range(2)]
    assert asked[0] == asked[1]
    page = await person.get(f"/workspaces/{ops.id}/chat-history")
    (line,) = page["messages"]
    assert (line["content"], line["options"]) == ("Tea?", ["yes", "no"])
    too_many = await refusal(tools("present_options", question="Which?", options=[str(each) for each in range(11)]))
    assert "Use at most 10." in too_many.text


@requirement("M27", "M29", "N1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_host_that_has_only_an_address_and_a_token_answers_by_handle(server: Running, era: Any) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    asked = [(await person.send(ops.id, text))["activity_id"] for text in ("tea?", "coffee?")]
    async with hosted(server, ops.token, era) as host:
        first = (await host.call("wait_for_message", timeout_secs=1))["message"]
        told = await host.call("reply", handle=handle_of(first), text="yes")
        second = (await host.call("wait_for_message", timeout_secs=1))["message"]
        declined = await host.call("decline", handle=handle_of(second), reason="no coffee here")
        await host.call("present_options", question="Which tea?", options=["green", "black"])
        assert "cannot act as" in await host.refused("reply", handle="m1-abcde", text="x", via_workspace="other")
    assert (told["state"], told["acknowledged"], declined["state"]) == ("answered", True, "declined")
    assert [await state_of(ops, each) for each in asked] == ["answered", "declined"]


@requirement("M27", "G11")
async def test_a_handle_beside_the_id_of_another_message_is_refused_or_alone_says_what_is_answered(
    server: Running,
) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    for text in ("first", "second"):
        await person.send(ops.id, text)
    first, second = await handed(tools), await handed(tools)
    both = {"activity_id": first["activity_id"], "reply_handle": handle_of(second)}
    assert (await refusal(tools("reply_to_workspace", text="no", **both))).code == "two_messages"
    # One who has seen neither cannot know: the handle counts, and the other message stays as it is.
    told = await Sitting(ops)("reply_to_workspace", text="to the second", **both)
    assert told["acknowledged"] is True
    left = await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true", limit=10)
    assert [each["id"] for each in left] == [first["activity_id"]]
