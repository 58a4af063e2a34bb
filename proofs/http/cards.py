"""Agent cards with something broken in them, as an agent tells of itself when it registers, and later on."""

import json
from random import Random

from proofs.http.bending import bent_json

PATHS = {"/registry/register": "id", "/registry/update-card": "workspace_id"}
"""Where a card is said, and the member that says whose it is."""
_TOOLS = ["delegate_task", "mcp__molecule__reply_to_workspace", {"name": "list_peers", "inputSchema": {}}]
_CARD = {
    "name": "Bookkeeper",
    "description": "Keeps the books.",
    "version": "1.0.0",
    "url": "https://agent.example/a2a",
    "protocolVersion": "0.3.0",
    "provider": {"organization": "Example", "url": "https://agent.example"},
    "capabilities": {"streaming": False, "pushNotifications": True, "mcp": {"tools": _TOOLS}},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "count", "name": "Count", "description": "Counts.", "tags": ["books"], "examples": ["2 + 2"]}],
    "loaded_mcp_tools": _TOOLS,
    "bridge": "command",
    "securitySchemes": {"own": {"type": "http", "scheme": "bearer"}},
    "signatures": [{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AA"}],
}


def broken_card(path: str, seat: str, dice: Random) -> bytes:
    """The body of a request that says a broken card of a seat."""
    return b'{"%b": %b, "agent_card": %b}' % (PATHS[path].encode(), json.dumps(seat).encode(), bent_json(_CARD, dice))
