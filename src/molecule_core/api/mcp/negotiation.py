"""Validates MCP requests over HTTP: message kind, protocol version, headers. No I/O.

Versions with `initialize` use sessions; newer ones are stateless. Called by `api/mcp/routes.py`.
"""

import base64
import binascii
import enum
import re
from typing import Any

import msgspec

from molecule_core.api.http.response import Response
from molecule_core.api.routing import Request
from molecule_core.common.text import truncate_line
from molecule_core.tools.mcp_dispatcher import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSIONS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from molecule_core.wire.protocols.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    JsonRpcMessage,
    RpcError,
    as_object,
    valid_id,
)

HEADER_MISMATCH = -32020
NO_SESSION = -32001
_JSON, _EVENTS = "application/json", "text/event-stream"
# Stateless versions only: requests rejected before any work have their own status; all other responses are 200.
_STATUS_OF_CODE = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
_NAME_PARAM_OF_METHOD = {
    **dict.fromkeys(("tools/call", "prompts/get"), "name"),
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=")


class McpRejection(Exception):
    """MCP request that is answered with a JSON-RPC error and an HTTP status."""

    def __init__(self, status: int, code: int, text: str, id_: str | int | None = None, data: Any = None) -> None:
        self.status = status
        self.error = RpcError(code, text, data)
        self.id = id_
        super().__init__(text)

    def to_response(self) -> Response:
        """Return the error response."""
        return Response(msgspec.json.encode(self.error.to_response(self.id)), self.status)


class RpcMessageKind(enum.Enum):
    """Whether a JSON-RPC message needs a response."""

    REQUEST = "wants an answer"
    ONE_WAY = "wants none: a notification, or an answer"


def client_accepts_events(request: Request) -> bool:
    """Return whether the client accepts server-sent events. Raises McpRejection if it accepts neither them nor JSON."""
    accepted = _accepted_types(request)
    if not accepted & {_JSON, "application/*", "*/*"}:
        raise McpRejection(
            406, INVALID_REQUEST, f"the client must accept {_JSON} or {_EVENTS}. Send Accept: {_JSON}, {_EVENTS}."
        )
    return bool(accepted & {_EVENTS, "text/*"})


def check_accepts_events(request: Request) -> None:
    """Check that the client accepts server-sent events. Raises McpRejection."""
    if not _accepted_types(request) & {_EVENTS, "text/*", "*/*"}:
        raise McpRejection(406, INVALID_REQUEST, f"the client must accept {_EVENTS}. Send Accept: {_EVENTS}.")


def _accepted_types(request: Request) -> set[str]:
    ranges = (request.header(b"accept") or "*/*").lower().split(",")
    return {each.partition(";")[0].strip() for each in ranges}


def check_content_type(request: Request) -> None:
    """Check that the body is declared as JSON. Raises McpRejection."""
    declared = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if declared != _JSON:
        raise McpRejection(415, INVALID_REQUEST, f"the body must be {_JSON}. Send Content-Type: {_JSON}.")


def kind_of_message(message: Any) -> RpcMessageKind:
    """Return the kind of a message. Raises McpRejection if it is not JSON-RPC."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise McpRejection(400, INVALID_REQUEST, 'the body must be JSON-RPC. Send one object with "jsonrpc": "2.0".')
    method, params, id_ = message.get("method"), message.get("params"), valid_id(message.get("id"))
    if method is None and ("result" in message or "error" in message):
        return RpcMessageKind.ONE_WAY
    if not isinstance(method, str) or not isinstance(params, dict | None):
        raise McpRejection(
            400, INVALID_REQUEST, "method or params is not valid. Send method as text, and params as an object.", id_
        )
    if "id" not in message:
        return RpcMessageKind.ONE_WAY
    if id_ is None:
        raise McpRejection(400, INVALID_REQUEST, "id is not valid. Use text or a whole number.")
    return RpcMessageKind.REQUEST


def request_meta(message: Any) -> dict[str, Any]:
    """Return `_meta` of a request, or an empty object."""
    return as_object(as_object(as_object(message).get("params")).get("_meta"))


def is_stateless(request: Request, message: Any) -> bool:
    """Return whether a request uses a stateless version, by its header or its `_meta`.

    Raises McpRejection for an unknown version."""
    version = request.header(b"mcp-protocol-version")
    if VERSION_KEY in request_meta(message) and message.get("method") != "initialize":
        return True
    if version is None or version in HANDSHAKE_VERSIONS:
        return False
    if version in STATELESS_VERSIONS:
        return True
    supported = [*reversed((*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS))]
    declared = {"supported": supported, "requested": truncate_line(version, 100)}
    id_ = valid_id(as_object(message).get("id"))
    raise McpRejection(
        400,
        UNSUPPORTED_VERSION,
        "the server does not support this protocol version. Use one of those in supported.",
        id_,
        declared,
    )


def check_stateless(request: Request, message: JsonRpcMessage) -> None:
    """Check a stateless request before any work is done. Raises McpRejection."""
    id_, method, meta = message["id"], message["method"], request_meta(message)
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise McpRejection(400, INVALID_PARAMS, f"params._meta is not complete. Add {' and '.join(missing)}.", id_)

    def check(header: bytes, expected: object) -> None:
        if _decode_header(request.header(header)) != expected:
            name = header.decode().title()
            raise McpRejection(
                400, HEADER_MISMATCH, f"the header {name} differs from the body. Send the same value in both.", id_
            )

    check(b"mcp-protocol-version", meta[VERSION_KEY])
    check(b"mcp-method", method)
    body_name = as_object(message.get("params")).get(_NAME_PARAM_OF_METHOD.get(method, ""))
    if body_name is not None:
        check(b"mcp-name", body_name)


def _decode_header(value: str | None) -> str | None:
    """Return a header value, decoded if it is base64; None if that is malformed."""
    found = _BASE64_VALUE.fullmatch(value or "")
    if found is None:
        return value
    try:
        text = base64.b64decode(found[1], validate=True)
        return text.decode() if base64.b64encode(text).decode() == found[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def stateless_status(answer: JsonRpcMessage) -> int:
    """Return the HTTP status of a response in a stateless version."""
    error = answer.get("error")
    return _STATUS_OF_CODE.get(error["code"], 200) if isinstance(error, dict) else 200
