"""The platform's tools as an MCP server of an ACP session: the relay is a real process, the tools run here."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from molecule_core.agent.bridges.acp.programs import choose_auth_method, find_traps, is_platform_tool
from molecule_core.agent.bridges.acp.tool_server import ToolServer
from molecule_core.agent.engines.toolbox import ToolOutput
from testing.waits import PROCESS_START_SECONDS
from tests.agent.bridges.acp_agents import ListPeers


async def exchange(process: asyncio.subprocess.Process, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The responses to messages, by their ids."""
    assert process.stdin is not None and process.stdout is not None
    for each in messages:
        process.stdin.write(msgspec.json.encode({"jsonrpc": "2.0", **each}) + b"\n")
    async with asyncio.timeout(PROCESS_START_SECONDS):
        lines = [await process.stdout.readline() for each in messages if "id" in each]
    return sorted((msgspec.json.decode(line) for line in lines), key=lambda each: str(each["id"]))


async def test_an_agent_reaches_the_tools_without_a_token(tmp_path: Path) -> None:
    calls: list[tuple[str, Any, str]] = []

    async def call_tool(name: str, arguments: Any, call_id: str) -> ToolOutput:
        calls.append((name, arguments, call_id))
        return ToolOutput("Ada", is_error=len(calls) > 1)

    server = ToolServer([ListPeers()], max_line_bytes=1 << 20)
    entry = await server.open_session(call_tool)
    folder = Path(entry["args"][-1]).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert entry["env"] == []
    ids, responses = [], list[dict[str, Any]]()
    for _ in range(2):  # an agent may start its servers again: ids of requests begin anew
        process = await asyncio.create_subprocess_exec(
            entry["command"],
            *entry["args"],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.defpath},
            cwd=tmp_path,
        )
        responses = await exchange(
            process,
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            {"id": 3, "method": "tools/call", "params": {"name": "list_peers", "arguments": {"q": "a"}}},
            {"id": 4, "method": "tools/call", "params": {"name": "nothing"}},
            {"id": 5, "method": "resources/list"},
        )
        ids.append(calls[-1][2])
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(PROCESS_START_SECONDS):
            assert await process.wait() == 0
    greeting, listing, result, unknown, other = responses
    assert greeting["result"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in listing["result"]["tools"]] == ["list_peers"]
    assert result["result"] == {"content": [{"type": "text", "text": "Ada"}], "isError": True}
    assert unknown["error"]["message"] == "the tool 'nothing' does not exist"
    assert other["error"]["code"] == -32601
    assert [(name, arguments) for name, arguments, _ in calls] == [("list_peers", {"q": "a"})] * 2
    assert len(set(ids)) == 2
    await server.close()
    assert not folder.exists()


def test_only_a_request_of_the_right_kind_and_title_is_for_a_tool_of_the_platform() -> None:
    gemini, opencode = find_traps("gemini-cli"), find_traps("opencode")
    asked = {"kind": "other", "title": "list_peers (molecule MCP Server)"}
    assert is_platform_tool(gemini, asked, ["list_peers"])
    assert is_platform_tool(opencode, {"kind": "other", "title": "molecule_list_peers"}, ["list_peers"])
    assert not is_platform_tool(gemini, {**asked, "kind": "execute"}, ["list_peers"])
    assert not is_platform_tool(gemini, asked, ["another"])
    assert not is_platform_tool(find_traps("unknown"), asked, ["list_peers"])


def test_a_program_is_logged_in_by_the_key_that_the_environment_has() -> None:
    gemini = find_traps("gemini-cli")
    assert choose_auth_method(gemini, ["oauth-personal", "gemini-api-key"], {"GEMINI_API_KEY": "k"}) == "gemini-api-key"
    assert choose_auth_method(gemini, ["oauth-personal"], {"GEMINI_API_KEY": "k"}) == ""
    assert choose_auth_method(gemini, ["gemini-api-key"], {}) == ""
