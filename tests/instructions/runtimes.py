"""The agents that are told: the runtimes of the three defaults, and a program behind a bridge."""

from typing import Any

from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES

RUNTIMES = ("claude-code", "codex", "generic-mcp")
BRIDGED = "bridge-command"
AGENTS = (*RUNTIMES, BRIDGED)


def runtime_of(agent: str) -> str:
    """What its workspace says it is."""
    return "generic-mcp" if agent == BRIDGED else agent


def card_of(agent: str, name: str) -> dict[str, Any]:
    """What its card says it can do."""
    bridged = {"loaded_mcp_tools": [], "bridge": "command"}
    return {"name": name, **(bridged if agent == BRIDGED else {"loaded_mcp_tools": list(ALL_TOOL_NAMES)})}
