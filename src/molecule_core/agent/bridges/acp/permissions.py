"""Requests of an ACP agent for permissions, as the bridge and as the protocol write them. Pure."""

from typing import Any

from molecule_core.agent.bridges.acp.turns import text_of
from molecule_core.agent.bridges.sessions import PermissionDecision, ToolPermission

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
_DETAILS = ("title", "kind", "content", "locations")


def read_permission(params: dict[str, Any], announced: dict[str, Any]) -> ToolPermission:
    """Return the permission that a request asks for. `announced`: the call as earlier updates described it.

    Some programs send no input with the request, or only its title; then the input is what they have shown."""
    call = {**announced, **{name: value for name, value in _as_dict(params.get("toolCall")).items() if value}}
    title = str(call.get("title") or call.get("kind") or "Use a tool")
    raw = call.get("rawInput")
    details: dict[str, Any]
    if isinstance(raw, dict) and raw:
        details = raw
    else:
        details = {name: call[name] for name in _DETAILS if call.get(name)}
        if isinstance(details.get("content"), list):
            details["content"] = "\n".join(filter(None, map(text_of, details["content"])))
    return ToolPermission(
        request_id=str(call.get("toolCallId") or title),
        tool=str(call.get("kind") or "tool"),
        title=title,
        tool_input=details,
        suggestions=[each for each in _options(params) if each.get("kind") == "allow_always"],
        can_edit=False,
    )


def render_decision(params: dict[str, Any], decision: PermissionDecision) -> dict[str, Any]:
    """Return the response to a request. It never allows more than was decided: without a fitting option it cancels."""
    if not decision.is_allowed:
        kinds: tuple[str, ...] = ("reject_once",)
    elif decision.is_remembered:
        kinds = ("allow_always", "allow_once")
    else:
        kinds = ("allow_once",)
    by_kind = {str(each.get("kind")): each.get("optionId") for each in reversed(_options(params))}
    for kind in kinds:
        if isinstance(by_kind.get(kind), str):
            return {"outcome": {"outcome": "selected", "optionId": by_kind[kind]}}
    return CANCELLED


def _options(params: dict[str, Any]) -> list[dict[str, Any]]:
    options = params.get("options")
    return [each for each in options if isinstance(each, dict)] if isinstance(options, list) else []


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
