"""What the endpoint offers beside tools before the official SDKs in TypeScript, the tasks package and the Inspector."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.node_tools import INSPECTOR, Ended, require_tools, run
from tests.requirements import requirement

_CLIENTS = Path(__file__).with_name("typescript_clients.mjs")


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the SDKs and the Inspector."""
    return require_tools()


async def start_thread(server: Running, seat: Seat) -> str:
    """The URI of a new thread."""
    body = {"base_instructions": "Be.", "input": "one"}
    thread = await server.admin.post(f"/workspaces/{seat.id}/threads", body)
    return f"molecule://threads/{thread['thread_id']}"


async def end_delegation(lead: Seat, desk: Seat) -> str:
    """The desk ends the first delegation that is open; returns its id."""
    path = f"/workspaces/{lead.id}/delegations"
    rows = await eventually(lambda: lead.api.get(path), bool, PROCESS_START_SECONDS)
    id_ = str(rows[0]["delegation_id"])
    await desk.api.post(
        f"/workspaces/{desk.id}/delegations/{id_}/update", {"status": "completed", "result": "Two cups."}
    )
    return id_


@requirement("N1", "D10")
@pytest.mark.parametrize("client", ["first", "legacy", "modern"])
async def test_the_sdks_in_typescript_use_prompts_resources_and_tasks(
    server: Running, tools: Path, client: str
) -> None:
    lead = await server.seat("Lead")
    desk = await server.seat("Desk", parent_id=lead.id)
    uri = await start_thread(server, lead)
    environ = {
        "MOLECULE_TEST_URL": server.url,
        "MOLECULE_TEST_TOKEN": lead.token,
        "MOLECULE_TEST_TOOLS": str(tools),
    }
    script = os.path.relpath(_CLIENTS, tools)
    ended, id_ = await asyncio.gather(run(tools, script, client, desk.id, uri, **environ), end_delegation(lead, desk))
    assert ended.code == 0, ended
    found: dict[str, Any] = json.loads(ended.out)
    assert found["prompts"] == ["ask", "delegate", "inbox"]
    assert found["completed"] == ["Desk"]
    assert f'`workspace_id` "{desk.id}"' in found["prompt"]
    assert (found["resources"], found["content"]) == ([uri], uri)
    assert found["result"] == "Two cups."
    if client == "first":
        assert (found["task"], found["listed"]) == (id_, [id_])
        assert {"taskCreated", "result"} <= set(found["seen"])
    else:
        assert found["era"] == client


async def _inspected(server: Running, tools: Path, token: str, era: str, *wish: str) -> Any:
    ended: Ended = await run(
        tools,
        INSPECTOR,
        *("--cli", "--format", "json", "-q", "--protocol-era", era, "--transport", "http"),
        *("--server-url", f"{server.url}/mcp", "--header", f"Authorization: Bearer {token}", *wish),
    )
    assert ended.code == 0, ended
    return json.loads(ended.out)["result"]


@requirement("N1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_shows_prompts_and_resources(server: Running, tools: Path, era: str) -> None:
    lead = await server.seat("Lead")
    await server.seat("Desk", parent_id=lead.id)
    uri = await start_thread(server, lead)

    listed = await _inspected(server, tools, lead.token, era, "--method", "prompts/list")
    assert [each["name"] for each in listed["prompts"]] == ["ask", "delegate", "inbox"]
    wish = ("--method", "prompts/get", "--prompt-name", "ask", "--prompt-args", "workspace=Desk", "question=Open?")
    prompt = await _inspected(server, tools, lead.token, era, *wish)
    assert "\nQuestion:\nOpen?\n" in prompt["messages"][0]["content"]["text"]
    resources = await _inspected(server, tools, lead.token, era, "--method", "resources/list")
    assert [each["uri"] for each in resources["resources"]] == [uri]
    read = await _inspected(server, tools, lead.token, era, "--method", "resources/read", "--uri", uri)
    assert read["contents"][0]["mimeType"] == "application/json"
