"""Tools over the public API of a real server: routes as declared, and the inbox by plain claims and acks."""

import asyncio
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import LocalCall, RouteCall, ToolError
from testing.mcp_clients import hosted
from testing.running_server import Running
from testing.waits import IN_PROCESS_SECONDS, bounded, until_waiting
from tests.requirements import requirement
from tests.tools.tool_callers import Sitting


async def refusal(call: Any) -> ToolError:
    """Why a tool was refused."""
    with pytest.raises(ToolError) as refused:
        await call
    return refused.value


async def chat(api: ApiClient, workspace_id: str) -> list[tuple[str, str]]:
    """What was said between a workspace and its people."""
    page = await api.get(f"/workspaces/{workspace_id}/chat-history")
    return [(line["role"], line["content"]) for line in page["messages"]]


# -- the registry and the server ---------------------------------------------------------------------------------------


@requirement("G1", "G5")
async def test_every_route_of_the_registry_is_a_route_of_the_server(server: Running) -> None:
    offered = {(route.method, route.path) for route in server.server.routes.routes}
    asked = {(spec.call.method, spec.call.path) for spec in TOOLS if isinstance(spec.call, RouteCall)}
    known = {(method, path.replace("{id}", "{workspace_id}")) for method, path in offered}
    assert asked - known == set()


@requirement("G1", "G5")
async def test_every_other_verb_of_the_registry_can_be_run_here(server: Running) -> None:
    ops = await server.seat()
    local = {spec.call.name for spec in TOOLS if isinstance(spec.call, LocalCall)}
    assert set(Sitting(ops).caller.local_names) == local


# -- routes ------------------------------------------------------------------------------------------------------------


@requirement("G1")
async def test_tools_that_are_routes_do_what_the_routes_do(server: Running) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer", role="looks after tea")
    tools = Sitting(ops)

    found = await tools("list_peers", q="tea")
    assert [(each["id"], each["role"]) for each in found["peers"]] == [(peer.id, "looks after tea")]
    assert (await tools("list_peers", q="coffee"))["peers"] == []
    info = await tools("get_workspace_info")
    assert (info["id"], info["name"], info["status"]) == (ops.id, "Ops", "awaiting_agent")
    assert await tools("update_agent_card", card={"name": "Ops 2"}) == {"status": "updated", "workspace_id": ops.id}
    assert (await tools("get_workspace_info"))["agent_card"] == {"name": "Ops 2"}
    sent = await tools("send_message_to_user", message="done")
    assert (sent["status"], sent["workspace_id"]) == ("sent", ops.id)
    assert await chat(server.admin, ops.id) == [("agent", "done")]


async def test_broadcast_reaches_all_where_it_is_allowed_and_says_so_where_not(server: Running) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer")
    tools = Sitting(ops)
    refused = await refusal(tools("broadcast_message", message="fire drill"))
    assert refused.code == "broadcast_disabled"
    assert "operator" in refused.text
    await server.let_broadcast(ops.id)
    assert (await tools("broadcast_message", message="fire drill"))["delivered"] == 1
    (heard,) = (await Sitting(peer)("inbox_peek"))["messages"]
    assert (heard["text"], heard["kind"], heard["peer_id"]) == ("fire drill", "broadcast", ops.id)


@requirement("G1")
async def test_what_was_committed_is_recalled_by_words_scope_and_drawer(server: Running) -> None:
    ops = await server.seat("Ops")
    tools = Sitting(ops)
    kept = await tools("commit_memory", content="the tea is on the upper shelf", namespace="kitchen")
    await tools("commit_memory", content="the key is under the mat")
    assert (kept["workspace_id"], kept["scope"], kept["namespace"]) == (ops.id, "LOCAL", "kitchen")
    for wish in ({"query": "tea"}, {"namespace": "kitchen"}, {"query": "shelf", "scope": "LOCAL"}):
        found = await tools("recall_memory", **wish)
        assert [(each["id"], each["content"]) for each in found["memories"]] == [
            (kept["id"], "the tea is on the upper shelf")
        ]
    assert len((await tools("recall_memory", limit=1))["memories"]) == 1
    assert (await tools("recall_memory", scope="GLOBAL"))["memories"] == []


async def test_a_call_that_is_repeated_with_its_key_acts_once(server: Running) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer")
    tools = Sitting(ops)
    twice = [await tools("send_message_to_user", message="once", key="toolu_1") for _ in range(2)]
    assert twice[0] == twice[1]
    for _ in range(2):
        await tools("reply_to_workspace", text="once", peer_id=peer.id, key="toolu_2")
    assert len((await Sitting(peer)("inbox_peek"))["messages"]) == 1
    assert await chat(server.admin, ops.id) == [("agent", "once")]


# -- the inbox ---------------------------------------------------------------------------------------------------------


@requirement("G1")
async def test_a_message_waits_until_it_is_answered(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    sent = (await person.send(ops.id, "where is the tea?"))["activity_id"]

    peeked = [(await tools("inbox_peek"))["messages"] for _ in range(2)]
    assert [[each["activity_id"] for each in page] for page in peeked] == [[sent]] * 2
    got = (await tools("wait_for_message", timeout_secs=0))["message"]
    assert (got["text"], got["kind"], got["arrival_workspace_id"]) == ("where is the tea?", "canvas_user", ops.id)
    assert (await tools("wait_for_message", timeout_secs=0))["message"] is None
    assert [each["activity_id"] for each in (await tools("inbox_peek"))["messages"]] == [sent]

    replied = await tools("reply_to_workspace", text="on the shelf", activity_id=sent)
    assert (replied["workspace_id"], replied["peer_id"], replied["acknowledged"]) == (ops.id, "", True)
    assert (await tools("inbox_peek"))["messages"] == []
    assert await chat(server.admin, ops.id) == [("user", "where is the tea?"), ("agent", "on the shelf")]


async def test_a_message_comes_with_the_number_of_others_that_wait(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    for number in range(3):
        await person.send(ops.id, f"message {number}")
    agent = Sitting(ops)
    found = []
    for _ in range(3):
        result = await agent("wait_for_message", timeout_secs=0)
        found.append(result["waiting"])
        await agent("inbox_pop", activity_id=result["message"]["activity_id"])
    assert found == [2, 1, 0]


async def test_a_waiting_agent_is_woken_by_the_message(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    waiting = asyncio.create_task(Sitting(ops)("wait_for_message", timeout_secs=IN_PROCESS_SECONDS))
    await until_waiting(server.server, 1)
    await person.send(ops.id, "wake up")
    assert (await waiting)["message"]["text"] == "wake up"


async def test_what_was_popped_does_not_come_again(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    tools = Sitting(ops)
    sent = (await person.send(ops.id, "for your information"))["activity_id"]
    await tools("wait_for_message", timeout_secs=0)
    popped = await tools("inbox_pop", activity_id=sent)
    assert (popped["workspace_id"], popped["removed"]) == (ops.id, True)
    assert (await tools("inbox_peek"))["messages"] == []
    assert (await refusal(tools("inbox_pop", activity_id="019c0000-0000-7000-8000-000000000000"))).code == (
        "unknown_message"
    )


async def test_a_caller_that_remembers_nothing_names_the_attempt(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    sent = (await person.send(ops.id, "hi"))["activity_id"]
    got = (await Sitting(ops)("wait_for_message", timeout_secs=0))["message"]
    assert "attempt" in (await refusal(Sitting(ops)("inbox_pop", activity_id=sent))).text
    assert (await Sitting(ops)("inbox_pop", activity_id=sent, attempt=got["attempt"]))["removed"] is True


async def test_a_message_that_nobody_acknowledged_comes_again_after_its_lease(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await person.send(ops.id, "hi")
    tools = Sitting(ops, lease=1)
    first = (await tools("wait_for_message", timeout_secs=0))["message"]
    second = (await tools("wait_for_message", timeout_secs=IN_PROCESS_SECONDS))["message"]
    assert (first["attempt"], second["attempt"], second["redelivered"]) == (1, 2, True)


# -- answers go where they belong --------------------------------------------------------------------------------------


@requirement("G1")
async def test_two_peers_talk_and_both_can_read_it_back(server: Running) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer")
    one, other = Sitting(ops), Sitting(peer)
    await one("reply_to_workspace", text="may I have tea?", peer_id=peer.id, intent="request")
    asked = (await other("wait_for_message", timeout_secs=0))["message"]
    assert (asked["peer_id"], asked["peer_name"], asked["intent"]) == (ops.id, "Ops", "request")
    await other("reply_to_workspace", text="yes, the green one", peer_id=ops.id, activity_id=asked["activity_id"])
    answer = (await one("wait_for_message", timeout_secs=0))["message"]
    assert (answer["text"], answer["intent"]) == ("yes, the green one", "inform")

    for tools, own, roles in ((one, peer, ["agent", "peer"]), (other, ops, ["peer", "agent"])):
        history = await tools("chat_history", peer_id=own.id)
        assert [line["text"] for line in history["messages"]] == ["may I have tea?", "yes, the green one"]
        assert [line["role"] for line in history["messages"]] == roles
        assert history["reached_end"] is True


async def test_an_answer_to_the_wrong_one_is_refused_before_anything_is_sent(server: Running) -> None:
    ops, peer, third = [await server.seat(name) for name in ("Ops", "Peer", "Third")]
    person, tools = await server.person(), Sitting(ops)
    from_person = (await person.send(ops.id, "hi"))["activity_id"]
    await Sitting(peer)("reply_to_workspace", text="hello", peer_id=ops.id)
    from_peer = (await tools("inbox_peek"))["messages"][1]["activity_id"]

    wrong = [
        await refusal(tools("reply_to_workspace", text="x", activity_id=from_person, peer_id=peer.id)),
        await refusal(tools("reply_to_workspace", text="x", activity_id=from_peer)),
        await refusal(tools("reply_to_workspace", text="x", activity_id=from_peer, peer_id=third.id)),
    ]
    assert [each.code for each in wrong] == ["wrong_peer"] * 3
    assert "Omit peer_id" in wrong[0].text
    assert peer.id in wrong[1].text
    foreign = await refusal(
        Sitting(third)("reply_to_workspace", text="x", activity_id=from_peer, workspace_id=third.id, peer_id=peer.id)
    )
    assert foreign.code == "wrong_workspace"
    own = await refusal(tools("reply_to_workspace", text="x", peer_id=ops.id))
    assert "your own" in own.text
    assert (await Sitting(third)("inbox_peek"))["messages"] == []
    assert await chat(server.admin, ops.id) == [("user", "hi")]


async def test_an_answer_of_another_process_than_the_reader_acknowledges_too(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    sent = (await person.send(ops.id, "hi"))["activity_id"]
    await Sitting(ops)("wait_for_message", timeout_secs=0)
    told = await Sitting(ops)("reply_to_workspace", text="yes", activity_id=sent)
    assert (told["status"], told["acknowledged"], told["note"]) == ("sent", True, "")
    assert await chat(server.admin, ops.id) == [("user", "hi"), ("agent", "yes")]


@requirement("M15", "G1")
@pytest.mark.parametrize("tool", ["send_message_to_user", "present_options"])
@pytest.mark.parametrize("way", ["caller", "mcp"])
async def test_what_a_shown_message_is_answered_with_acknowledges_it_without_naming_it(
    server: Running, tool: str, way: str
) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    await person.send(ops.id, "hi")
    given = {"message": "yes"} if tool == "send_message_to_user" else {"question": "Sure?", "options": ["a", "b"]}
    if way == "caller":
        tools = Sitting(ops)
        await tools("wait_for_message", timeout_secs=0)
        await tools(tool, **given)
    else:
        async with hosted(server, ops.token, "stateless") as client:
            await client.call("wait_for_message", timeout_secs=1)
            await client.call(tool, **given)
    assert await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true") == []


async def test_the_chat_with_a_person_is_paged_back(server: Running) -> None:
    tools = Sitting(await server.seat("Ops"))
    for number in range(5):
        await tools("send_message_to_user", message=f"line {number}")
    newest = await tools("chat_history", limit=2)
    assert [line["text"] for line in newest["messages"]] == ["line 3", "line 4"]
    older = await tools("chat_history", limit=3, before_ts=newest["messages"][0]["created_at"])
    assert [line["text"] for line in older["messages"]] == ["line 0", "line 1", "line 2"]
    assert (newest["reached_end"], older["reached_end"]) == (False, True)


# -- several seats -----------------------------------------------------------------------------------------------------


@requirement("G2")
async def test_with_several_seats_each_message_is_answered_from_its_own(server: Running) -> None:
    here, there = await server.seat("Here"), await server.seat("There")
    person, tools = await server.person(), Sitting(here, there)
    sent = {seat.id: (await person.send(seat.id, f"to {seat.name}"))["activity_id"] for seat in (here, there)}
    got = [(await tools("wait_for_message", timeout_secs=0))["message"] for _ in range(2)]
    assert {each["arrival_workspace_id"]: each["activity_id"] for each in got} == sent
    for each in got:
        told = await tools("reply_to_workspace", text=f"answer to {each['text']}", activity_id=each["activity_id"])
        assert told["workspace_id"] == each["arrival_workspace_id"]
    assert (await tools("inbox_peek"))["messages"] == []
    assert (await chat(server.admin, there.id))[1] == ("agent", "answer to to There")


async def test_a_question_that_was_slower_brings_its_message_to_the_next_call_or_gives_it_back(server: Running) -> None:
    here, there = await server.seat("Here"), await server.seat("There")
    person, tools = await server.person(), Sitting(here, there)
    waiting = asyncio.create_task(tools("wait_for_message", timeout_secs=IN_PROCESS_SECONDS))
    await until_waiting(server.server, 2)
    await person.send(here.id, "first")
    assert (await waiting)["message"]["text"] == "first"
    await person.send(there.id, "second")  # while nobody asks: only the question that was left behind
    assert (await tools("wait_for_message", timeout_secs=IN_PROCESS_SECONDS))["message"]["text"] == "second"

    again = asyncio.create_task(tools("wait_for_message", timeout_secs=IN_PROCESS_SECONDS))
    await until_waiting(server.server, 2)
    await person.send(there.id, "third")
    await again
    await person.send(here.id, "fourth")
    await bounded(asyncio.wait(tools.caller._claims._polls.values()))
    await tools.caller.close()
    assert (await Sitting(here)("wait_for_message", timeout_secs=0))["message"]["text"] == "fourth"


@requirement("G2")
async def test_with_several_seats_a_call_that_names_none_is_refused_with_the_choices(server: Running) -> None:
    here, there = await server.seat("Here"), await server.seat("There")
    foreign = await server.seat("Foreign")
    tools = Sitting(here, there)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("send_message_to_user", {"message": "hi"}),
        ("reply_to_workspace", {"text": "hi"}),
        ("chat_history", {}),
    ]
    for tool, given in calls:
        refused = await refusal(tools(tool, **given))
        assert refused.code == "ambiguous_workspace"
        assert here.id in refused.text and there.id in refused.text
    unknown = await refusal(tools("list_peers", via_workspace=foreign.id))
    assert unknown.code == "unknown_workspace"
    sent = await tools("send_message_to_user", message="hi", _as_workspace=there.id)
    assert sent["workspace_id"] == there.id


@requirement("G2")
async def test_with_several_workspaces_the_peers_of_each_are_listed_and_marked(server: Running) -> None:
    lead = await server.seat("Lead")
    here, there = await server.seat("Here", parent_id=lead.id), await server.seat("There")
    peers = await Sitting(here, there)("list_peers")
    marked = {(peer["name"], peer["via_workspace"]) for peer in peers["peers"]}
    assert marked == {("Lead", here.id), ("Lead", there.id)}
    found = await Sitting(here, there)("list_peers", q="nobody of this name")
    assert (found["peers"], found["workspace_id"], found["note"]) == ([], "", "")
    one = await Sitting(here, there)("list_peers", via_workspace=there.id)
    assert (one["workspace_id"], [peer["name"] for peer in one["peers"]]) == (there.id, ["Lead"])


async def test_who_one_is_lists_all_seats_and_where_they_are(server: Running) -> None:
    here, there = await server.seat("Here"), await server.seat("There")
    told = await Sitting(here, there, url=server.url)("get_runtime_identity")
    assert [(each["workspace_id"], each["name"], each["platform_url"]) for each in told["workspaces"]] == [
        (here.id, "Here", server.url),
        (there.id, "There", server.url),
    ]


async def test_a_seat_whose_server_is_away_holds_up_no_other_one(server: Running) -> None:
    ops, lost = await server.seat("Ops"), await server.seat("Lost")
    person = await server.person()
    async with ApiClient("http://127.0.0.1:9", "t" * 40) as nowhere:
        lost.api = nowhere
        await person.send(ops.id, "hi")
        assert (await Sitting(ops, lost)("wait_for_message", timeout_secs=0))["message"]["text"] == "hi"
        gone = await refusal(Sitting(lost)("wait_for_message", timeout_secs=0))
        assert gone.code == "no_answer"
        status = (await Sitting(lost)("get_runtime_identity"))["workspaces"][0]["status"]
        assert "did not answer" in status
