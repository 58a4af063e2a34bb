"""Pure decisions about pushes: meaning of responses, retry times, selection of messages, fair order."""

import codecs
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from molecule_core.common.errors import InvalidJson, JsonTooDeep
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages.delivery_state import (
    PERMANENT_CODES,
    AgentReply,
    DeliveryFailure,
    PushCandidate,
    PushCapacity,
    PushResult,
    ReplyKind,
)
from molecule_core.wire.protocols import strict_json
from molecule_core.wire.protocols.a2a_response import (
    get_member,
    has_parts,
    message_parts,
    task_state_of,
    text_of_parts,
    unwrap_result,
)
from molecule_core.wire.schemas.activity import MessageKind

MAX_BACKOFF_SECONDS = 300
# 30 s: an agent that is busy without naming a time. A heartbeat with a free slot ends the wait earlier.
_BUSY_SECONDS = 30
_BUSY_STATUSES = (429, 503)
# These rejections are temporary: too slow, too early, too many.
_TRANSIENT_STATUSES = (408, 425, 429)
_SUCCESS, _REDIRECT, _CLIENT_ERROR, _SERVER_ERROR, _UNAVAILABLE = 200, 300, 400, 500, 503
_JITTER_BITS = 20
_MAX_QUOTED = 200
# 4 KiB: the length limit of an error detail.
_MAX_DETAIL = 4096
_DEFAULT_ERROR = "the agent responded with an error"
_TOO_LARGE_PART = {
    "kind": "text",
    "text": "The answer exceeds the size limit of a message. Read the whole answer under a2a/queue.",
}


def classify_response(status: int, headers: Mapping[str, str], body: bytes, *, max_depth: int) -> PushResult:
    """Classify the response to a push.

    Any JSON with 2xx is an answer, also a JSON-RPC error: the agent has the message. An empty 2xx accepts it without an
    answer."""
    retry_after = _parse_seconds(headers.get("retry-after"))
    if status in _BUSY_STATUSES:
        code = (
            DeliveryFailure.UNREACHABLE
            if status == _UNAVAILABLE and _is_restarting(_decode_body(body, max_depth)[0])
            else ""
        )
        return PushResult(busy=True, error=f"busy (HTTP {status})", retry_after=retry_after, code=code)
    body = strict_json.repair_text(body.removeprefix(codecs.BOM_UTF8), with_nul=True)
    value, reason = _decode_body(body, max_depth)
    if _is_busy_body(value):
        return PushResult(busy=True, error="busy", retry_after=retry_after or _parse_seconds(value.get("retry_after")))
    if _SUCCESS <= status < _REDIRECT:
        if not body.strip():
            return PushResult(answer="{}")
        return PushResult(error=reason, code=DeliveryFailure.BAD_ANSWER) if reason else PushResult(answer=body.decode())
    refused = _is_rejection(status)
    return PushResult(
        error=f"HTTP {status}{_error_suffix(value)}",
        refused=refused,
        code=DeliveryFailure.REFUSED if refused else DeliveryFailure.UNREACHABLE,
    )


def classify_failure(reason: str, *, sent: bool, status: int | None) -> PushResult:
    """Classify a push without a usable response.

    `sent`: whether any of it was sent. `status`: of the unusable response (0: not HTTP; None: no response)."""
    if status is None:
        return PushResult(error=reason, code=DeliveryFailure.UNSURE if sent else DeliveryFailure.UNREACHABLE, sent=sent)
    if _is_rejection(status):
        return PushResult(error=reason, code=DeliveryFailure.REFUSED)
    return PushResult(
        error=reason, code=DeliveryFailure.UNREACHABLE if status >= _CLIENT_ERROR else DeliveryFailure.BAD_ANSWER
    )


def _is_rejection(status: int) -> bool:
    return _REDIRECT <= status < _SERVER_ERROR and status not in _TRANSIENT_STATUSES


def _is_restarting(value: Any) -> bool:
    """Return whether a busy agent is only restarting."""
    return isinstance(value, dict) and value.get("restarting") is True and not _is_busy_body(value)


def _decode_body(body: bytes, max_depth: int) -> tuple[Any, str]:
    try:
        return strict_json.decode(body, max_depth=max_depth), ""
    except (InvalidJson, JsonTooDeep) as error:
        return None, f"its response is not usable JSON: {error.text}"


def _is_busy_body(value: Any) -> bool:
    return isinstance(value, dict) and value.get("busy") is True


def _error_suffix(value: Any) -> str:
    error = value.get("error") if isinstance(value, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    return f": {truncate_line(text, _MAX_QUOTED)}" if isinstance(text, str) and text else ""


def _parse_seconds(value: Any) -> int | None:
    """Parse a number of seconds; the date form of Retry-After is ignored."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < _MAX_QUOTED else None
    return None if number is None else min(max(1, number), MAX_BACKOFF_SECONDS)


def busy_delay(result: PushResult) -> int:
    """Return the seconds to wait for a busy agent."""
    return result.retry_after or _BUSY_SECONDS


def backoff_delay(attempts: int, bits: int) -> float:
    """Return the seconds until the next attempt: exponential backoff with full jitter, at most five minutes.

    At least 1, at most 2**attempts; `bits` (20 random bits) selects the point in between, so that many retries spread
    out."""
    ceiling = min(MAX_BACKOFF_SECONDS, 1 << min(attempts, 16))
    return 1 + (ceiling - 1) * bits / ((1 << _JITTER_BITS) - 1)


def max_attempts(kind: str | None, result: PushResult, limits: Limits) -> int:
    """Return how many failures end the delivery of a message, after a failure like this one."""
    if kind == MessageKind.DELEGATION:
        return 1 if result.code in PERMANENT_CODES else limits.delegation_attempts
    return limits.refused_attempts if result.refused else limits.delivery_attempts


def retry_delay(
    kind: str | None, attempts: int, result: PushResult, bits: int, limits: Limits, *, failure_counts: bool
) -> float:
    """Return the seconds until the next push of a message.

    Delegations are retried soon. An uncounted failure (its agent is silent) waits like any other message."""
    if is_busy_result(kind, result):
        return busy_delay(result)
    return (
        limits.delegation_retry_seconds
        if kind == MessageKind.DELEGATION and failure_counts
        else backoff_delay(attempts, bits)
    )


def is_busy_result(kind: str | None, result: PushResult) -> bool:
    """Return whether the agent is only busy, which is no failure; for a delegation, a restart is one."""
    return result.busy and not (kind == MessageKind.DELEGATION and result.code)


def counts_as_failure(kind: str | None, result: PushResult, *, failure_counts: bool) -> bool:
    """Return whether a push counts as failed.

    `failure_counts`: whether this agent's failures count; permanent failures of a delegation always do."""
    return not is_busy_result(kind, result) and (
        failure_counts or (kind == MessageKind.DELEGATION and result.code in PERMANENT_CODES)
    )


def failure_text(result: PushResult) -> str:
    """Return the reason why a delegation could not be pushed, as text."""
    return "restarting (HTTP 503)" if result.busy and result.code else result.error or ""


def jitter_bits() -> int:
    """Return the number of random bits that `backoff_delay` takes."""
    return _JITTER_BITS


def to_candidate(row: Sequence[Any]) -> PushCandidate:
    """Convert a row of `push_head`."""
    return PushCandidate(*row)


def select_pushable(
    candidates: list[PushCandidate], capacity: PushCapacity, now: int
) -> tuple[list[PushCandidate], int | None]:
    """Select the messages that may be pushed now, and when to check again.

    The next check is at the next attempt of a waiting message, or when a lease ends, since its holder may have died. A
    waiting message blocks those after it, so that the agent gets them in order."""
    leases = [each.lease_until for each in candidates if each.next_at == 0 and each.lease_until > now]
    free = capacity.max_concurrent - max(len(leases), capacity.active)
    selected: list[PushCandidate] = []
    for each in candidates:
        if len(selected) >= min(free, capacity.max_new):
            return selected, now if free > capacity.max_new > 0 else min(leases, default=None)
        if each.next_at > now and not _can_skip_wait(each, capacity):
            return selected, each.next_at
        if each.next_at or each.lease_until <= now:
            selected.append(each)
    return selected, min(leases, default=None)


def _can_skip_wait(candidate: PushCandidate, capacity: PushCapacity) -> bool:
    return capacity.healthy_since >= candidate.noted_at or (
        candidate.busy == 1 and capacity.free_since > candidate.noted_at
    )


def to_rpc_response(rpc_id: str | int | None, answer: str) -> bytes:
    """Wrap an agent's answer as the JSON-RPC response to the sender.

    An answer that is no JSON-RPC becomes the result."""
    try:
        members = msgspec.json.decode(answer, type=dict[str, Raw])
    except msgspec.ValidationError:
        members = {}
    members_kept = {name: members[name] for name in ("result", "error") if name in members}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": rpc_id, **(members_kept or {"result": Raw(answer.encode())})})


def answer_error_text(answer: str) -> str | None:
    """Return the error of an agent's answer, if that is a JSON-RPC error."""
    error = get_member(msgspec.json.decode(answer), "error")
    if error is None:
        return None
    message = get_member(error, "message")
    text = truncate_line(message, _MAX_QUOTED) if isinstance(message, str) else ""
    return text or _DEFAULT_ERROR


# -- an agent's answer to a push ---------------------------------------------------------------------------------------


def answer_parts(answer: str) -> list[dict[str, Any]]:
    """Return the whole content of an agent's answer as message parts."""
    return message_parts(unwrap_result(msgspec.json.decode(answer)))


def parse_delegation_reply(answer: str, limits: Limits, content: Sequence[dict[str, Any]] | None = None) -> AgentReply:
    """Parse the answer to the push of a delegation. `content`: replaces its parts, with their files stored.

    Acceptance or an empty answer does not complete it: only text, data or files do. A completed task without any, or
    parts of which none is understood, is a failure. A task that waits for input or authorization asks."""
    value = msgspec.json.decode(answer)
    result = unwrap_result(value)
    state, error = task_state_of(result), get_member(value, "error")
    parts = _truncate_parts([*(answer_parts(answer) if content is None else content)], limits)
    text = text_of_parts(parts)
    if _is_queued(value):
        is_asking = state in _ASKING_STATES and not _says_queued(value)
        return _asking_reply(state or "", text, parts) if is_asking else AgentReply(ReplyKind.ACCEPTED)
    if error not in (None, False, ""):
        return AgentReply(ReplyKind.ERROR, _failure_message(error) or _DEFAULT_ERROR)
    if state in _FAILED_STATES:
        return AgentReply(ReplyKind.ERROR, truncate_line(text, _MAX_DETAIL) or f"its task has {_FAILED_STATES[state]}")
    if state == "rejected":
        return AgentReply(ReplyKind.DECLINED, text or "its task was rejected", tuple(parts))
    if text.strip() or any(part["kind"] == "file" for part in parts):
        return AgentReply(ReplyKind.ANSWERED, text, tuple(parts))
    is_end = state == "completed" or has_parts(result)
    return AgentReply(ReplyKind.ERROR, _NO_CONTENT) if is_end else AgentReply(ReplyKind.ACCEPTED)


def _asking_reply(state: str, text: str, parts: list[dict[str, Any]]) -> AgentReply:
    """Return a question of the agent, with a text of ours if it has none."""
    if text.strip():
        return AgentReply(ReplyKind.ASKED, text, tuple(parts))
    default = _ASKING_STATES[state]
    return AgentReply(ReplyKind.ASKED, default, ({"kind": "text", "text": default}, *parts))


def parse_message_reply(answer: str, limits: Limits, content: Sequence[dict[str, Any]] | None = None) -> AgentReply:
    """Parse the answer to the push of any other message. `content`: replaces its parts, with their files stored.

    Any content is an answer, even of an unfinished task: the sender reads it. An answer that exceeds the size of a
    message is replaced by a hint."""
    value = msgspec.json.decode(answer)
    error, result = get_member(value, "error"), unwrap_result(value)
    if error:
        return AgentReply(ReplyKind.ERROR, _failure_message(error) or _DEFAULT_ERROR)
    message_content = answer_parts(answer) if content is None else [*content]
    state = task_state_of(result)
    parts = tuple(_truncate_parts(message_content, limits) or ([_TOO_LARGE_PART] if message_content else []))
    text = text_of_parts([*parts])
    if state in _ASKING_STATES and not _says_queued(value):
        return _asking_reply(state or "", text, [*parts])
    if state in _FAILED_STATES:
        return AgentReply(ReplyKind.ERROR, text or f"its task has {_FAILED_STATES[state]}", parts)
    if state == "rejected":
        return AgentReply(ReplyKind.DECLINED, text or "its task was rejected", parts)
    return AgentReply(ReplyKind.ANSWERED, text, parts) if parts else AgentReply(ReplyKind.ACCEPTED)


def is_queued(answer: str) -> bool:
    """Return whether an answer says that the work is not done.

    It says so with `status: queued`, `queued: true`, or an unfinished task."""
    return _is_queued(msgspec.json.decode(answer))


def task_state(answer: str) -> str | None:
    """Return the state of the A2A task in an answer, as A2A 0.3 spells it; None without a task."""
    return task_state_of(unwrap_result(msgspec.json.decode(answer)))


_FAILED_STATES = {"failed": "failed", "canceled": "been canceled"}
_FINAL_STATES = ("completed", "rejected", *_FAILED_STATES)
_ASKING_STATES = {
    "input-required": "The agent needs input to continue, and did not say which. Ask it what it needs.",
    "auth-required": "The agent needs an authorization to continue, and did not say which. Ask it what it needs.",
}
_NO_CONTENT = (
    "its answer has no content: no text, data or file in its parts, artifacts, status message or history that this "
    "server understands"
)


def is_asking(answer: str) -> bool:
    """Return whether an answer is a task that waits for input or authorization."""
    value = msgspec.json.decode(answer)
    return task_state_of(unwrap_result(value)) in _ASKING_STATES and not _says_queued(value)


def _says_queued(value: Any) -> bool:
    candidates = (value, unwrap_result(value))
    return any(get_member(each, "queued") is True or get_member(each, "status") == "queued" for each in candidates)


def _is_queued(value: Any) -> bool:
    if _says_queued(value):
        return True
    state = task_state_of(unwrap_result(value))
    return state is not None and state not in _FINAL_STATES


def _failure_message(error: Any) -> str:
    message = get_member(error, "message", error)
    return truncate_line(message, _MAX_DETAIL) if isinstance(message, str) else ""


def _truncate_parts(parts: list[dict[str, Any]], limits: Limits) -> list[dict[str, Any]]:
    """Cut parts to the limits of a message: the first parts and files, the beginning of the text.

    If they still exceed the body limit, only the text is kept."""
    kept_parts, files, bytes_left = list[dict[str, Any]](), 0, limits.text_bytes
    for part in parts[: limits.parts]:
        files += part["kind"] == "file"
        if part["kind"] == "text":
            encoded = part["text"].encode()
            if text := encoded[:bytes_left].decode(errors="ignore"):
                kept_parts.append({**part, "text": text})
            bytes_left = max(0, bytes_left - len(encoded))
        elif part["kind"] == "data" or files <= limits.attachments:
            kept_parts.append(part)
    if len(msgspec.json.encode(kept_parts)) <= limits.body_bytes:
        return kept_parts
    return [{"kind": "text", "text": part["text"]} for part in kept_parts if part["kind"] == "text"]


class FairScheduler:
    """Round-robin queue: organisations in turn, and the agents of each in turn, so that none starves others."""

    def __init__(self) -> None:
        self._orgs: OrderedDict[str, deque[str]] = OrderedDict()
        self._queued: set[str] = set()

    def __len__(self) -> int:
        return len(self._queued)

    def __contains__(self, workspace_id: str) -> bool:
        return workspace_id in self._queued

    def enqueue(self, org_id: str, workspace_id: str) -> None:
        """Enqueue an agent, unless it is queued already."""
        if workspace_id not in self._queued:
            self._queued.add(workspace_id)
            self._orgs.setdefault(org_id, deque()).append(workspace_id)

    def next_target(self, full_orgs: "frozenset[str] | set[str]") -> tuple[str, str] | None:
        """Return the next (organisation, workspace), skipping organisations in `full_orgs`; None if there is none."""
        for org_id in list(self._orgs):
            if org_id not in full_orgs:
                queue = self._orgs[org_id]
                workspace_id = queue.popleft()
                self._queued.discard(workspace_id)
                self._orgs.move_to_end(org_id)
                if not queue:
                    del self._orgs[org_id]
                return org_id, workspace_id
        return None
