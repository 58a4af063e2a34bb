"""Which template is meant, what it says with those it extends, what an agent's card tells of tools. Pure."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from molecule_core.instructions.model import THE_RUNTIMES, Parts, Template
from molecule_core.wire.cards import has_command_line, tools_of
from molecule_core.wire.inbox import APPROVALS
from molecule_core.wire.tools import TOOLS
from molecule_core.wire.toolspec import Runtime, runtime_named, tool_name

CLAUDE_CODE, CODEX, GENERIC = "claude-code-default", "codex-default", "generic-mcp-default"
_DEFAULT_OF = {Runtime.CLAUDE_CODE: CLAUDE_CODE, Runtime.CODEX: CODEX}
DEFAULT_IDS = (CLAUDE_CODE, CODEX, GENERIC)
INLINE = "workspace:"
"""How the template of one workspace alone begins; the workspace's id follows."""

OPENING = "reminder"
FULL = ("reply", "silence", "tools", "files", "docs")
CLOSING = "message"
COMPACT, DELTA = "compact", "delta"
BLOCKS = (OPENING, *FULL, CLOSING, COMPACT, DELTA)
"""The named texts of a template. The full form: those of FULL, then the lines, then CLOSING, which is about the one
message: what stays the same comes first, for the caches of prompts."""
NEEDED = ("reply", COMPACT)
"""What a template that extends nothing must say."""

REPLY, REPLY_BY_HANDLE, WRITE_TO_USER = "reply_to_workspace", "reply", "send_message_to_user"
DECIDE, (ASKS, _) = "decide_approval", APPROVALS
"""What decides on an approval, and the kind of message that no other tool answers."""
# Tools of which instructions may speak. Some of them are younger than the registry in which this was written.
KNOWN_TOOLS = tuple(
    dict.fromkeys((*(spec.name for spec in TOOLS), REPLY_BY_HANDLE, "decline", "present_options", DECIDE))
)
MOST_TOOLS = 64
"""Tools that are spoken of at most."""
MOST_CHAIN = 8
"""Templates that one extends, directly and through others."""


def default_of(runtime: str) -> str:
    """The template of a workspace that names none."""
    return _DEFAULT_OF.get(runtime_named(runtime), GENERIC)


@lru_cache(4096)
def spelled(tool: str, runtime: str) -> str:
    """A tool as the model of a runtime knows it."""
    return tool_name(tool, runtime_named(runtime))


# -- templates that extend others --------------------------------------------------------------------------------------


def chain(leaf: Template, find: Callable[[str], Template | None], *, default_id: str) -> tuple[list[Template], str]:
    """A template and those it extends, itself last; and what is wrong with them, empty if nothing is. `find`: the
    version in force of a template; `default_id`: the template of the workspace's runtime."""
    found, seen = [leaf], {leaf.id}
    while (wanted := found[0].extends) is not None:
        parent_id = default_id if wanted == THE_RUNTIMES else wanted
        if parent_id in seen:
            line = " extends ".join([*(each.id for each in found[::-1]), parent_id])
            return found, f"templates cannot extend each other in a circle: {line}"
        parent = find(parent_id)
        if parent is None:
            return found, f"there is no template {parent_id!r} to extend"
        if len(found) == MOST_CHAIN:
            return found, f"more than {MOST_CHAIN} templates would extend each other"
        seen.add(parent_id)
        found.insert(0, parent)
    return found, ""


def merged(templates: Iterable[Template]) -> Parts:
    """What templates say together, the base first: tools and lines add up, all else replaces."""
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
    return Parts(reply_tool, docs_url, stdout_warning, tuple(tools), tuple(lines), blocks)


# -- tools -------------------------------------------------------------------------------------------------------------


def available(tools: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Those of an agent's tools that may be spoken of, in the registry's order; `own`: names that a template adds."""
    names = frozenset(tools)
    return tuple(name for name in dict.fromkeys((*KNOWN_TOOLS, *own)) if name in names)[:MOST_TOOLS]


def reply_tool(wanted: str, kind: str, tools: Sequence[str], *, known: bool) -> str:
    """The tool that answers a message of a kind: the template's, else another that the agent has; empty if it has none.

    Of an agent whose card is silent it is believed that it has the usual one."""
    if kind == ASKS:
        return DECIDE if not known or DECIDE in tools else ""
    if not known:
        return wanted
    ways = (wanted, REPLY, REPLY_BY_HANDLE, *((WRITE_TO_USER,) if kind == "canvas_user" else ()))
    return next((name for name in ways if name in tools), "")


def told_by(card: str | None) -> tuple[tuple[str, ...], bool, bool]:
    """What an agent card (JSON) tells: the agent's tools by their bare names, whether it tells of any at all, and
    whether the agent is a program behind a bridge, which has none (`wire/cards.py` says where all this stands)."""
    try:
        decoded = msgspec.json.decode(card or "{}")
    except msgspec.DecodeError:
        return (), False, False
    found = tools_of(decoded)
    return found or (), found is not None, not found and has_command_line(decoded)


# -- a share of the messages -------------------------------------------------------------------------------------------

_WHOLE = 1 << 64
# The golden ratio's part of 2**64: steps of it fill a circle evenly, wherever one begins and stops.
_STEP = 0x9E3779B97F4A7C15


def hash64(*names: str) -> int:
    """A number for some names, the same in every process."""
    return int.from_bytes(blake2b("\0".join(names).encode(), digest_size=8).digest(), "big")


def falls_to_canary(percent: int, place: int, number: int | None, activity_id: str) -> bool:
    """Whether a message is among the share that tries a version: by its number in its inbox, so that any few in a row
    hold their share; of a message that has none, by its id. `place`: where the inbox begins on the circle."""
    spot = place ^ hash64(activity_id) if number is None else place + number * _STEP
    return spot % _WHOLE * 100 < percent * _WHOLE
