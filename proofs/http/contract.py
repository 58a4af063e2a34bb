"""What the server's own document says of its answers, held against the answers."""

import re
from typing import Any

from jsonschema import Draft202012Validator

from testing.raw_http import Reply

_MOST_CHECKED = 256 << 10
_BODILESS = (101, 204, 304)


class Operation:
    """One route as the document tells it."""

    def __init__(self, method: str, path: str, told: dict[str, Any], components: dict[str, Any]) -> None:
        self.method = method.upper()
        self.path = path
        self.names: list[str] = re.findall(r"{(\w+)}", path)
        self.takes: list[str] = told.get("x-credentials", [])
        self._responses = told["responses"]
        self._checks: dict[str, Draft202012Validator] = {}
        self._components = components

    @property
    def name(self) -> str:
        """How it is called in a note."""
        return f"{self.method} {self.path}"

    def break_of(self, reply: Reply) -> str | None:
        """What the document does not say of an answer; None if it says all of it."""
        status = next((each for each in (str(reply.status), f"{reply.status // 100}XX") if each in self._responses), "")
        if not status:
            return f"status {reply.status} is not declared"
        contents: dict[str, Any] = self._responses[status].get("content", {})
        if reply.status in _BODILESS or (not contents and not reply.body):
            return None if not reply.body else f"{reply.status} with a body"
        media = reply.headers.get("content-type", "").partition(";")[0]
        declared = next((each for each in contents if _fits(each, media)), None)
        if declared is None:
            return f"{reply.status} comes as {media!r}, not as {' or '.join(contents) or 'nothing'}"
        if media != "application/json" or len(reply.body) > _MOST_CHECKED:
            return None
        return self._wrong_body(status, contents[declared]["schema"], reply)

    def _wrong_body(self, status: str, schema: dict[str, Any], reply: Reply) -> str | None:
        if status not in self._checks:
            self._checks[status] = Draft202012Validator({**schema, "components": self._components})
        try:
            value = reply.json
        except ValueError:
            return f"{reply.status} with a body that is no JSON"
        wrong = next(self._checks[status].iter_errors(value), None)
        return None if wrong is None else f"{reply.status}: {wrong.json_path}: {wrong.message[:200]}"


def _fits(declared: str, media: str) -> bool:
    if declared == "*/*":
        return media != ""
    kind = declared.removesuffix("*")
    return media.startswith(kind) if kind != declared else media == declared


def operations_of(document: dict[str, Any]) -> dict[tuple[str, str], Operation]:
    """Every route of a document, by method and path."""
    components = document["components"]
    return {
        (method.upper(), path): Operation(method, path, told, components)
        for path, item in document["paths"].items()
        for method, told in item.items()
    }


def flaw_of(reply: Reply) -> str | None:
    """What is wrong with an answer that may come to anything at all: a refusal has its form, whatever was asked."""
    if reply.status < 400:
        return None
    is_of_a2a = reply.headers.get("content-type") == "application/a2a+json"
    if reply.headers.get("content-type") != "application/json" and not is_of_a2a:
        return f"{reply.status} comes as {reply.headers.get('content-type')!r}"
    try:
        told = reply.json
    except ValueError:
        return f"{reply.status} with a body that is no JSON"
    if not isinstance(told, dict):
        return f"{reply.status} is told as {told}"[:200]
    if is_of_a2a:
        return _flaw_of_a2a(reply.status, told)
    return flaw_of_rpc(told) if "jsonrpc" in told else _flaw_of_problem(reply.status, told)


def _flaw_of_a2a(status: int, told: dict[str, Any]) -> str | None:
    error = told.get("error")
    good = isinstance(error, dict) and error.get("code") == status and isinstance(error.get("message"), str)
    return None if good else f"{status} is told as {told}"[:200]


def _flaw_of_problem(status: int, told: dict[str, Any]) -> str | None:
    if told.get("deleted") is True:  # the state of a removed seat, which its route declares
        return None
    # Older clients read in `status` that they are asked to confirm.
    is_told = told.get("status") in (status, "confirmation_required") and told.get("code") and "error" in told
    return None if is_told else f"{status} is told as {told}"[:200]


def flaw_of_rpc(told: Any) -> str | None:
    """What is wrong with an answer in JSON-RPC."""
    if isinstance(told, list):
        return next(filter(None, map(flaw_of_rpc, told)), None)
    if not isinstance(told, dict) or told.get("jsonrpc") != "2.0" or ("result" in told) == ("error" in told):
        return f"no answer in JSON-RPC: {told}"[:200]
    error = told.get("error", {"code": 0, "message": ""})
    good = isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
    return None if good else f"no error of JSON-RPC: {error}"[:200]
