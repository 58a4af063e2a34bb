"""Checks of answers through other entrances than HTTP, and across the death of a server."""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.acceptance_jobs import GOOD, Job, new_job
from testing.delegation_entrances import Shell, Tools
from testing.message_world import MessageWorld
from testing.ports import free_port
from testing.processes import client, serving
from testing.raw_http import ask
from testing.upload_forms import FORM, form
from testing.waits import eventually
from tests.requirements import requirement

ACCEPT = [{"type": "text", "contains": "42"}]


async def by_tool(job: Job) -> str:
    """Begins with the tool."""
    given = {"workspace_id": job.ops.id, "task": job.task, "accept": ACCEPT, "rounds": 1}
    begun, refused = await Tools("mcp_async", "delegate_task_async", "stateless").call(
        job.world.server, job.lead, "delegate_task_async", given
    )
    assert refused is None
    return str(begun["task_id"])


async def by_message(job: Job) -> str:
    """Begins with a message of A2A 0.3."""
    metadata = {"delegation": True, "accept": ACCEPT, "rounds": 1}
    message = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": job.task}], "metadata": metadata}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    reply = await ask(job.world.server.port, "POST", f"/workspaces/{job.ops.id}/a2a", body, token=job.lead.token)
    return str(reply.json["result"]["id"])


async def by_message_1_0(job: Job) -> str:
    """Begins with a message of A2A 1.0."""
    metadata = {"delegation": True, "accept": ACCEPT, "rounds": 1}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": job.task}], "metadata": metadata}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json", "X-Timeout": "0"}
    path = f"/workspaces/{job.ops.id}/a2a"
    reply = await ask(job.world.server.port, "POST", path, body, token=job.lead.token, headers=headers)
    return str(reply.json["result"]["task"]["id"])


async def by_command(job: Job) -> str:
    """Begins with the command line."""
    words = ("delegate", job.ops.id, job.task, "--async", "--accept", "-", "--rounds", "1")
    said = await Shell().run(job.world.server, job.lead, *words, given=json.dumps(ACCEPT))
    assert said.exit_code == 0, said.output
    return str(said.stdout.split()[0])


@requirement("D20")
@pytest.mark.parametrize("begin", [by_tool, by_message, by_message_1_0, by_command])
async def test_each_entrance_passes_the_checks_on(world: MessageWorld, begin: Any) -> None:
    job = await new_job(world)
    job.id = await begin(job)
    await job.answer("done")
    assert (await job.detail())["delegation"]["phase"] == "needs_work"
    seen, refused = await Tools("mcp_async", "", "stateless").call(
        world.server, job.lead, "check_task_status", {"task_id": job.id}
    )
    assert refused is None
    (line,) = seen["evidence"]
    assert line.startswith('answer 1, check 1 (text): failed: the text does not contain "42". [4 bytes, ')
    await job.answer("42")
    assert await job.outcome() == "completed verified"


@requirement("D20")
async def test_a_server_that_is_killed_while_it_checks_checks_the_answer_again(tmp_path: Path) -> None:
    port = free_port()
    slow = {"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [x]} for x in "xy"]}}}
    accept = [
        {"type": "file", "name": "report.json", "media_type": "application/json"},
        {"type": "schema", "schema": {**slow, "$ref": "#/$defs/n"}},
    ]
    limits = {"MOLECULE_LIMIT_ACCEPTANCE_LEASE_SECONDS": "3", "MOLECULE_LIMIT_ACCEPTANCE_SECONDS": "2"}
    async with serving(tmp_path, port, **limits) as server, client(port) as admin:
        lead = await admin.post("/workspaces", {"name": "Lead"})
        ops = await admin.post("/workspaces", {"name": "Ops", "parent_id": lead["id"]})
        tokens = [each["connection"]["auth_token"] for each in (lead, ops)]
        body = {"target_id": ops["id"], "task": "count", "accept": accept, "rounds": 0}
        begun = await ask(port, "POST", f"/workspaces/{lead['id']}/delegate", body, token=tokens[0])
        delegation = f"/delegations/{begun.json['delegation_id']}"
        uploads = f"/workspaces/{ops['id']}/chat/uploads"
        sent = await ask(port, "POST", uploads, form(("report.json", GOOD)), token=tokens[1], headers=FORM)
        data = '{"a":' * 50 + "1" + "}" * 50
        parts = [{"kind": "text", "text": data}, {"kind": "file", "file": sent.json["files"][0]}]
        metadata = {"in_reply_to": begun.json["delegation_id"]}
        params = {"message": {"role": "agent", "parts": parts, "metadata": metadata}}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        answered = await ask(port, "POST", f"/workspaces/{lead['id']}/a2a", rpc, token=tokens[1])
        assert answered.status == 200, answered
        assert (await admin.get(delegation))["delegation"]["phase"] == "checking"
        await server.kill()
    async with serving(tmp_path, port, **limits), client(port) as admin:

        async def look() -> dict[str, Any]:
            found: dict[str, Any] = await admin.get(delegation)
            return found

        ended = await eventually(look, lambda found: found["delegation"]["phase"] == "ended")
        assert (ended["delegation"]["status"], ended["delegation"]["reason"]) == ("failed", "unproven")
        evidence = ended["acceptance"]["evidence"]
        assert [(each["type"], each["outcome"]) for each in evidence] == [("file", "passed"), ("schema", "failed")]
        assert evidence[1]["detail"].endswith("the check failed for lack of memory or time")
