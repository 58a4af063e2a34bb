"""Requests of Codex to its user, as the bridge and as Codex write them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from molecule_core.agent.bridges.sessions import PermissionDecision, QuestionOption, ToolPermission, UserQuestion

COMMAND = "item/commandExecution/requestApproval"
FILE_CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"
PERMISSION_METHODS = (COMMAND, FILE_CHANGE, PERMISSIONS, ELICITATION)
QUESTIONS = "item/tool/requestUserInput"
TOOL_CALL = "item/tool/call"

SHELL, PATCH = "shell", "apply_patch"
"""Names of Codex' own tools that act, as persons and scopes know them."""
DENIED = PermissionDecision(is_allowed=False)

_AMENDMENT = "acceptWithExecpolicyAmendment"


def read_permission(method: str, params: dict[str, Any], item: Mapping[str, Any]) -> ToolPermission:
    """Return the permission that a request asks for. `item`: the item that it names, if it was announced."""
    request_id = str(params.get("approvalId") or params.get("itemId") or "")
    reason = str(params.get("reason") or "")
    if method == COMMAND:
        command = str(params.get("command") or item.get("command") or "")
        names = ("command", "cwd", "reason", "commandActions", "additionalPermissions", "networkApprovalContext")
        details = {name: params[name] for name in names if params.get(name) is not None}
        suggestions = [each for each in params.get("availableDecisions") or () if isinstance(each, dict)]
        return ToolPermission(
            request_id=request_id,
            tool=SHELL,
            title=reason or command,
            tool_input=details,
            suggestions=suggestions,
            can_edit=False,
        )
    if method == FILE_CHANGE:
        details = {"changes": item.get("changes") or [], "grantRoot": params.get("grantRoot"), "reason": reason or None}
        title = reason or "Change files"
        tool = PATCH
    elif method == PERMISSIONS:
        details = {"permissions": params.get("permissions"), "cwd": params.get("cwd"), "reason": reason or None}
        title, tool = reason or "Use further permissions", "permissions"
    else:
        shown = ("serverName", "message", "requestedSchema", "_meta")
        details = {name: params.get(name) for name in shown}
        title = str(params.get("message") or "Answer a server's question")
        tool = f"mcp:{params.get('serverName', '')}"
    details = {name: value for name, value in details.items() if value is not None}
    return ToolPermission(request_id=request_id, tool=tool, title=title, tool_input=details, can_edit=False)


def render_decision(method: str, params: dict[str, Any], decision: PermissionDecision) -> dict[str, Any]:
    """Return the response to a request for a permission."""
    if method == PERMISSIONS:
        granted = params.get("permissions") if decision.is_allowed else {}
        return {"permissions": granted or {}, "scope": "session" if decision.is_remembered else "turn"}
    if method == ELICITATION:
        return {"action": "accept", "content": {}} if decision.is_allowed else {"action": "decline", "content": None}
    if not decision.is_allowed:
        return {"decision": "decline"}  # taken although it is not listed: the turn goes on
    if not decision.is_remembered:
        return {"decision": "accept"}
    offered = params.get("availableDecisions") or ()
    amendment = next((each for each in offered if isinstance(each, dict) and _AMENDMENT in each), None)
    return {"decision": amendment if amendment is not None else "acceptForSession"}


def is_approval(method: str, params: dict[str, Any]) -> bool:
    """Return whether a request asks for a permission, rather than for values that only a person knows."""
    if method != ELICITATION:
        return method in PERMISSION_METHODS
    meta = params.get("_meta")
    return isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call"


def read_questions(params: dict[str, Any]) -> list[UserQuestion]:
    """Return the questions of a request. A secret is never asked for: it would pass through the chat."""
    return [
        UserQuestion(
            question=str(each.get("question", "")),
            header=str(each.get("header", "")),
            options=tuple(
                QuestionOption(label=str(option.get("label", "")), description=str(option.get("description", "")))
                for option in each.get("options") or ()
                if isinstance(option, dict)
            ),
        )
        for each in params.get("questions") or ()
        if isinstance(each, dict) and not each.get("isSecret")
    ]


def render_answers(params: dict[str, Any], answers: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the response to questions; unanswered ones are missing."""
    questions: Sequence[Any] = params.get("questions") or ()
    found = {
        str(each.get("id")): {"answers": [answers[str(each.get("question", ""))]]}
        for each in questions
        if answers is not None and isinstance(each, dict) and str(each.get("question", "")) in answers
    }
    return {"answers": found}
