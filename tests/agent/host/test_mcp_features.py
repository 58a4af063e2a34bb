"""What `molecule mcp` offers beside its tools: the same as the endpoint of the server, over stdio, in both eras."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from testing.mcp_host import Agent, agent, several, single
from testing.running_server import Running
from testing.waits import bounded
from tests.requirements import requirement

TASKS: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": TASKS},
}


async def text_of(process: Agent, prompt: str, **arguments: str) -> str:
    """The text of a prompt."""
    found = await process.request("prompts/get", {"name": prompt, "arguments": arguments})
    return str(found["messages"][0]["content"]["text"])


async def start_thread(server: Running, workspace_id: str) -> str:
    """A thread of a workspace."""
    body = {"base_instructions": "Be.", "input": "one"}
    return str((await server.admin.post(f"/workspaces/{workspace_id}/threads", body))["thread_id"])


@requirement("N1")
async def test_slash_commands_name_the_tools_as_the_host_does(one: Running, state: Path) -> None:
    lead = await one.seat("Lead")
    desk = await one.seat("Desk", parent_id=lead.id)
    async with agent(state, **single(one, lead)) as process:
        capabilities = (await process.greet("claude-code"))["capabilities"]
        assert (capabilities["prompts"], capabilities["resources"]) == ({}, {"subscribe": True})
        text = await text_of(process, "ask", workspace="desk", question="Is it open?")
        assert f'`mcp__molecule__delegate_task` with `workspace_id` "{desk.id}"' in text
        params = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "workspace", "value": "d"}}
        assert (await process.request("completion/complete", params))["completion"]["values"] == ["Desk"]


@requirement("N1")
async def test_a_host_with_two_servers_reaches_the_resources_and_peers_of_both(
    one: Running, two: Running, state: Path
) -> None:
    here, there = await one.seat("Here"), await two.seat("There")
    peer = await two.seat("Far desk", parent_id=there.id)
    threads = [await start_thread(one, here.id), await start_thread(two, there.id)]
    async with agent(state, **several((one, here), (two, there))) as process:
        await process.greet()
        text = await text_of(process, "delegate", workspace="Far desk", task="Sweep")
        assert f'`workspace_id` "{peer.id}" and `via_workspace` "{there.id}"' in text
        found, cursor = [], None
        while True:
            page = await process.request("resources/list", {} if cursor is None else {"cursor": cursor})
            found += [each["uri"] for each in page["resources"]]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert found == [f"molecule://threads/{each}" for each in threads]
        for uri, thread in zip(found, threads, strict=True):
            content = (await process.request("resources/read", {"uri": uri}))["contents"][0]
            assert json.loads(content["text"])["thread_id"] == thread


@requirement("N1")
async def test_a_host_that_starts_without_its_server_gets_an_empty_list_in_time(
    one: Running, two: Running, state: Path
) -> None:
    away, here = await one.seat("Away"), await two.seat("Here")
    thread = await start_thread(two, here.id)
    with socket.socket() as silent:  # the system accepts connections, and nothing answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        entries = [
            {"id": away.id, "token": away.token, "platform_url": url},
            {"id": here.id, "token": here.token, "platform_url": two.url},
        ]
        async with agent(state, MOLECULE_WORKSPACES=json.dumps(entries)) as process:
            await process.greet()
            assert len((await process.request("prompts/list"))["prompts"]) == 3
            listed = await process.request("resources/list")
            assert [each["uri"] for each in listed["resources"]] == [f"molecule://threads/{thread}"]


@requirement("N1")
async def test_a_subscribed_thread_notifies_the_host(one: Running, state: Path) -> None:
    ops = await one.seat("Ops")
    thread = await start_thread(one, ops.id)
    uri = f"molecule://threads/{thread}"
    async with agent(state, **single(one, ops)) as process:
        await process.greet()
        assert await process.request("resources/subscribe", {"uri": uri}) == {}
        await one.admin.post(f"/threads/{thread}/turns", {"input": "two"})
        await process.until(lambda each: any(note["params"] == {"uri": uri} for note in each.notifications))
        answer = await bounded(process.begin("resources/subscribe", {"uri": f"{uri}0"})[1])
        assert answer["error"]["code"] == -32002


@requirement("N1", "D10")
async def test_a_delegated_task_outlives_the_process_that_began_it(one: Running, state: Path) -> None:
    lead = await one.seat("Lead")
    desk = await one.seat("Desk", parent_id=lead.id)
    arguments = {"workspace_id": desk.id, "task": "Make tea", "wait": 60}
    async with agent(state, **single(one, lead)) as process:
        await process.greet()
        call = {"name": "delegate_task", "arguments": arguments, "task": {}}
        id_ = (await process.request("tools/call", call))["task"]["taskId"]
        await process.kill()
    async with agent(state, **single(one, lead)) as process:
        await process.greet()
        assert (await process.request("tasks/get", {"taskId": id_}))["status"] == "working"
        path = f"/workspaces/{desk.id}/delegations/{id_}/update"
        await desk.api.post(path, {"status": "completed", "result": "Two cups."})
        result = await process.request("tasks/result", {"taskId": id_})
        assert result["structuredContent"]["result"] == "Two cups."


@requirement("N1")
@pytest.mark.parametrize("channel", ["off"])
async def test_a_stateless_host_has_the_same(one: Running, state: Path, channel: str) -> None:
    lead = await one.seat("Lead")
    thread = await start_thread(one, lead.id)
    uri = f"molecule://threads/{thread}"
    async with agent(state, **single(one, lead), MOLECULE_MCP_CHANNEL=channel) as process:
        found = await process.request("server/discover", {"_meta": ENVELOPE})
        assert set(found["capabilities"]) == {"tools", "prompts", "completions", "resources", "extensions"}
        number, _ = process.begin(
            "subscriptions/listen", {"_meta": ENVELOPE, "notifications": {"resourceSubscriptions": [uri]}}
        )
        await process.until(lambda each: bool(each.notifications))
        acknowledged = process.notifications[0]
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": number}
        await one.admin.post(f"/threads/{thread}/turns", {"input": "two"})
        await process.until(lambda each: len(each.notifications) > 1)
        assert process.notifications[1]["params"] == {
            "uri": uri,
            "_meta": {"io.modelcontextprotocol/subscriptionId": number},
        }
