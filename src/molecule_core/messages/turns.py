"""Decisions about pushes: what an agent's answer means, when to try again, what may go out, whose turn it is. Pure."""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from molecule_core.ground.errors import InvalidJson, JsonTooDeep
from molecule_core.ground.text import shorten
from molecule_core.messages.model import Head, Room, Verdict
from molecule_core.wire import strictjson

LONGEST_BACK_OFF_SECONDS = 300
# An agent that has no time and does not say until when; a heartbeat with a free slot ends this wait earlier.
_BUSY_SECONDS = 30
_BUSY = (429, 503)
# These refusals pass: too slow, too early, too many.
_PASSING = (408, 425, 429)
_SUCCESS, _REDIRECT, _CLIENT_ERROR, _SERVER_ERROR = 200, 300, 400, 500
_JITTER_BITS = 20
_MOST_REPEATED = 200


def judge(status: int, headers: Mapping[str, str], body: bytes, *, max_depth: int) -> Verdict:
    """What an agent's answer to a push means. Any JSON with 2xx is an answer, also a JSON-RPC error: the agent has the
    message. An empty 2xx says that it took the message and has nothing to say."""
    retry_after = _seconds(headers.get("retry-after"))
    if status in _BUSY:
        return Verdict(busy=True, error=f"busy (HTTP {status})", retry_after=retry_after)
    value, reason = _value(body, max_depth)
    if _says_busy(value):
        return Verdict(busy=True, error="busy", retry_after=retry_after or _seconds(value.get("retry_after")))
    if _SUCCESS <= status < _REDIRECT:
        if not body.strip():
            return Verdict(answer="{}")
        return Verdict(error=reason) if reason else Verdict(answer=body.decode())
    refused = _REDIRECT <= status < _SERVER_ERROR and status not in _PASSING
    return Verdict(error=f"HTTP {status}{_said(value)}", refused=refused)


def _value(body: bytes, max_depth: int) -> tuple[Any, str]:
    try:
        return strictjson.decode(body, max_depth=max_depth), ""
    except (InvalidJson, JsonTooDeep) as error:
        return None, f"its answer is no usable JSON: {error.text}"


def _says_busy(value: Any) -> bool:
    return isinstance(value, dict) and value.get("busy") is True


def _said(value: Any) -> str:
    error = value.get("error") if isinstance(value, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    return f": {shorten(text, _MOST_REPEATED)}" if isinstance(text, str) and text else ""


def _seconds(value: Any) -> int | None:
    """A number of seconds; the date that Retry-After may hold too is left alone."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_REPEATED else None
    return None if number is None else min(max(1, number), LONGEST_BACK_OFF_SECONDS)


def busy_seconds(verdict: Verdict) -> int:
    """How long to leave an agent in peace that has no time."""
    return verdict.retry_after or _BUSY_SECONDS


def back_off(tries: int, bits: int) -> float:
    """Seconds until the next try after so many failures: at least one, at most 2 to the power of the failures and at
    most five minutes, and within that wherever the randomness (20 bits) says, so that many do not come at once."""
    ceiling = min(LONGEST_BACK_OFF_SECONDS, 1 << min(tries, 16))
    return 1 + (ceiling - 1) * bits / ((1 << _JITTER_BITS) - 1)


def jitter_bits() -> int:
    """How many bits `back_off` takes."""
    return _JITTER_BITS


def head(row: Sequence[Any]) -> Head:
    """A row of `push_head`."""
    return Head(*row)


def takeable(heads: list[Head], room: Room, now: int) -> tuple[list[Head], int | None]:
    """Which of an agent's first messages may go out now, given in order; and when it is worth looking again: at the
    next try of one that waits, or when a lease ends, since whoever holds it may be dead. What waits holds up those
    behind it, so that the agent gets them in order."""
    leases = [each.lease_until for each in heads if each.next_at == 0 and each.lease_until > now]
    free = room.capacity - max(len(leases), room.active)
    taken: list[Head] = []
    for each in heads:
        if len(taken) >= min(free, room.most):
            return taken, now if free > room.most > 0 else min(leases, default=None)
        if each.next_at > now and not _need_not_wait(each, room):
            return taken, each.next_at
        if each.next_at or each.lease_until <= now:
            taken.append(each)
    return taken, min(leases, default=None)


def _need_not_wait(head: Head, room: Room) -> bool:
    return room.well_since >= head.noted_at or (head.busy == 1 and room.free_since > head.noted_at)


def rpc_answer(rpc_id: str | int | None, answer: str) -> bytes:
    """What an agent answered, as the answer to the sender's request. What is no JSON-RPC becomes its result."""
    try:
        members = msgspec.json.decode(answer, type=dict[str, Raw])
    except msgspec.ValidationError:
        members = {}
    kept = {name: members[name] for name in ("result", "error") if name in members}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": rpc_id, **(kept or {"result": Raw(answer.encode())})})


def answer_text(answer: str) -> str:
    """The words of an agent's answer: of its message, or of what its task made. Empty if there are none."""
    result = _member(msgspec.json.decode(answer), "result")
    holders = [result, _member(_member(result, "status"), "message")]
    artifacts = _member(result, "artifacts")
    holders += artifacts if isinstance(artifacts, list) else []
    parts = [part for holder in holders for part in _list(_member(holder, "parts"))]
    texts = [_member(part, "text") for part in parts if _member(part, "kind", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def error_text(answer: str) -> str | None:
    """What an agent said went wrong, if its answer is a JSON-RPC error."""
    error = _member(msgspec.json.decode(answer), "error")
    if error is None:
        return None
    message = _member(error, "message")
    said = shorten(message, _MOST_REPEATED) if isinstance(message, str) else ""
    return said or "the agent answered with an error"


def _member(value: Any, name: str, default: Any = None) -> Any:
    return value.get(name, default) if isinstance(value, dict) else default


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class Turns:
    """Who is next: organisations in turn, and in each its agents in turn, so that nobody's flood is others' wait."""

    def __init__(self) -> None:
        self._orgs: OrderedDict[str, deque[str]] = OrderedDict()
        self._standing: set[str] = set()

    def __len__(self) -> int:
        return len(self._standing)

    def __contains__(self, workspace_id: str) -> bool:
        return workspace_id in self._standing

    def add(self, org_id: str, workspace_id: str) -> None:
        """An agent stands in line, once."""
        if workspace_id not in self._standing:
            self._standing.add(workspace_id)
            self._orgs.setdefault(org_id, deque()).append(workspace_id)

    def next(self, full: "frozenset[str] | set[str]") -> tuple[str, str] | None:
        """(organisation, workspace) of whose turn it is; `full` organisations have to wait."""
        for org_id in list(self._orgs):
            if org_id not in full:
                line = self._orgs[org_id]
                workspace_id = line.popleft()
                self._standing.discard(workspace_id)
                self._orgs.move_to_end(org_id)
                if not line:
                    del self._orgs[org_id]
                return org_id, workspace_id
        return None
