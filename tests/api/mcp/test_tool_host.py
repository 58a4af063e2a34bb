"""The tools on the server: each is there, each takes the same guards, rates and figures as its route."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.config import read_configuration
from molecule_core.agent.host.runtime import AgentRuntime
from molecule_core.api.mcp import tool_host
from molecule_core.api.routing import WORKSPACE
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners import delegation_tools, file_tools
from molecule_core.tools.schemas.replies import DeclineArguments, ReplyByHandleArguments
from molecule_core.tools.spec import LocalCall, RouteCall, ToolSpec
from testing.engines import Engine as StoreEngine
from testing.mcp_clients import ERAS, Era, calling, hosted, line_of, within
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.waits import bounded, refused
from tests.requirements import requirement

each_tool = pytest.mark.parametrize("spec", TOOLS, ids=[spec.name for spec in TOOLS])


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


@requirement("G1")
@each_tool
async def test_the_server_has_a_way_to_do_every_tool(plain: Running, spec: ToolSpec) -> None:
    host, table = plain.server.mcp_routes._host, plain.server.routes.routes
    if isinstance(spec.call, LocalCall):
        assert spec.call.name in host.local_tools
        return
    assert isinstance(spec.call, RouteCall)
    path = spec.call.path.replace("{workspace_id}", "{id}")
    (route,) = [each for each in table if (each.method, each.path) == (spec.call.method, path)]
    assert WORKSPACE in route.access.kinds
    assert not route.streams_body and not route.upgrades


LOCALS = {spec.call.name for spec in TOOLS if isinstance(spec.call, LocalCall)}


def _of_the_agent(place: Path) -> Iterable[str]:
    """`molecule mcp`."""
    seat = {"WORKSPACE_ID": "a", "MOLECULE_WORKSPACE_TOKEN": "t", "PLATFORM_URL": "http://127.0.0.1:9"}
    config = read_configuration({**seat, "CONFIGS_DIR": str(place)})
    engine = AgentRuntime(config, clock=SystemClock(), card=dict, client=dict, on_refused=lambda _: None)
    return engine._local_tools.keys()


def _of_one_call(_place: Path) -> Iterable[str]:
    """`molecule tool` and LangChain."""
    clock = SystemClock()
    return ToolRunner([], clock=clock, ids=IdGenerator(clock, SystemRandomness()), runtime="", version="").local_names


@requirement("G1", "G5")
@pytest.mark.parametrize("names", [_of_the_agent, _of_one_call])
async def test_every_other_host_has_a_way_of_its_own_for_the_same_verbs(
    names: Callable[[Path], Iterable[str]], tmp_path: Path
) -> None:
    assert set(names(tmp_path)) == LOCALS


@requirement("G1")
async def test_the_server_lists_the_registry_and_nothing_else(plain: Running) -> None:
    host = plain.server.mcp_routes._host
    assert tuple(host.tools()) == TOOLS
    assert host.local_tools.keys() == LOCALS


@requirement("G1")
@each_tool
async def test_a_tool_that_is_called_does_what_it_promises(server: Running, spec: ToolSpec) -> None:
    ops, peer, person = await server.seat("Ops"), await server.seat("Peer"), await server.person()
    await server.let_broadcast(ops.id)
    waiting = await person.send(ops.id, "hello")
    wishes: dict[str, dict[str, Any]] = {
        "present_options": {"question": "Tea?", "options": ["yes", "no"]},
        "reply_to_workspace": {"text": "hi", "peer_id": peer.id},
        "send_message_to_user": {"message": "hi"},
        "update_agent_card": {"card": {"name": "Ops"}},
        "broadcast_message": {"message": "hi"},
        "wait_for_message": {"timeout_secs": 1},
        "inbox_pop": {"activity_id": waiting["activity_id"]},
        "commit_memory": {"content": "the shop opens at nine"},
        "request_approval": {"action": "open the shop", "reason": "it is nine", "wait": 0},
    }
    if spec.name == "decide_approval":
        child = await server.seat("Child", parent_id=ops.id)
        await ops.api.post("/registry/heartbeat", {"workspace_id": ops.id})
        asked = await child.api.post(f"/workspaces/{child.id}/approvals", {"action": "open the shop"})
        wishes[spec.name] = {"approval_id": asked["approval_id"], "decision": "approve"}
    if spec.name in delegation_tools.TOOL_NAMES:
        given = {"target_id": peer.id, "task": "Make tea"}
        task = (await ops.api.post(f"/workspaces/{ops.id}/delegate", given))["delegation_id"]
        wishes |= {"delegate_task": {"workspace_id": peer.id, "task": "Make coffee", "wait": 0}}
        wishes |= {"delegate_task_async": {"workspace_id": peer.id, "task": "Make coffee"}}
        wishes |= {name: {"task_id": task} for name in ("check_task_status", "cancel_task", "report_progress")}
    if spec.name in file_tools.TOOL_NAMES:
        file = (await ops.api.upload(f"/workspaces/{ops.id}/chat/uploads", "a.txt", b"tea", "text/plain"))["files"][0]
        wishes |= {"read_file": {"uri": file["uri"]}, "upload_file": {"text": "tea", "name": "b.txt"}}
    if spec.section == "collab":
        async with hosted(server, ops.token, "stateless") as host:
            await host.call("spawn_agent", task_name="tea", message="Make tea")
        wishes |= {"spawn_agent": {"task_name": "coffee", "message": "Make coffee"}, "list_agents": {}}
        wishes |= {name: {"target": "tea", "message": "now"} for name in ("send_message", "followup_task")}
        wishes |= {name: {"target": "tea"} for name in ("interrupt_agent", "close_agent", "resume_agent")}
        wishes["wait_agent"] = {"targets": ["tea"], "timeout": 1}
    arguments = wishes.get(spec.name, {})
    if spec.arguments_type in (ReplyByHandleArguments, DeclineArguments):
        (row,) = await ops.api.claim(ops.id, lease=5, wait=1)
        org, message = (await server.admin.get("/orgs"))[0]["id"], row["request_body"]["params"]["message"]
        handle = make_handle(org, "", ops.id, message.get("contextId"), row["id"], row["seq"])
        arguments = {"handle": handle, **({"text": "hi"} if spec.name == "reply" else {"reason": "no"})}
    caller = peer if spec.name == "report_progress" else ops
    async with hosted(server, caller.token, "stateless") as host:
        result = await host.result(spec.name, **arguments)
    assert not result.is_error, result
    assert set(spec.output_schema["properties"]) >= set(result.structured_content)


@requirement("P3", "G11")
async def test_no_tool_acts_as_another_workspace(server: Running, era: Era) -> None:
    ops, peer = await server.seat("Ops"), await server.seat("Peer")
    async with hosted(server, ops.token, era) as host:
        for tool, arguments in (
            ("list_peers", {"via_workspace": peer.id}),
            ("list_peers", {"source_workspace_id": peer.id}),
            ("send_message_to_user", {"message": "hi", "workspace_id": peer.id}),
            ("reply_to_workspace", {"text": "hi", "workspace_id": peer.id}),
        ):
            assert ops.id in await host.refused(tool, **arguments)
        assert (await host.call("list_peers", via_workspace=ops.id))["workspace_id"] == ops.id
    assert (await server.admin.get(f"/workspaces/{peer.id}/chat-history"))["messages"] == []


@requirement("M3", "G1")
async def test_a_refusal_of_a_route_is_told_to_the_model_with_what_to_do(server: Running, era: Era) -> None:
    ops = await server.seat("Ops")
    child = await server.seat("Child", parent_id=ops.id)
    grandchild = await server.seat("Grandchild", parent_id=child.id)
    async with hosted(server, ops.token, era) as host:
        said = await host.refused("reply_to_workspace", text="hi", peer_id=grandchild.id)
        assert "cannot communicate per hierarchy rules" in said
        assert "Ask the operator to set broadcast_enabled" in await host.refused("broadcast_message", message="hi")


@requirement("S22")
async def test_tools_take_from_the_same_allowance_as_requests(engine: StoreEngine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=within(sends_per_minute=3)) as server:
        ops = await server.seat("Ops")
        async with hosted(server, ops.token, "stateless") as host:
            await ops.api.post(f"/workspaces/{ops.id}/notify", {"message": "one"})
            for number in ("two", "three"):
                await host.call("send_message_to_user", message=number)
            said = await host.refused("send_message_to_user", message="four")
            assert "rate limit exceeded. Try again in" in said
            error = await refused(ops.api.post(f"/workspaces/{ops.id}/notify", {"message": "five"}))
            assert error.status == 429


@requirement("O4")
async def test_tools_are_counted_with_their_routes_and_sessions_have_figures(server: Running) -> None:
    ops = await server.seat("Ops")
    line = line_of(server, ops)
    await line.begin()
    await line.post(calling("list_peers"))
    text = (await ask(server.port, "GET", "/metrics", token=ADMIN_TOKEN)).body.decode()
    assert 'molecule_http_requests_total{method="GET",route="/registry/{id}/peers",status="2xx"} 1' in text
    assert "molecule_mcp_sessions 1" in text
    assert 'molecule_mcp_sessions_total{how="begun"} 1' in text


@requirement("P2", "G1")
async def test_a_call_that_its_host_repeats_is_done_once(server: Running, era: Era) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    async with hosted(server, ops.token, era) as host:
        found = [
            await host.call("send_message_to_user", meta={"claudecode/toolUseId": "toolu_01"}, message="once")
            for _ in range(2)
        ]
        other = await host.call("send_message_to_user", message="once")
    assert found[0] == found[1] != other
    chat = await person.get(f"/workspaces/{ops.id}/chat-history")
    assert [each["content"] for each in chat["messages"]] == ["once", "once"]


@requirement("M18", "G10")
async def test_what_was_taken_is_acknowledged_without_its_attempt_only_by_who_took_it(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    mine, other = line_of(server, ops), line_of(server, ops)
    await mine.begin()
    await other.begin()
    receipt = await person.send(ops.id, "one")
    await mine.post(calling("wait_for_message", {"timeout_secs": 1}))

    wish = calling("inbox_pop", {"activity_id": receipt["activity_id"]})
    refusal = (await other.post(wish)).json["result"]
    assert (refusal["isError"], refusal["_meta"]["molecule/code"]) == (True, "attempt_missing")
    done = (await mine.post(wish)).json["result"]
    assert done["structuredContent"]["removed"] is True
    peeked = (await mine.post(calling("inbox_peek"))).json["result"]["structuredContent"]["messages"]
    assert peeked == []


@requirement("G1", "S8")
async def test_eight_agents_of_two_organisations_answer_at_the_origin_of_each_message(server: Running) -> None:
    orgs = [await server.org("A"), await server.org("B")]
    seats = [await server.seat(f"Seat {n}", org_id=orgs[n % 2]) for n in range(8)]
    people = [await server.person("operator", org_id) for org_id in orgs]

    async def work(number: int, era: Era) -> None:
        seat = seats[number]
        async with hosted(server, seat.token, era, "/mcp") as host:
            for _ in range(5):
                waited = await host.call("wait_for_message", timeout_secs=5)
                message = waited["message"]
                assert message["arrival_workspace_id"] == seat.id
                text = f"{seat.name} heard {message['text']}"
                await host.call("reply_to_workspace", text=text, activity_id=message["activity_id"])

    sent = [people[n % 2].send(seat.id, f"{k} for {seat.name}") for k in range(5) for n, seat in enumerate(seats)]
    await bounded(asyncio.gather(*sent))
    async with asyncio.timeout(60):
        await asyncio.gather(*(work(n, ERAS[n % 2]) for n in range(8)))
    for number, seat in enumerate(seats):
        chat = await people[number % 2].get(f"/workspaces/{seat.id}/chat-history")
        said = sorted(each["content"] for each in chat["messages"] if each["role"] == "agent")
        assert said == [f"{seat.name} heard {k} for {seat.name}" for k in range(5)]


@requirement("TH10")
@pytest.mark.parametrize(("status", "nothing"), [("inProgress", True), ("completed", False), ("interrupted", False)])
def test_a_server_that_is_being_closed_keeps_no_end_of_a_wait_from_who_waited(status: str, nothing: bool) -> None:
    path = "/threads/t/agents/wait"
    assert tool_host._is_empty_long_poll({"call": {"status": status}}, None, path) is nothing
