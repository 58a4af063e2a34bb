"""Serves the platform's tools to the program of a session bridge as MCP, without I/O: one message in, one out."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from molecule_core.agent.bridges.sessions import SessionTool
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.common.version import VERSION
from molecule_core.tools.mcp_dispatcher import HANDSHAKE_VERSIONS
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

SERVER_NAME = "molecule"

ToolCaller = Callable[[str, Any, str], Awaitable[ToolOutput]]
"""Runs a tool: name, arguments, id of the call."""


async def answer_mcp_message(
    message: dict[str, Any], tools: Sequence[SessionTool], call_tool: ToolCaller, connection_id: str
) -> dict[str, Any] | None:
    """Return the response to a JSON-RPC message of an MCP client; None for a notification.

    `connection_id`: unique among all connections of all processes, as ids of requests begin anew with each."""
    if "id" not in message or "method" not in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    params = message.get("params") if isinstance(message.get("params"), dict) else {}
    assert isinstance(params, dict)
    match message["method"]:
        case "initialize":
            wanted = params.get("protocolVersion")
            version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
            server = {"name": SERVER_NAME, "version": VERSION}
            result: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": [_describe(each) for each in tools]}
        case "tools/call":
            name = params.get("name")
            if name not in {each.name for each in tools}:
                fault = {"code": INVALID_PARAMS, "message": f"the tool {name!r} does not exist"}
                return {**head, "error": fault}
            output = await call_tool(name, params.get("arguments") or {}, f"{connection_id}-{message['id']}")
            result = {"content": [{"type": "text", "text": output.text}], "isError": output.is_error}
        case other:
            return {**head, "error": {"code": METHOD_NOT_FOUND, "message": f"the method {other!r} does not exist"}}
    return {**head, "result": result}


def _describe(tool: SessionTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.input_schema)}
