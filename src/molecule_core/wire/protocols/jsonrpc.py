"""JSON-RPC 2.0, as far as our dispatchers need it: error codes, what an id is, a refusal."""

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

JsonRpcMessage = dict[str, Any]

# The largest whole number that every JSON reader understands: an id beyond it could not be told back exactly.
_MAX_ID = 1 << 53


class RpcError(Exception):
    """A request that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        self.code = code
        self.text = text
        self.data = data
        super().__init__(text)

    def to_response(self, id_: str | int | None) -> JsonRpcMessage:
        """The answer to the request of this id."""
        error: JsonRpcMessage = {"code": self.code, "message": self.text}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": id_, "error": error}


def valid_id(value: object) -> str | int | None:
    """An id, or a token, that can be told back; None if it is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_ID:
        return value
    return None


def as_object(value: object) -> dict[str, Any]:
    """An object, or an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}
