"""Translates approvals for clients that speak kagent's extension for tool approvals. Pure.

A request that names the extension gets the approval of a task in it, and its decision counts like one in ours. See
docs/decisions/0112-kagents-extension-for-approvals.md.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from molecule_core.views.a2a_tasks import APPROVAL_EXTENSION
from molecule_core.wire.protocols.a2a_rpc import INVALID_PARAMS, A2AError
from molecule_core.wire.protocols.a2a_shapes import A2AState, A2ATask, StatusUpdate, StreamEvent

TOOL_APPROVAL_EXTENSION = "https://kagent.dev/extensions/hitl/v1"
"""Extension of kagent: a tool call that waits for an approval, in the metadata of a status message, and the answer."""
_REQUEST, _RESPONSE = "tool_approval_request", "tool_approval_response"
_TOOL_NAME = "request_approval"
_ARGUMENTS = ("action", "reason", "risk")
E = TypeVar("E", bound=StreamEvent)


def add_request(event: E, extensions: Collection[str]) -> E:
    """Return a task or status that waits for an approval with the request of the extension, if a client names it."""
    if TOOL_APPROVAL_EXTENSION not in extensions or not isinstance(event, A2ATask | StatusUpdate):
        return event
    status, about = event.status, event.metadata.get(APPROVAL_EXTENSION)
    if status.state is not A2AState.AUTH_REQUIRED or status.message is None or not isinstance(about, Mapping):
        return event
    id_ = about["approval_id"]
    arguments = {name: about[name] for name in _ARGUMENTS if about.get(name)}
    tool = {"id": id_, "call_id": id_, "name": _TOOL_NAME, "args": arguments}
    hint = "\n".join(str(part.get("text", "")) for part in status.message.parts)
    message = replace(
        status.message,
        metadata={
            **status.message.metadata,
            TOOL_APPROVAL_EXTENSION: {"type": _REQUEST, "hint": hint, "tools": [tool]},
        },
        extensions=(*status.message.extensions, TOOL_APPROVAL_EXTENSION),
    )
    return replace(event, status=replace(status, message=message))


def read_decision(message: Mapping[str, Any], extensions: Collection[str]) -> dict[str, Any] | None:
    """Return the decision of a message as our extension writes it; None if the message has none. Raises A2AError."""
    named = message.get("extensions")
    is_named = TOOL_APPROVAL_EXTENSION in extensions or (isinstance(named, list) and TOOL_APPROVAL_EXTENSION in named)
    response = message["metadata"].get(TOOL_APPROVAL_EXTENSION)
    if not is_named or response is None:
        return None
    approvals = response.get("approvals") if isinstance(response, dict) else None
    is_response = isinstance(response, dict) and response.get("type", _RESPONSE) == _RESPONSE
    if not is_response or not isinstance(approvals, list) or len(approvals) != 1 or not _is_decision(approvals[0]):
        raise A2AError(INVALID_PARAMS, f"the {_RESPONSE} needs one approval with an id and approved: true or false.")
    (found,) = approvals
    decision = "approve" if found["approved"] else "deny"
    return {"approval_id": found["id"], "decision": decision, "comment": found.get("rejection_reason")}


def _is_decision(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str) and isinstance(value.get("approved"), bool)
