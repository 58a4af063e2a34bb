"""Events of a host's hooks, as `molecule host-hook` passes them on, and its answers."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class HookName(StrEnum):
    """The events that are handled."""

    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    PROMPT = "UserPromptSubmit"
    STOP = "Stop"
    PERMISSION = "PermissionRequest"
    TOOL_USED = "PostToolUse"
    TOOL_FAILED = "PostToolUseFailure"


class HookEvent(Struct, frozen=True):
    """An event of the host, with the members that are used.

    `waits`: the hook waits for the next message instead of being answered at once. `last_assistant_message`: the text
    that ended the turn."""

    hook_event_name: str = ""
    waits: bool = False
    last_assistant_message: str | None = None
    tool_name: str = ""
    tool_input: Any = None


class HookAnswer(Struct, frozen=True, omit_defaults=True):
    """What the hook prints and returns."""

    code: int = 0
    stdout: str = ""
    stderr: str = ""
