"""Parses A2A `message/send` requests and builds the responses that existing clients read.

Clients of several protocol ages are supported: missing members get defaults, old spellings are normalized, and only
the normalized form is stored. A client that sends an `A2A-Version` header is held to that version instead.
"""

from typing import Any

from msgspec import Struct

from molecule_core.common.errors import InvalidMessage, UnknownMethod
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id
from molecule_core.wire.protocols.a2a_response import normalize_part_shape, text_of_parts
from molecule_core.wire.schemas.activity import Intent
from molecule_core.wire.schemas.envelope import PLATFORM_KEYS

SEND_METHOD = "message/send"
_INTENTS = tuple(Intent)
IDENTITY_KEYS = PLATFORM_KEYS | {"user_identity_status", "email", "name"}
"""Members that are dropped from a sender's `params.metadata`."""
# Error messages quote at most this much of the client's input.
_MAX_QUOTED_LENGTH = 100
EXTENSIONS_HEADER = b"x-a2a-extensions"
"""The header in which a request names its A2A extensions."""
DELEGATION_FLAG = "delegation"
"""The member of a message's metadata that is true if the message requests a delegation."""
DELEGATION_EXTENSION = "https://molecule.dev/ext/delegation/v1"
"""A client that names this URI in the header X-A2A-Extensions delegates with its message."""
_PART_KINDS = ("text", "file", "data")
_ROLES: dict[Any, str] = {None: "user", "ROLE_USER": "user", "ROLE_AGENT": "agent"}


class SendRequest(Struct):
    """A normalized `message/send`: the JSON-RPC id for the response, and the parts of the request."""

    rpc_id: str | int | None
    params: dict[str, Any]
    message: dict[str, Any]
    message_id: str | None
    """The client's id of its message. None if it sent none; then duplicates cannot be detected."""
    text: str
    intent: str
    context_id: str | None


def is_delegation_request(metadata: dict[str, Any], extensions: str | None) -> bool:
    """Return whether a message requests a delegation, by its metadata or by the extensions of its request."""
    if metadata.get(DELEGATION_FLAG) is True:
        return True
    return extensions is not None and DELEGATION_EXTENSION in (each.strip() for each in extensions.split(","))


def is_jsonrpc(body: Any) -> bool:
    """Return whether the body is meant as JSON-RPC, so that errors are sent as JSON-RPC too."""
    return isinstance(body, dict) and ("jsonrpc" in body or "method" in body)


def rpc_id_of(body: Any) -> str | int | None:
    """Return the id of a JSON-RPC request, or None if it has no usable one."""
    found = body.get("id") if isinstance(body, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def parse_send(body: Any, *, strict: bool, limits: Limits) -> SendRequest:
    """Parse and normalize a `message/send` request. `strict`: its client names its version of A2A.

    Raises InvalidMessage or UnknownMethod."""
    if not isinstance(body, dict):
        raise InvalidMessage(reason="the body is not a JSON-RPC request. Send an object with method and params.")
    method = body.get("method", None if strict else SEND_METHOD)
    if method != SEND_METHOD:
        raise UnknownMethod(method=str(method)[:_MAX_QUOTED_LENGTH], known=SEND_METHOD)
    if strict and body.get("jsonrpc") != "2.0":
        raise InvalidMessage(reason='jsonrpc is missing or has another value. Set it to "2.0".')
    params = _object_member(body, "params")
    message = _object_member(params, "message", "params.")
    return _normalize(rpc_id_of(body), dict(params), dict(message), strict, limits)


def _normalize(
    rpc_id: str | int | None, params: dict[str, Any], message: dict[str, Any], strict: bool, limits: Limits
) -> SendRequest:
    metadata = _object_member(message, "metadata", "params.message.", required=False)
    message["kind"] = "message"
    if not strict:
        role = message.get("role")
        message["role"] = _ROLES.get(role, role) if role is None or isinstance(role, str) else role
    if message.get("role") not in ("user", "agent"):
        raise InvalidMessage(reason='params.message.role is missing or has another value. Use "user" or "agent".')
    message["parts"] = parts = _normalize_parts(message, strict, limits)
    message["metadata"] = metadata
    params["message"] = message
    params["metadata"] = _object_member(params, "metadata", "params.", required=False)
    text = parts[0]["text"] if len(parts) == 1 and parts[0]["kind"] == "text" else text_of_parts(parts)
    # A character is at most four bytes, so only texts near the limit are encoded to be measured.
    if len(text) * 4 > limits.text_bytes and _text_bytes(parts) > limits.text_bytes:
        raise InvalidMessage(
            reason=f"the text is larger than the limit of {limits.text_bytes} bytes. Shorten it, or send a file."
        )
    message_id = _parse_client_id(message, "messageId", limits, required=strict)
    intent = metadata.get("intent", Intent.REQUEST)
    if intent not in _INTENTS:
        raise InvalidMessage(
            reason=f"params.message.metadata.intent has an unknown value. Use one of: {', '.join(_INTENTS)}."
        )
    return SendRequest(
        rpc_id=rpc_id,
        params=params,
        message=message,
        message_id=message_id,
        text=text,
        intent=intent,
        context_id=_parse_client_id(message, "contextId", limits, required=False),
    )


def _text_bytes(parts: list[dict[str, Any]]) -> int:
    return len("\n".join(part["text"] for part in parts if part["kind"] == "text").encode())


def _object_member(owner: dict[str, Any], name: str, path: str = "", *, required: bool = True) -> dict[str, Any]:
    """Return a member that must be an object; an optional one that is missing is empty. `path`: that of its owner."""
    value = owner.get(name)
    if value is None and not required:
        return {}
    if not isinstance(value, dict):
        raise InvalidMessage(reason=f"{path}{name} is missing or not an object. Send an object.")
    return value


def _parse_client_id(message: dict[str, Any], name: str, limits: Limits, *, required: bool) -> str | None:
    value = message.get(name)
    if value in (None, "") and not required:
        message.pop(name, None)
        return None
    if not isinstance(value, str) or not is_valid_client_id(value, limits.id_length):
        raise InvalidMessage(reason=f"{name} is not valid. Use at most {limits.id_length} characters of {ID_ALPHABET}.")
    return value


def _normalize_parts(message: dict[str, Any], strict: bool, limits: Limits) -> list[dict[str, Any]]:
    parts = message.get("parts")
    content = message.pop("content", None)
    if parts is None and isinstance(content, str) and not strict:
        parts = [{"kind": "text", "text": content}]
    if not isinstance(parts, list) or not parts:
        raise InvalidMessage(reason="params.message.parts is missing or empty. Send a list with at least one part.")
    if len(parts) > limits.parts:
        raise InvalidMessage(reason=f"a message cannot have {len(parts)} parts. Use at most {limits.parts}.")
    normalized = [_normalize_part(part, strict) for part in parts]
    if len(normalized) > limits.attachments and sum(part["kind"] == "file" for part in normalized) > limits.attachments:
        raise InvalidMessage(
            reason=f"a message cannot have more than {limits.attachments} files. Send the rest separately."
        )
    return normalized


def _normalize_part(part: Any, strict: bool) -> dict[str, Any]:
    """Return the part with its `kind`; older clients write `type`, and A2A 1.0 has neither."""
    part = part if strict else normalize_part_shape(part)
    if not isinstance(part, dict):
        raise InvalidMessage(reason="a part of the message is not an object. Send each part as an object.")
    kind = part.get("kind") if strict else part.get("kind", part.get("type"))
    if kind is None and not strict:
        kind = next((each for each in _PART_KINDS if part.get(each) is not None), None)
    if kind not in _PART_KINDS:
        raise InvalidMessage(reason=f"the kind of a part has an unknown value. Use one of: {', '.join(_PART_KINDS)}.")
    expected_type: type | tuple[type, ...] = str if kind == "text" else (dict, list) if kind == "data" else dict
    if not isinstance(part.get(kind), expected_type):
        raise InvalidMessage(reason=f"a {kind} part has no valid content. Send its content under {kind!r}.")
    normalized: dict[str, Any] = {"kind": kind}
    normalized.update(part)
    normalized.pop("type", None)
    normalized["kind"] = kind
    return normalized


def queued_response(rpc_id: str | int | None, *, activity_id: str, context_id: str, at: str) -> dict[str, Any]:
    """Build the response for a message to a polling agent: a submitted A2A task plus the members that older clients
    read.

    The older shape alone is not a valid JSON-RPC response; A2A clients raise on it."""
    return {
        "jsonrpc": "2.0",
        "id": rpc_id,
        "result": {
            "kind": "task",
            "id": activity_id,
            "contextId": context_id,
            "status": {"state": "submitted", "timestamp": at},
        },
        "status": "queued",
        "delivery_mode": "poll",
        "method": SEND_METHOD,
        "activity_id": activity_id,
    }


def task_response(rpc_id: str | int | None, task: dict[str, Any], *, is_settled: bool) -> dict[str, Any]:
    """Build the response for a message that delegates: the task and, until it has ended, the members that older
    clients read."""
    response = {"jsonrpc": "2.0", "id": rpc_id, "result": task}
    if is_settled:
        return response
    return {**response, "status": "queued", "delivery_mode": "poll", "method": SEND_METHOD, "activity_id": task["id"]}


def rpc_error_response(rpc_id: str | int | None, code: int, text: str, reason: str) -> dict[str, Any]:
    """Build a JSON-RPC error response. `reason`: Molecule's error code, sent as A2A's ErrorInfo."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason.upper(), "domain": "molecule"}
    return {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": text, "data": [info]}}
