"""Decisions about pushes: what an agent's answer means, when to try again, what may go out, whose turn it is. Pure."""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from molecule_core.ground.errors import InvalidJson, JsonTooDeep
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages.model import KIND_DELEGATION, REFUSED, UNREACHABLE
from molecule_core.messages.pushed import (
    BAD_ANSWER,
    PERMANENT,
    UNSURE,
    Head,
    Heard,
    Room,
    Said,
    Verdict,
)
from molecule_core.wire import strictjson
from molecule_core.wire.agentanswers import member, parts_of, result_of, state_of

LONGEST_BACK_OFF_SECONDS = 300
# An agent that has no time and does not say until when; a heartbeat with a free slot ends this wait earlier.
_BUSY_SECONDS = 30
_BUSY = (429, 503)
# These refusals pass: too slow, too early, too many.
_PASSING = (408, 425, 429)
_SUCCESS, _REDIRECT, _CLIENT_ERROR, _SERVER_ERROR, _UNAVAILABLE = 200, 300, 400, 500, 503
_JITTER_BITS = 20
_MOST_REPEATED = 200
# What an agent says of its failure is an error detail, which is so long at most.
_MOST_DETAIL = 4096
_ERROR = "the agent answered with an error"
_TOO_LARGE = {"kind": "text", "text": "The answer is larger than a message may be. It stands whole under a2a/queue."}


def judge(status: int, headers: Mapping[str, str], body: bytes, *, max_depth: int) -> Verdict:
    """What an agent's answer to a push means. Any JSON with 2xx is an answer, also a JSON-RPC error: the agent has the
    message. An empty 2xx says that it took the message and has nothing to say."""
    retry_after = _seconds(headers.get("retry-after"))
    if status in _BUSY:
        code = UNREACHABLE if status == _UNAVAILABLE and _restarts(_value(body, max_depth)[0]) else ""
        return Verdict(busy=True, error=f"busy (HTTP {status})", retry_after=retry_after, code=code)
    value, reason = _value(body, max_depth)
    if _says_busy(value):
        return Verdict(busy=True, error="busy", retry_after=retry_after or _seconds(value.get("retry_after")))
    if _SUCCESS <= status < _REDIRECT:
        if not body.strip():
            return Verdict(answer="{}")
        return Verdict(error=reason, code=BAD_ANSWER) if reason else Verdict(answer=body.decode())
    refused = _refuses(status)
    return Verdict(error=f"HTTP {status}{_said(value)}", refused=refused, code=REFUSED if refused else UNREACHABLE)


def unanswered(reason: str, *, sent: bool, status: int | None) -> Verdict:
    """What it means that a push brought no usable answer: whether any of it was sent, and which status came with what
    cannot be used (0: it was no HTTP; None: nothing came)."""
    if status is None:
        return Verdict(error=reason, code=UNSURE if sent else UNREACHABLE, sent=sent)
    if _refuses(status):
        return Verdict(error=reason, code=REFUSED)
    return Verdict(error=reason, code=UNREACHABLE if status >= _CLIENT_ERROR else BAD_ANSWER)


def _refuses(status: int) -> bool:
    return _REDIRECT <= status < _SERVER_ERROR and status not in _PASSING


def _restarts(value: Any) -> bool:
    """Whether an agent that has no time has none because it is not there yet."""
    return isinstance(value, dict) and value.get("restarting") is True and not _says_busy(value)


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


def tries_of(kind: str | None, verdict: Verdict, limits: Limits) -> int:
    """How many failures of a message of some kind are too many, after one like this."""
    if kind == KIND_DELEGATION:
        return 1 if verdict.code in PERMANENT else limits.delegation_attempts
    return limits.refused_attempts if verdict.refused else limits.delivery_attempts


def pause_of(kind: str | None, tries: int, verdict: Verdict, bits: int, limits: Limits, *, counts: bool) -> float:
    """Seconds until a message is pushed again after so many tries. A delegation is soon tried once more; a failure that
    does not `count`, since its agent is silent, is waited out as with every other message."""
    if has_no_time(kind, verdict):
        return busy_seconds(verdict)
    return limits.delegation_retry_seconds if kind == KIND_DELEGATION and counts else back_off(tries, bits)


def has_no_time(kind: str | None, verdict: Verdict) -> bool:
    """Whether an agent only has no time now, which is no failure. A delegation takes a restart for one."""
    return verdict.busy and not (kind == KIND_DELEGATION and verdict.code)


def is_counted(kind: str | None, verdict: Verdict, *, counts: bool) -> bool:
    """Whether a push counts as failed. `counts`: whether failures of this agent do; of a delegation those that will not
    pass do whatever is known of the agent."""
    return not has_no_time(kind, verdict) and (counts or (kind == KIND_DELEGATION and verdict.code in PERMANENT))


def why(verdict: Verdict) -> str:
    """Why a delegation could not be pushed, in words."""
    return "restarting (HTTP 503)" if verdict.busy and verdict.code else verdict.error or ""


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


def error_text(answer: str) -> str | None:
    """What an agent said went wrong, if its answer is a JSON-RPC error."""
    error = member(msgspec.json.decode(answer), "error")
    if error is None:
        return None
    message = member(error, "message")
    said = shorten(message, _MOST_REPEATED) if isinstance(message, str) else ""
    return said or _ERROR


# -- an agent's answer to a push ---------------------------------------------------------------------------------------


def heard(answer: str, limits: Limits) -> Heard:
    """What an agent says with its answer to the push of a delegation. That it has it is never taken for its being done,
    and neither is silence: only words or files, or a task that says of itself that it is completed."""
    value = msgspec.json.decode(answer)
    if _is_queued(value):
        return Heard(Said.TAKEN)
    state, error = state_of(result_of(value)), member(value, "error")
    if error not in (None, False, ""):
        return Heard(Said.ERROR, _failure(error) or _ERROR)
    parts = _bounded(parts_of(result_of(value)), limits)
    text = "\n".join(part["text"] for part in parts if part["kind"] == "text")
    if state in _FAILED:
        return Heard(Said.ERROR, shorten(text, _MOST_DETAIL) or f"its task has {_FAILED[state]}")
    if state == "rejected":
        return Heard(Said.NO, text or "its task was rejected", tuple(parts))
    if parts or state == "completed":
        return Heard(Said.WORDS, text, tuple(parts or [{"kind": "text", "text": ""}]))
    return Heard(Said.TAKEN)


def replied(answer: str, limits: Limits) -> Heard:
    """What it says with its answer to the push of any other message. There all that it says is an answer, also of a
    task that goes on: who asked reads it. Of an answer that is larger than a message it is said that it is."""
    value = msgspec.json.decode(answer)
    error, result = member(value, "error"), result_of(value)
    if error:
        return Heard(Said.ERROR, _failure(error) or _ERROR)
    said, state = parts_of(result), state_of(result)
    parts = tuple(_bounded(said, limits) or ([_TOO_LARGE] if said else []))
    text = "\n".join(part["text"] for part in parts if part["kind"] == "text")
    if state in _FAILED:
        return Heard(Said.ERROR, text or f"its task has {_FAILED[state]}", parts)
    if state == "rejected":
        return Heard(Said.NO, text or "its task was rejected", parts)
    return Heard(Said.WORDS, text, parts) if parts else Heard(Said.TAKEN)


def is_queued(answer: str) -> bool:
    """Whether an agent says that it has not done it yet, by the shape of its answer: `status: queued`, `queued: true`,
    or a task that has not ended."""
    return _is_queued(msgspec.json.decode(answer))


def task_state(answer: str) -> str | None:
    """The state of the A2A task that an agent answers with, as A2A 0.3 spells it; None if it answers with none."""
    return state_of(result_of(msgspec.json.decode(answer)))


_FAILED = {"failed": "failed", "canceled": "been canceled"}
_ENDED = ("completed", "rejected", *_FAILED)


def _is_queued(value: Any) -> bool:
    result = result_of(value)
    if any(member(each, "queued") is True or member(each, "status") == "queued" for each in (value, result)):
        return True
    state = state_of(result)
    return state is not None and state not in _ENDED


def _failure(error: Any) -> str:
    message = member(error, "message", error)
    return shorten(message, _MOST_DETAIL) if isinstance(message, str) else ""


def _bounded(parts: list[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """As much of it as a message may hold: the first parts and files, the beginning of the words; and of what is larger
    than any message the words alone."""
    kept, files, room = list[dict[str, Any]](), 0, limits.text_bytes
    for part in parts[: limits.parts]:
        files += part["kind"] == "file"
        if part["kind"] == "text":
            whole = part["text"].encode()
            if text := whole[:room].decode(errors="ignore"):
                kept.append({**part, "text": text})
            room = max(0, room - len(whole))
        elif part["kind"] == "data" or files <= limits.attachments:
            kept.append(part)
    if len(msgspec.json.encode(kept)) <= limits.body_bytes:
        return kept
    return [{"kind": "text", "text": part["text"]} for part in kept if part["kind"] == "text"]


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
