"""What an agent's card says of its tools. A card is any JSON, written by whoever the agent is: nothing of it comes out
here but names, each short and of plain letters, and the platform speaks only of those that it knows itself.

Above: the registry edge, telling (messages), the agent's heartbeat. Below: the registry of tools.
"""

import re
from typing import Any

from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import Runtime, tool_name

LOADED_TOOLS_MEMBER = "loaded_mcp_tools"
"""The member of a card, and of a heartbeat, that lists the tools which an agent has at this moment."""
BRIDGE_MEMBER, COMMAND_BRIDGE_KIND = "bridge", "command"
"""The member of a card that says what kind of bridge keeps the seat, and the kind behind which a program has a command
line and no tools."""
REPLY_COMMAND = "molecule reply"
"""What answers for such a program, in the place of a tool; no runtime has a spelling of its own for it."""
DECIDE_COMMAND = "molecule tool decide_approval"
"""What decides on an approval for such a program."""
MAX_LOADED_TOOLS = 512
"""So many names are looked at: hosts load hundreds of tools of others beside ours."""
ALL_TOOL_NAMES = tuple(spec.name for spec in TOOLS)
"""What a host is given that is given everything."""
# Where else cards say it. What is loaded counts more than what somebody once declared.
_TOOL_LIST_PATHS = (
    *((LOADED_TOOLS_MEMBER,), ("capabilities", LOADED_TOOLS_MEMBER), ("capabilities", "mcp", LOADED_TOOLS_MEMBER)),
    *(("capabilities", "mcp", "tools"), ("capabilities", "mcp_tools"), ("capabilities", "tools")),
    *(("mcp", "tools"), ("mcp_tools",), ("tools",)),
)
# Our tools as a runtime spells them: what stands before the bare name, the longest first.
_RUNTIME_PREFIXES = sorted((tool_name("", runtime) for runtime in Runtime), key=len, reverse=True)
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def declared_tools(card: Any) -> tuple[str, ...] | None:
    """The tools that an agent has, each once; ours by their bare names, however its runtime spells them. None if the
    card does not say."""
    for path in _TOOL_LIST_PATHS:
        listed = _value_at(card, path)
        if isinstance(listed, list | dict):
            return tool_names_in(listed)
    return None


def has_command_line(card: Any) -> bool:
    """Whether the agent is a program behind `molecule bridge command`: what answers for it is a command, and what it
    prints is kept."""
    return bool(_value_at(card, (BRIDGE_MEMBER,)) == COMMAND_BRIDGE_KIND)


def tool_names_in(listed: Any) -> tuple[str, ...]:
    """The same of a list, of names or of objects with a name."""
    names = [each.get("name") if isinstance(each, dict) else each for each in list(listed)[:MAX_LOADED_TOOLS]]
    plain = [name for name in names if isinstance(name, str) and _NAME_PATTERN.fullmatch(name)]
    return tuple(dict.fromkeys(map(_strip_runtime_prefix, plain)))  # control: card-tools


def _strip_runtime_prefix(name: str) -> str:
    head = next(head for head in _RUNTIME_PREFIXES if name.startswith(head))  # the last one is empty
    return name.removeprefix(head) or name


def _value_at(card: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        card = card.get(name) if isinstance(card, dict) else None
    return card
