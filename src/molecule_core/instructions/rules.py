"""Rules: choice of a template, inheritance, tools from an agent's card. Pure."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from molecule_core.instructions.model import RUNTIME_DEFAULT, Template, TemplateContent
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES, declared_tools, has_command_line
from molecule_core.wire.schemas.runtimes import Runtime, runtime_for_name, tool_name

CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE = "claude-code-default", "codex-default", "generic-mcp-default"
_DEFAULT_TEMPLATE_IDS = {Runtime.CLAUDE_CODE: CLAUDE_CODE_TEMPLATE, Runtime.CODEX: CODEX_TEMPLATE}
DEFAULT_IDS = (CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE)
WORKSPACE_TEMPLATE_PREFIX = "workspace:"
"""Prefix of the id of a template for one workspace; the workspace's id follows."""

OPENING_BLOCK = "reminder"
FULL_BLOCKS = ("reply", "silence", "tools", "files", "docs")
CLOSING_BLOCK = "message"
COMPACT_BLOCK, DELTA_BLOCK = "compact", "delta"
BLOCKS = (OPENING_BLOCK, *FULL_BLOCKS, CLOSING_BLOCK, COMPACT_BLOCK, DELTA_BLOCK)
"""The named texts of a template. The full form has FULL_BLOCKS, then the lines, then CLOSING_BLOCK.

The closing block is about the one message: what stays the same comes first, for prompt caches."""
REQUIRED_BLOCKS = ("reply", COMPACT_BLOCK)
"""Blocks that a template without `extends` must have."""

REPLY_TOOL, REPLY_BY_HANDLE_TOOL, WRITE_TO_USER_TOOL = "reply_to_workspace", "reply", "send_message_to_user"
DECIDE_TOOL = "decide_approval"
"""The tool that decides on an approval, and the kind of message that no other tool answers."""
MAX_TOOLS = 64
"""Maximum number of tools that instructions mention."""
MAX_INHERITANCE = 8
"""Maximum number of templates that one extends, directly and through others."""


def default_template_id(runtime: str) -> str:
    """Return the template id of a workspace that has chosen none."""
    return _DEFAULT_TEMPLATE_IDS.get(runtime_for_name(runtime), GENERIC_TEMPLATE)


@lru_cache(4096)
def tool_name_for(tool: str, runtime: str) -> str:
    """Return the name of a tool as the model of a runtime knows it."""
    return tool_name(tool, runtime_for_name(runtime))


# -- inheritance -------------------------------------------------------------------------------------------------------


def inheritance_chain(
    leaf: Template, find: Callable[[str], Template | None], *, default_id: str
) -> tuple[list[Template], str]:
    """Return a template after those it extends, and what is wrong with them, or "".

    `find` returns the active version of a template; `default_id`: the template of the workspace's runtime."""
    found, seen = [leaf], {leaf.id}
    while (wanted := found[0].extends) is not None:
        parent_id = default_id if wanted == RUNTIME_DEFAULT else wanted
        if parent_id in seen:
            cycle = " extends ".join([*(each.id for each in found[::-1]), parent_id])
            return found, f"templates cannot extend each other in a circle: {cycle}. Change extends in one of them."
        parent = find(parent_id)
        if parent is None:
            return found, f"the template {parent_id!r} to extend was not found. Use the id of another template."
        if len(found) == MAX_INHERITANCE:
            return found, f"a chain of extends cannot have more than {MAX_INHERITANCE} templates. Shorten the chain."
        seen.add(parent_id)
        found.insert(0, parent)
    return found, ""


def merge_content(templates: Iterable[Template]) -> TemplateContent:
    """Merge templates, the base first: tools and lines add up, everything else replaces."""
    reply_tool = docs_url = stdout_warning = None
    tools: dict[str, None] = {}
    lines: list[str] = []
    blocks: dict[str, str] = {}
    for parts in (each.parts for each in templates):
        reply_tool = parts.reply_tool if parts.reply_tool is not None else reply_tool
        docs_url = parts.docs_url if parts.docs_url is not None else docs_url
        stdout_warning = parts.stdout_warning if parts.stdout_warning is not None else stdout_warning
        tools.update(dict.fromkeys(parts.tools))
        lines += parts.lines
        blocks.update(parts.blocks)
    return TemplateContent(reply_tool, docs_url, stdout_warning, tuple(tools), tuple(lines), blocks)


# -- tools -------------------------------------------------------------------------------------------------------------


def usable_tools(tools: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that may be mentioned, in the registry's order; `own`: names that a template adds."""
    names = frozenset(tools)
    return tuple(name for name in dict.fromkeys((*ALL_TOOL_NAMES, *own)) if name in names)[:MAX_TOOLS]


def choose_reply_tool(preferred: str, kind: str, tools: Sequence[str], *, has_tool_list: bool) -> str:
    """Return the tool that answers a kind of message: the template's, else another that the agent has, else "".

    An agent whose card lists no tools is assumed to have the preferred one, and the older of the platform's two."""
    if kind == MessageKind.APPROVAL_REQUEST:
        return DECIDE_TOOL if not has_tool_list or DECIDE_TOOL in tools else ""
    if not has_tool_list:
        return REPLY_TOOL if preferred == REPLY_BY_HANDLE_TOOL else preferred
    candidates = (
        preferred,
        REPLY_TOOL,
        REPLY_BY_HANDLE_TOOL,
        *((WRITE_TO_USER_TOOL,) if kind == MessageKind.USER else ()),
    )
    return next((name for name in candidates if name in tools), "")


def tools_from_card(card: str | None) -> tuple[tuple[str, ...], bool, bool]:
    """Return what an agent card (JSON) declares: bare tool names, whether it lists tools, whether it is a program.

    A program behind a bridge has no tools. The format is defined in `wire/schemas/agent_cards.py`."""
    try:
        decoded = msgspec.json.decode(card or "{}")
    except msgspec.DecodeError:
        return (), False, False
    found = declared_tools(decoded)
    return found or (), found is not None, not found and has_command_line(decoded)


# -- canary share ------------------------------------------------------------------------------------------------------

_CIRCLE = 1 << 64
# The golden ratio's part of 2**64: steps of this size fill a circle evenly from any start to any end.
_GOLDEN_STEP = 0x9E3779B97F4A7C15


def hash64(*names: str) -> int:
    """Return a hash of names that is the same in every process."""
    return int.from_bytes(blake2b("\0".join(names).encode(), digest_size=8).digest(), "big")


def is_in_canary_share(percent: int, offset: int, number: int | None, activity_id: str) -> bool:
    """Return whether a message belongs to the share of the canary.

    It depends on the message's number in its inbox, so that any few in a row have the right share; without a number, on
    its id. `offset`: where the inbox begins on the circle."""
    point = offset ^ hash64(activity_id) if number is None else offset + number * _GOLDEN_STEP
    return point % _CIRCLE * 100 < percent * _CIRCLE
