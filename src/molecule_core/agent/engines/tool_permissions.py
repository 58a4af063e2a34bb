"""Determines which tools a thread may use: its `tools`, restricted by its `permissions`. Pure.

Permissions are set with a thread and inherited by forks and children. They narrow the agent's own configuration and
never widen it. Invalid permissions end the turn: a restriction must not be ignored.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.agent.engines.approval_gate import ACTION_PREFIX, TOOL_PREFIX, matches_pattern
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.wire.schemas.approvals import ApprovalRule

Patterns = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)]
ORIGIN_PREFIX = "tools:"
"""Prefix of the origin of the note that lists a thread's tools; their names follow."""


class InvalidPermissionsError(Exception):
    """The permissions of a thread are invalid; the text is one line."""


class ToolPermissions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Patterns of tool names, in which `*` is any text.

    `allow`: only these; None: all. `deny`: not these, even if allowed. `ask`: these require an approval for each call.
    """

    allow: Patterns | None = None
    deny: Patterns = []
    ask: Patterns = []

    def filter_allowed(self, names: Iterable[str]) -> list[str]:
        """Return the tools that may be used."""
        return [
            each
            for each in names
            if (self.allow is None or _matches_any(self.allow, each)) and not _matches_any(self.deny, each)
        ]

    @property
    def approval_rules(self) -> list[ApprovalRule]:
        """Return the approval rules of `ask`."""
        note = "required by the permissions of the thread"
        return [ApprovalRule(action=f"{ACTION_PREFIX}{_without_prefix(each)}", note=note) for each in self.ask]


def parse_permissions(permissions: dict[str, Any] | None) -> ToolPermissions:
    """Parse a thread's permissions. Raises InvalidPermissionsError."""
    try:
        return msgspec.convert(permissions or {}, ToolPermissions)
    except msgspec.ValidationError as error:
        raise InvalidPermissionsError(
            f"the permissions of this thread are not valid ({sanitize_line(str(error), 200)}). "
            "docs/how-to/agent-run.md describes the format. Resume the thread with other permissions"
        ) from None


def fewer_tools_note(names: Sequence[str], all_names: Sequence[str]) -> tuple[str, str] | None:
    """Return origin and text of the note for a thread with fewer tools than its agent; None if it has all."""
    if set(names) == set(all_names):
        return None
    tool_names = ", ".join(names) or "none"
    return f"{ORIGIN_PREFIX}{tool_names}"[
        :_MAX_ORIGIN
    ], f"In this thread you have only these of your tools: {tool_names}."


_MAX_ORIGIN = 200


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(matches_pattern(_without_prefix(each), name) for each in patterns)


def _without_prefix(pattern: str) -> str:
    return pattern.removeprefix(ACTION_PREFIX).removeprefix(TOOL_PREFIX)
