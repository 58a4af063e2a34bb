"""Compares tools and permissions of threads: whether new ones allow more than others. Pure.

The engine interprets permissions; the server only compares them. So a change counts as wider unless it is certainly
none: members of which the server knows nothing must stay equal.
"""

from collections.abc import Sequence
from typing import Any

from molecule_core.threads.model import Thread, ThreadSettings
from molecule_core.wire.schemas.delegation_scope import pattern_covers

_ALLOW, _DENY, _ASK = "allow", "deny", "ask"
_KNOWN = (_ALLOW, _DENY, _ASK)


def excess_of(holder: Thread, settings: ThreadSettings) -> str | None:
    """Return what settings allow beyond the tools and permissions of a thread, in words; None: nothing."""
    tools, own_tools = settings.tools, holder.tool_names
    if tools is not None and own_tools is not None:
        for each in tools:
            if each not in own_tools:
                return f"the tool {each}"
    if settings.permissions is None:
        return None
    return _permission_excess(holder.permission_map or {}, settings.permissions)


def _permission_excess(own: dict[str, Any], new: dict[str, Any]) -> str | None:
    for name in sorted({*own, *new} - {*_KNOWN}):
        if own.get(name) != new.get(name):
            return f"another value of the permission {name!r}"
    if own.get(_ALLOW) is not None:
        allowed = _patterns(new.get(_ALLOW))
        if allowed is None:
            return "every tool"
        for each in allowed:
            if not any(pattern_covers(wider, each) for wider in _patterns(own[_ALLOW]) or ()):
                return f"the tools {each}"
    for name in (_DENY, _ASK):
        for each in _patterns(own.get(name)) or ():
            if each not in (_patterns(new.get(name)) or ()):
                return f"the tools {each} without {name!r}"
    return None


def _patterns(value: Any) -> Sequence[str] | None:
    """Return a list of patterns; None: there is no valid one."""
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return value if is_list else None
