"""Reads the tools of an agent from its card.

A card is untrusted JSON. Only short names of plain characters are returned, and the platform refers only to
`ALL_TOOL_NAMES`. Called by the agent registry API, instruction rendering and the agent's heartbeat.
"""

import re
from typing import Any

from molecule_core.wire.schemas.runtimes import Runtime, tool_name

LOADED_TOOLS_MEMBER = "loaded_mcp_tools"
"""The member of a card and of a heartbeat that lists the tools currently loaded."""
BRIDGE_MEMBER, COMMAND_BRIDGE_KIND = "bridge", "command"
"""The member of a card that names the kind of bridge, and the kind whose programs have a command line and no tools."""
REPLY_COMMAND = "molecule reply"
"""The command that replies in place of a tool. It is the same for every runtime."""
REPLY_BY_RESPONSE = "response"
"""What replies in place of a tool for an agent that messages are pushed to: its HTTP response."""
DECIDE_COMMAND = "molecule tool decide_approval"
"""The command that decides on an approval in place of a tool."""
MAX_LOADED_TOOLS = 512
"""Maximum number of names read: hosts load hundreds of other tools beside ours."""
ALL_TOOL_NAMES = (
    "reply",
    "decline",
    "reply_to_workspace",
    "send_message_to_user",
    "present_options",
    "list_peers",
    "get_workspace_info",
    "get_runtime_identity",
    "update_agent_card",
    "broadcast_message",
    "delegate_task",
    "delegate_task_async",
    "check_task_status",
    "cancel_task",
    "report_progress",
    "spawn_agent",
    "send_message",
    "followup_task",
    "wait_agent",
    "interrupt_agent",
    "close_agent",
    "resume_agent",
    "list_agents",
    "request_approval",
    "decide_approval",
    "wait_for_message",
    "inbox_peek",
    "inbox_pop",
    "chat_history",
    "read_file",
    "upload_file",
    "commit_memory",
    "recall_memory",
)
"""The tools of a host without restrictions, in the order of `tools/registry.py`."""
# Cards list tools in several places. Loaded tools take precedence over declared ones.
_TOOL_LIST_PATHS = (
    *((LOADED_TOOLS_MEMBER,), ("capabilities", LOADED_TOOLS_MEMBER), ("capabilities", "mcp", LOADED_TOOLS_MEMBER)),
    *(("capabilities", "mcp", "tools"), ("capabilities", "mcp_tools"), ("capabilities", "tools")),
    *(("mcp", "tools"), ("mcp_tools",), ("tools",)),
)
# Prefixes of our tools' names in each runtime, the longest first.
_RUNTIME_PREFIXES = sorted((tool_name("", runtime) for runtime in Runtime), key=len, reverse=True)
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def declared_tools(card: Any) -> tuple[str, ...] | None:
    """Return the agent's tools without duplicates, ours by their bare names, or None if the card lists none."""
    for path in _TOOL_LIST_PATHS:
        entries = _value_at(card, path)
        if isinstance(entries, list | dict):
            return tool_names_in(entries)
    return None


def has_command_line(card: Any) -> bool:
    """Return whether the agent is a program behind `molecule bridge command`.

    Such a program replies with a command, and its output is kept."""
    return bool(_value_at(card, (BRIDGE_MEMBER,)) == COMMAND_BRIDGE_KIND)


def tool_names_in(entries: Any) -> tuple[str, ...]:
    """Return the valid tool names in a list of names or of objects with a name."""
    names = [each.get("name") if isinstance(each, dict) else each for each in list(entries)[:MAX_LOADED_TOOLS]]
    valid = [name for name in names if isinstance(name, str) and _NAME_PATTERN.fullmatch(name)]
    return tuple(dict.fromkeys(map(_strip_runtime_prefix, valid)))  # control: card-tools


def _strip_runtime_prefix(name: str) -> str:
    prefix = next(prefix for prefix in _RUNTIME_PREFIXES if name.startswith(prefix))  # the last prefix is empty
    return name.removeprefix(prefix) or name


def _value_at(card: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        card = card.get(name) if isinstance(card, dict) else None
    return card
