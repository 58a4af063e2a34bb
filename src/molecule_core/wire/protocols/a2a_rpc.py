"""Requests and errors of A2A over JSON-RPC and REST, in both lines of the protocol. Decides nothing about tasks."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.wire.protocols.a2a_shapes import A2ALine

VERSION_HEADER = b"a2a-version"
VERSION_PARAM = "A2A-Version"
EXTENSIONS_HEADERS = (b"a2a-extensions", b"x-a2a-extensions")
"""The headers in which a request names extensions: of 1.0 and of 0.3."""
A2A_MEDIA_TYPE = "application/a2a+json"
A2A_DOMAIN = "a2a-protocol.org"
OWN_DOMAIN = "molecule"
"""The domains of reasons: of the protocol, and of errors that only Molecule has."""
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_VERSION = re.compile(r"^([0-9]{1,4}\.[0-9]{1,4})(?:\.[0-9]{1,9})?$", re.ASCII)
_MAX_QUOTED_LENGTH = 100
_JSON_TYPES = ("application/json", A2A_MEDIA_TYPE)


class Operation(StrEnum):
    """Operation of A2A, independent of line and binding."""

    SEND = "send"
    STREAM = "stream"
    GET = "get"
    LIST = "list"
    CANCEL = "cancel"
    SUBSCRIBE = "subscribe"
    CREATE_PUSH = "create_push"
    GET_PUSH = "get_push"
    LIST_PUSH = "list_push"
    DELETE_PUSH = "delete_push"
    EXTENDED_CARD = "extended_card"


METHODS: Mapping[str, tuple[A2ALine, Operation]] = {
    "SendMessage": (A2ALine.V1, Operation.SEND),
    "SendStreamingMessage": (A2ALine.V1, Operation.STREAM),
    "GetTask": (A2ALine.V1, Operation.GET),
    "ListTasks": (A2ALine.V1, Operation.LIST),
    "CancelTask": (A2ALine.V1, Operation.CANCEL),
    "SubscribeToTask": (A2ALine.V1, Operation.SUBSCRIBE),
    "CreateTaskPushNotificationConfig": (A2ALine.V1, Operation.CREATE_PUSH),
    "GetTaskPushNotificationConfig": (A2ALine.V1, Operation.GET_PUSH),
    "ListTaskPushNotificationConfigs": (A2ALine.V1, Operation.LIST_PUSH),
    "DeleteTaskPushNotificationConfig": (A2ALine.V1, Operation.DELETE_PUSH),
    "GetExtendedAgentCard": (A2ALine.V1, Operation.EXTENDED_CARD),
    "message/send": (A2ALine.V0_3, Operation.SEND),
    "message/stream": (A2ALine.V0_3, Operation.STREAM),
    "tasks/get": (A2ALine.V0_3, Operation.GET),
    "tasks/cancel": (A2ALine.V0_3, Operation.CANCEL),
    "tasks/resubscribe": (A2ALine.V0_3, Operation.SUBSCRIBE),
    "tasks/pushNotificationConfig/set": (A2ALine.V0_3, Operation.CREATE_PUSH),
    "tasks/pushNotificationConfig/get": (A2ALine.V0_3, Operation.GET_PUSH),
    "tasks/pushNotificationConfig/list": (A2ALine.V0_3, Operation.LIST_PUSH),
    "tasks/pushNotificationConfig/delete": (A2ALine.V0_3, Operation.DELETE_PUSH),
    "agent/getAuthenticatedExtendedCard": (A2ALine.V0_3, Operation.EXTENDED_CARD),
}
"""Every JSON-RPC method, with its line and operation."""


class A2AErrorKind(NamedTuple):
    """Kind of an error: JSON-RPC code, reason, HTTP status and status name of the REST binding."""

    code: int
    reason: str
    status: int
    name: str


PARSE_ERROR = A2AErrorKind(-32700, "PARSE_ERROR", 400, "INVALID_ARGUMENT")
INVALID_REQUEST = A2AErrorKind(-32600, "INVALID_REQUEST", 400, "INVALID_ARGUMENT")
METHOD_NOT_FOUND = A2AErrorKind(-32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND")
INVALID_PARAMS = A2AErrorKind(-32602, "INVALID_PARAMS", 400, "INVALID_ARGUMENT")
INTERNAL = A2AErrorKind(-32603, "INTERNAL_ERROR", 500, "INTERNAL")
TASK_NOT_FOUND = A2AErrorKind(-32001, "TASK_NOT_FOUND", 404, "NOT_FOUND")
TASK_NOT_CANCELABLE = A2AErrorKind(-32002, "TASK_NOT_CANCELABLE", 400, "FAILED_PRECONDITION")
PUSH_NOT_SUPPORTED = A2AErrorKind(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION")
UNSUPPORTED_OPERATION = A2AErrorKind(-32004, "UNSUPPORTED_OPERATION", 400, "FAILED_PRECONDITION")
CONTENT_TYPE_NOT_SUPPORTED = A2AErrorKind(-32005, "CONTENT_TYPE_NOT_SUPPORTED", 400, "INVALID_ARGUMENT")
INVALID_AGENT_RESPONSE = A2AErrorKind(-32006, "INVALID_AGENT_RESPONSE", 500, "INTERNAL")
NO_EXTENDED_CARD = A2AErrorKind(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", 400, "FAILED_PRECONDITION")
EXTENSION_REQUIRED = A2AErrorKind(-32008, "EXTENSION_SUPPORT_REQUIRED", 400, "FAILED_PRECONDITION")
VERSION_NOT_SUPPORTED = A2AErrorKind(-32009, "VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION")


class A2AError(Exception):
    """An error of the protocol. `domain` names who defines its reason."""

    def __init__(self, kind: A2AErrorKind, text: str, *, domain: str = A2A_DOMAIN) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.domain = domain

    def info(self) -> dict[str, Any]:
        """Return the details of the error, a google.rpc.ErrorInfo."""
        return {"@type": _ERROR_INFO, "reason": self.kind.reason, "domain": self.domain}


class RpcRequest(Struct, frozen=True):
    """A JSON-RPC request."""

    id: str | int | float | None
    method: str
    params: dict[str, Any]


def parse_line(version: str | None) -> A2ALine:
    """Return the line of a version; a missing one is 0.3, a patch number is ignored. Raises A2AError."""
    text = (version or "").strip()
    if not text:
        return A2ALine.V0_3
    found = _VERSION.match(text)
    for line in A2ALine:
        if found is not None and found[1] == line:
            return line
    supported = ", ".join(A2ALine)
    raise A2AError(
        VERSION_NOT_SUPPORTED,
        f"A2A version {text[:_MAX_QUOTED_LENGTH]} is not supported. Use one of: {supported}.",
    )


def check_content_type(content_type: str | None) -> None:
    """Check that a body is not declared as something else than JSON. Raises A2AError."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type and media_type not in _JSON_TYPES:
        raise A2AError(
            CONTENT_TYPE_NOT_SUPPORTED,
            f"the content type {media_type[:_MAX_QUOTED_LENGTH]} is not supported. Use application/json.",
        )


def parse_extensions(values: list[str | None]) -> frozenset[str]:
    """Return the extensions that the headers of a request name."""
    return frozenset(each.strip() for value in values if value for each in value.split(",") if each.strip())


def request_id(body: Any) -> str | int | float | None:
    """Return the id of a request for its response, or None."""
    found = body.get("id") if isinstance(body, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def parse_request(body: Any) -> RpcRequest:
    """Return the envelope of a request. Raises A2AError."""
    if isinstance(body, list):
        raise A2AError(INVALID_REQUEST, "a batch is not supported. Send one request at a time.")
    if not isinstance(body, dict):
        raise A2AError(INVALID_REQUEST, "the body is not a JSON-RPC request. Send an object.")
    if body.get("jsonrpc") != "2.0":
        raise A2AError(INVALID_REQUEST, 'jsonrpc is missing or has another value. Set it to "2.0".')
    if isinstance(body.get("id"), bool | dict | list):
        raise A2AError(INVALID_REQUEST, "id must be a text, a number or null.")
    method, params = body.get("method"), body.get("params")
    if not isinstance(method, str) or not method:
        raise A2AError(INVALID_REQUEST, "method is missing or not a text.")
    if params is not None and not isinstance(params, dict):
        raise A2AError(INVALID_PARAMS, "params is not an object. Send an object.")
    return RpcRequest(request_id(body), method, params or {})


def find_operation(method: str, line: A2ALine) -> Operation:
    """Return the operation of a method in a line. Raises A2AError."""
    found = METHODS.get(method)
    if found is not None and found[0] is line:
        return found[1]
    if found is not None and found[0] is A2ALine.V1:
        raise A2AError(VERSION_NOT_SUPPORTED, f"{method} is a method of A2A 1.0. Send the header A2A-Version: 1.0.")
    raise A2AError(METHOD_NOT_FOUND, f"the method {method[:_MAX_QUOTED_LENGTH]} is unknown in A2A {line}.")


def rpc_result(id_: str | int | float | None, result: Any) -> dict[str, Any]:
    """Return the envelope of a result."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def rpc_error(id_: str | int | float | None, error: A2AError) -> dict[str, Any]:
    """Return the envelope of an error."""
    return {
        "jsonrpc": "2.0",
        "id": id_,
        "error": {"code": error.kind.code, "message": error.text, "data": [error.info()]},
    }


def rest_error(error: A2AError) -> dict[str, Any]:
    """Return the body of an error in the REST binding."""
    kind = error.kind
    return {"error": {"code": kind.status, "status": kind.name, "message": error.text, "details": [error.info()]}}


def with_json_names(value: Any) -> Any:
    """Return the parameters of 1.0 with the names of ProtoJSON, which also allows those of the protobuf file.

    Metadata and data of the client stay as they are."""
    if isinstance(value, list):
        return [with_json_names(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {_json_name(name): member for name, member in value.items() if "_" in name}
    plain = {name: member for name, member in value.items() if "_" not in name}
    return {
        name: member if name in _CLIENT_MEMBERS else with_json_names(member)
        for name, member in {**named, **plain}.items()
    }


_CLIENT_MEMBERS = ("metadata", "data", "header")


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


# -- members of params -------------------------------------------------------------------------------------------------


def text_param(params: Mapping[str, Any], name: str, *, required: bool = False) -> str | None:
    """Return a text parameter; an empty one counts as missing. Raises A2AError."""
    value = params.get(name)
    if value in (None, "") and not required:
        return None
    if not isinstance(value, str) or not value:
        raise A2AError(INVALID_PARAMS, f"{name} is missing or not a text.")
    return value


def int_param(params: Mapping[str, Any], name: str, *, least: int, most: int) -> int | None:
    """Return a whole number, also from its text, as queries have it; None if it is missing. Raises A2AError."""
    value = params.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-").isdigit():
        value = int(value[:20])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise A2AError(INVALID_PARAMS, f"{name} must be a whole number from {least} to {most}.")
    return value


def bool_param(params: Mapping[str, Any], name: str) -> bool | None:
    """Return a boolean, also from its text, as queries have it; None if it is missing. Raises A2AError."""
    value = params.get(name)
    if isinstance(value, str):
        value = {"true": True, "false": False, "": None}.get(value.lower(), value)
    if value is not None and not isinstance(value, bool):
        raise A2AError(INVALID_PARAMS, f"{name} must be true or false.")
    return value


def object_param(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object; a missing one is empty. Raises A2AError."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise A2AError(INVALID_PARAMS, f"{name} is not an object.")
    return value
