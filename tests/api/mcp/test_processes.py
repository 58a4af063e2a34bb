"""Several server processes on one store: a session is at home in each of them."""

import asyncio
from pathlib import Path

import pytest

from testing.engines import Engine, place_for
from testing.mcp_clients import answering, calling, line_of, listening, path_of, rpc
from testing.waits import bounded, until_waiting
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import servers

POSTGRES: Engine = "postgres"


@pytest.fixture
async def shared(tmp_path: Path, postgres: str) -> str:
    """The address of a database for several servers."""
    return await place_for(POSTGRES, tmp_path, postgres)


@requirement("N1", "M38")
async def test_each_request_of_a_session_may_reach_another_process(shared: str, tmp_path: Path) -> None:
    async with servers(shared, tmp_path) as (one, two):
        ops, person = await one.seat("Ops"), await two.person()
        line = line_of(one, ops)
        await line.begin()
        for number in range(6):
            line.server = (two, one)[number % 2]
            sent = await person.send(ops.id, f"message {number}")
            reply = await line.post(calling("wait_for_message", {"timeout_secs": 5}))
            message = reply.json["result"]["structuredContent"]["message"]
            assert (message["activity_id"], message["text"]) == (sent["activity_id"], f"message {number}")
            line.server = (one, two)[number % 2]
            done = {"activity_id": message["activity_id"], "attempt": message["attempt"], "text": "heard"}
            assert (await line.post(calling("reply_to_workspace", done))).json["result"]["isError"] is False
        assert (one.server.mcp_routes.sessions.opened, two.server.mcp_routes.sessions.restored) == (1, 1)


@requirement("N1", "M38", "P6")
async def test_a_token_that_another_process_revokes_ends_streams_and_calls_here(shared: str, tmp_path: Path) -> None:
    async with servers(shared, tmp_path) as (one, two):
        ops = await one.seat("Ops")
        line = line_of(one, ops, "/mcp")
        await line.begin()
        (token,) = await one.admin.get(f"/workspaces/{ops.id}/tokens")
        waiting = calling("wait_for_message", {"timeout_secs": 60})
        async with listening(line) as stream, answering(line, waiting) as call:
            await until_waiting(one.server, 1)
            await two.admin.call("DELETE", f"/workspaces/{ops.id}/tokens/{token['id']}")
            assert (await call.reply()).status == 401
            await stream.hung_up()
        assert (await line.post(rpc("ping"))).status == 401


async def test_a_wait_in_one_process_is_woken_by_a_message_to_another(shared: str, tmp_path: Path) -> None:
    async with servers(shared, tmp_path) as (one, two):
        ops = await one.seat("Ops")
        person = await two.person()
        line = line_of(one, ops, path_of(ops))
        await line.begin()
        async with answering(line, calling("wait_for_message", {"timeout_secs": 60})) as call:
            await until_waiting(one.server, 1)
            _, reply = await bounded(asyncio.gather(person.send(ops.id, "over here"), call.reply()))
        assert reply.json["result"]["structuredContent"]["message"]["text"] == "over here"


@requirement("N1", "D10", "M38")
async def test_a_task_and_a_subscription_are_served_by_any_process(shared: str, tmp_path: Path) -> None:
    async with servers(shared, tmp_path) as (one, two):
        ops = await one.seat("Ops")
        desk = await one.seat("Desk", parent_id=ops.id)
        started = await two.admin.post(f"/workspaces/{ops.id}/threads", {"base_instructions": "Be.", "input": "one"})
        uri = f"molecule://threads/{started['thread_id']}"
        line = line_of(one, ops)
        await line.begin()
        async with listening(line) as stream:
            assert (await line.post(rpc("resources/subscribe", {"uri": uri}))).json["result"] == {}
            await two.admin.post(f"/threads/{started['thread_id']}/turns", {"input": "two"})
            assert uri in (await bounded(stream.block()))["data"]
        given = {"workspace_id": desk.id, "task": "Make tea"}
        call = rpc("tools/call", {"name": "delegate_task", "arguments": given, "task": {}})
        task = (await line.post(call)).json["result"]["task"]["taskId"]
        line.server = two
        assert (await line.post(rpc("tasks/get", {"taskId": task}))).json["result"]["status"] == "working"
        path = f"/workspaces/{desk.id}/delegations/{task}/update"
        await desk.api.post(path, {"status": "completed", "result": "Two cups."})
        result = (await bounded(line.post(rpc("tasks/result", {"taskId": task})))).json["result"]
        assert result["structuredContent"]["result"] == "Two cups."
