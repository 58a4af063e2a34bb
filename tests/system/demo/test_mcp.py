"""The demo's client of an MCP server: it answers, it refuses, it ends; and whoever waits is told."""

import os
import sys

import pytest

from molecule_core.demo.mcp_client import McpServerEndedError, ToolCallError, start_mcp_server
from testing.waits import bounded

# Answers the handshake, then does with each call what its tool is called.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"structuredContent": {"said": "yes"}}
    name = asked["params"].get("name")
    if name == "refuse":
        result = {"isError": True, "content": [{"type": "text", "text": "no"}]}
    if name == "end":
        break
    if name == "babble":
        print("not JSON", flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
COMMAND = (sys.executable, "-c", SERVER)


async def test_a_tool_gives_back_what_it_says_or_why_not() -> None:
    async with start_mcp_server(COMMAND, os.environ) as server:
        assert await bounded(server.call_tool("agree")) == {"said": "yes"}
        with pytest.raises(ToolCallError, match="no"):
            await bounded(server.call_tool("refuse"))


@pytest.mark.parametrize("tool", ["end", "babble"])
async def test_who_waits_for_a_server_that_fails_is_told_and_so_is_who_asks_later(tool: str) -> None:
    async with start_mcp_server(COMMAND, os.environ) as server:
        for each in (tool, "agree"):
            with pytest.raises(McpServerEndedError):
                await bounded(server.call_tool(each))
