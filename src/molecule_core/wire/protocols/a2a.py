"""Parses A2A `message/send` requests and builds the responses that existing clients read.

Clients of several protocol ages are supported: missing members get defaults, old spellings are normalized, and only
the normalized form is stored. A client that sends an `A2A-Version` header is held to that version instead.
"""

from typing import Any

from msgspec import Struct

from molecule_core.common.errors import A2AVersionNotSupported, InvalidMessage, UnknownMethod
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id

SEND_METHOD = "message/send"
STRICT_VERSIONS = ("0.3",)
INTENTS = ("request", "inform", "ack")
# The credential proves the sender; the same members in the body are dropped.
IDENTITY_KEYS = ("source", "user_identity_status", "user_id", "email", "username", "name")
# Error messages quote at most this much of the client's input.
_MAX_QUOTED_LENGTH = 100
DELEGATION_EXTENSION = "https://molecule.dev/ext/delegation/v1"
"""A client that names this URI in the header X-A2A-Extensions delegates with its message."""
_PART_KINDS = ("text", "file", "data")


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


def is_jsonrpc(body: Any) -> bool:
    """Return whether the body is meant as JSON-RPC, so that errors are sent as JSON-RPC too."""
    return isinstance(body, dict) and ("jsonrpc" in body or "method" in body)


def rpc_id_of(body: Any) -> str | int | None:
    """Return the id of a JSON-RPC request, or None if it has no usable one."""
    found = body.get("id") if isinstance(body, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def parse_send(body: Any, *, version: str | None, limits: Limits) -> SendRequest:
    """Parse and normalize a `message/send` request. `version`: the A2A-Version header.

    Raises InvalidMessage, UnknownMethod or A2AVersionNotSupported."""
    if version is not None and version.strip() not in ("", *STRICT_VERSIONS):
        raise A2AVersionNotSupported(version=version[:_MAX_QUOTED_LENGTH], supported=", ".join(STRICT_VERSIONS))
    strict = version is not None
    if not isinstance(body, dict):
        raise InvalidMessage(reason="the body must be a JSON object with method and params")
    method = body.get("method", None if strict else SEND_METHOD)
    if method != SEND_METHOD:
        raise UnknownMethod(method=str(method)[:_MAX_QUOTED_LENGTH], known=SEND_METHOD)
    if strict and body.get("jsonrpc") != "2.0":
        raise InvalidMessage(reason='jsonrpc must be "2.0"')
    params = _require_object(body.get("params"), "params")
    message = _require_object(params.get("message"), "params.message")
    return _normalize(rpc_id_of(body), dict(params), dict(message), strict, limits)


def _normalize(
    rpc_id: str | int | None, params: dict[str, Any], message: dict[str, Any], strict: bool, limits: Limits
) -> SendRequest:
    metadata = _optional_object(message.get("metadata"), "params.message.metadata")
    message["kind"] = "message"
    message["role"] = _normalize_role(message.get("role"), strict)
    message["parts"] = parts = _normalize_parts(message, strict, limits)
    message["metadata"] = metadata
    params["message"] = message
    params["metadata"] = _optional_object(params.get("metadata"), "params.metadata")
    text = parts[0]["text"] if len(parts) == 1 and parts[0]["kind"] == "text" else _join_texts(parts)
    # A character is at most four bytes, so only texts near the limit are encoded to be measured.
    if len(text) * 4 > limits.text_bytes and len(text.encode()) > limits.text_bytes:
        raise InvalidMessage(reason=f"the text is longer than {limits.text_bytes} bytes; shorten it or send a file")
    return SendRequest(
        rpc_id=rpc_id,
        params=params,
        message=message,
        message_id=_parse_client_id(message, "messageId", limits, required=strict),
        text=text,
        intent=_parse_intent(metadata),
        context_id=_parse_client_id(message, "contextId", limits, required=False),
    )


def _join_texts(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def _require_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidMessage(reason=f"{where} must be an object")
    return value


def _optional_object(value: Any, where: str) -> dict[str, Any]:
    return {} if value is None else _require_object(value, where)


def _normalize_role(role: Any, strict: bool) -> str:
    if role is None and not strict:
        return "user"
    if role not in ("user", "agent"):
        raise InvalidMessage(reason='params.message.role must be "user" or "agent"')
    return str(role)


def _parse_client_id(message: dict[str, Any], name: str, limits: Limits, *, required: bool) -> str | None:
    value = message.get(name)
    if value in (None, "") and not required:
        message.pop(name, None)
        return None
    if not isinstance(value, str) or not is_valid_client_id(value, limits.id_length):
        raise InvalidMessage(reason=f"{name} must be text of at most {limits.id_length} characters of {ID_ALPHABET}")
    return value


def _parse_intent(metadata: dict[str, Any]) -> str:
    intent = metadata.get("intent", "request")
    if intent not in INTENTS:
        raise InvalidMessage(reason=f"params.message.metadata.intent must be one of {', '.join(INTENTS)}")
    return str(intent)


def _normalize_parts(message: dict[str, Any], strict: bool, limits: Limits) -> list[dict[str, Any]]:
    parts = message.get("parts")
    content = message.pop("content", None)
    if parts is None and isinstance(content, str) and not strict:
        parts = [{"kind": "text", "text": content}]
    if not isinstance(parts, list) or not parts:
        raise InvalidMessage(reason="params.message.parts must be a list with at least one part")
    if len(parts) > limits.parts:
        raise InvalidMessage(reason=f"there are {len(parts)} parts; at most {limits.parts} are taken")
    normalized = [_normalize_part(part, strict) for part in parts]
    if len(normalized) > limits.attachments and sum(part["kind"] == "file" for part in normalized) > limits.attachments:
        raise InvalidMessage(reason=f"more than {limits.attachments} files; send the rest with another message")
    return normalized


def _normalize_part(part: Any, strict: bool) -> dict[str, Any]:
    """Return the part with its `kind`; older clients write `type`."""
    if not isinstance(part, dict):
        raise InvalidMessage(reason="each part must be an object")
    kind = part.get("kind") if strict else part.get("kind", part.get("type"))
    if kind is None and not strict and isinstance(part.get("text"), str):
        kind = "text"
    if kind not in _PART_KINDS:
        raise InvalidMessage(reason=f"a part's kind must be one of {', '.join(_PART_KINDS)}")
    expected_type: type | tuple[type, ...] = str if kind == "text" else (dict, list) if kind == "data" else dict
    if not isinstance(part.get(kind), expected_type):
        raise InvalidMessage(reason=f"a {kind} part must hold its content under {kind!r}")
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
