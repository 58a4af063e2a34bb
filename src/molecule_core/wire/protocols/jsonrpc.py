"""The parts of JSON-RPC 2.0 that the dispatchers share: error codes, valid ids, error responses."""

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

JsonRpcMessage = dict[str, Any]

# The largest integer that every JSON reader represents exactly: a larger id could not be echoed unchanged.
_MAX_ID = 1 << 53


class RpcError(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        self.code = code
        self.text = text
        self.data = data
        super().__init__(text)

    def to_response(self, id_: str | int | None) -> JsonRpcMessage:
        """Return the error response for the request with this id."""
        error: JsonRpcMessage = {"code": self.code, "message": self.text}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": id_, "error": error}


def valid_id(value: object) -> str | int | None:
    """Return an id or token that can be echoed, or None if the value is not one."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_ID:
        return value
    return None


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}
