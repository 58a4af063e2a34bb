"""What MCP over HTTP asks of a request, by the book of both eras: its kind, its era, its headers. No I/O.

Above: `edges/mcp.py`. Below: the dispatcher's words (`wire/mcp.py`).
"""

import base64
import binascii
import enum
import re
from typing import Any

import msgspec

from molecule_core.edges.routes import Answer, Call
from molecule_core.ground.text import shorten
from molecule_core.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    RpcError,
    object_of,
    usable_id,
)
from molecule_core.wire.mcp import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSIONS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)

HEADER_MISMATCH = -32020
NO_SESSION = -32001
_JSON, _EVENTS = "application/json", "text/event-stream"
# Of the second era: what is refused before anything was done has a status of its own; all else is an answer.
_STATUS = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class Refused(Exception):
    """A request of MCP that is answered with an error of JSON-RPC and a status."""

    def __init__(self, status: int, code: int, text: str, id_: str | int | None = None, data: Any = None) -> None:
        self.status = status
        self.error = RpcError(code, text, data)
        self.id = id_
        super().__init__(text)

    def answer(self) -> Answer:
        """The answer."""
        return Answer(msgspec.json.encode(self.error.answer(self.id)), self.status)


class Kind(enum.Enum):
    """What a message is."""

    REQUEST = "wants an answer"
    TOLD = "wants none: a notification, or an answer"


def takes_events(call: Call) -> bool:
    """Whether the client takes an answer as events. Raises Refused if it takes neither them nor JSON."""
    accepted = _accepted(call)
    if not accepted & {_JSON, "application/*", "*/*"}:
        raise Refused(406, INVALID_REQUEST, f"the answer is {_JSON}, or {_EVENTS}: send Accept: {_JSON}, {_EVENTS}")
    return bool(accepted & {_EVENTS, "text/*"})


def check_takes_events(call: Call) -> None:
    """For a request that can only be answered with events. Raises Refused."""
    if not _accepted(call) & {_EVENTS, "text/*", "*/*"}:
        raise Refused(406, INVALID_REQUEST, f"this is a stream of events: send Accept: {_EVENTS}")


def _accepted(call: Call) -> set[str]:
    ranges = (call.header(b"accept") or "*/*").lower().split(",")
    return {each.partition(";")[0].strip() for each in ranges}


def check_is_json(call: Call) -> None:
    """Raises Refused if the body says that it is something else."""
    told = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    if told != _JSON:
        raise Refused(415, INVALID_REQUEST, f"the body must be {_JSON}: send Content-Type: {_JSON}")


def kind_of(message: Any) -> Kind:
    """What a message is. Raises Refused if it is no JSON-RPC."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Refused(400, INVALID_REQUEST, 'send one JSON-RPC object with "jsonrpc": "2.0"')
    method, params, id_ = message.get("method"), message.get("params"), usable_id(message.get("id"))
    if method is None and ("result" in message or "error" in message):
        return Kind.TOLD
    if not isinstance(method, str) or not isinstance(params, dict | None):
        raise Refused(400, INVALID_REQUEST, "method must be text, and params, if there are any, an object", id_)
    if "id" not in message:
        return Kind.TOLD
    if id_ is None:
        raise Refused(400, INVALID_REQUEST, "id must be text or a whole number")
    return Kind.REQUEST


def envelope_of(message: Any) -> dict[str, Any]:
    """`_meta` of a request; empty if it has none."""
    return object_of(object_of(object_of(message).get("params")).get("_meta"))


def is_stateless(call: Call, message: Any) -> bool:
    """Whether a request is of the second era: it says so in its header, or in itself. Raises Refused for a version that
    nobody knows."""
    version = call.header(b"mcp-protocol-version")
    if VERSION_KEY in envelope_of(message) and message.get("method") != "initialize":
        return True
    if version is None or version in HANDSHAKE_VERSIONS:
        return False
    if version in STATELESS_VERSIONS:
        return True
    known = [*reversed((*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS))]
    told = {"supported": known, "requested": shorten(version, 100)}
    id_ = usable_id(object_of(message).get("id"))
    raise Refused(400, UNSUPPORTED_VERSION, "this protocol version is not supported", id_, told)


def check_stateless(call: Call, message: Message) -> None:
    """The steps by which the second era checks a request before anything is done. Raises Refused."""
    id_, method, meta = message["id"], message["method"], envelope_of(message)
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise Refused(400, INVALID_PARAMS, f"params._meta must hold {' and '.join(missing)}", id_)

    def check(header: bytes, wanted: object) -> None:
        if _decoded(call.header(header)) != wanted:
            name = header.decode().title()
            raise Refused(400, HEADER_MISMATCH, f"the header {name} does not say the same as the body", id_)

    check(b"mcp-protocol-version", meta[VERSION_KEY])
    check(b"mcp-method", method)
    named = object_of(message.get("params")).get(_NAMED.get(method, ""))
    if named is not None:
        check(b"mcp-name", named)


def _decoded(value: str | None) -> str | None:
    """A header's value; one that could not stand in a header comes as base64. None if it is broken."""
    found = _ENCODED.fullmatch(value or "")
    if found is None:
        return value
    try:
        text = base64.b64decode(found[1], validate=True)
        return text.decode() if base64.b64encode(text).decode() == found[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def stateless_status(answer: Message) -> int:
    """The status of an answer of the second era."""
    error = answer.get("error")
    return _STATUS.get(error["code"], 200) if isinstance(error, dict) else 200
