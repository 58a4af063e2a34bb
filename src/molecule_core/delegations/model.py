"""Delegations: rows, states, requests and results."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from molecule_core.messages.events import AnswerContent
from molecule_core.messages.model import Sender
from molecule_core.wire.schemas.acceptance import AcceptanceCheck, CheckEvidence
from molecule_core.wire.schemas.delegation_scope import DelegationScope
from molecule_core.wire.schemas.delegations import DelegationStatus

L = TypeVar("L")

DELEGATION = "delegation"
"""The kind of a delegation's timer; its key is `organisation/delegation`."""
ACCEPTANCE_TIMER = "acceptance"
"""The kind of the timer by which an answer is checked; it has the same key."""
BEGIN_ENTRY = "begun"
"""The first entry of every timeline."""


class DelegationPhase(StrEnum):
    """Progress within a status."""

    WAITING = "waiting"
    SENDING = "sending"
    RETRYING = "retrying"
    CLAIMED = "claimed"
    WORKING = "working"
    CHECKING = "checking"
    """The answer is being checked."""
    NEEDS_WORK = "needs_work"
    """An answer failed a check and was returned to the agent."""
    ASKING = "asking"
    """The agent has asked its delegator, and waits for the answer."""
    ENDED = "ended"


class DelegationTrigger(StrEnum):
    """An occurrence that may change a delegation's state."""

    SENT = "sent"
    """A push starts."""
    STORED = "stored"
    """The message is in the inbox of a polling agent, which counts as sent."""
    PARKED = "parked"
    """The push target cannot take the message now."""
    CLAIMED = "claimed"
    """The agent claimed the message."""
    RELEASED = "returned"
    """The agent released the message, or a push was abandoned."""
    BUSY = "busy"
    """The agent answered that it is busy."""
    RETRY = "retry"
    """A push failed and will be retried."""
    ACCEPTED = "accepted"
    """The agent confirmed receipt but has not answered yet."""
    OUTCOME_UNKNOWN = "unsure"
    """The message was sent and no response came."""
    ASKED = "asked"
    """The agent needs input or an authorization from its delegator."""
    PROGRESS = "progress"
    """The agent reports progress."""
    ANSWERED = "answered"
    SUBMITTED = "submitted"
    """The agent answered, and the answer must pass checks."""
    PROVEN = "proven"
    """The answer passed all checks."""
    RETURNED = "needs_work"
    """The answer failed a check and is returned to the agent."""
    UNPROVEN = "unproven"
    """The last answer allowed failed a check."""
    DECLINED = "declined"
    DELIVERY_FAILED = "gave_up"
    """The message could not be delivered, or the agent failed at the task."""
    EXPIRED = "expired"
    """The deadline has passed."""
    CANCELLED = "cancelled"
    TARGET_REMOVED = "target_gone"
    REPORTED_DONE = "reported_done"
    """The workspace that recorded the delegation reports it completed."""
    REPORTED_FAILED = "reported_failed"
    OUTCOME_UNKNOWN_TOO_LONG = "unsure_too_long"
    """The outcome stayed unknown for longer than the limit."""


class FailureReason(StrEnum):
    """Reason why a delegation ended without an answer. Each reason has its advice in `rules.ADVICE`."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    AGENT_ERROR = "agent_error"
    UNSAFE_URL = "unsafe_url"
    BAD_ANSWER = "bad_answer"
    TARGET_REMOVED = "target_removed"
    UNKNOWN_OUTCOME = "unknown_outcome"
    REPORTED = "reported"
    UNPROVEN = "unproven"


class DelegationState(NamedTuple):
    """The part of a delegation that decides which transition a trigger causes."""

    status: DelegationStatus
    phase: DelegationPhase
    attempt: int = 0


class Delegation(Struct, frozen=True, kw_only=True):
    """A row of `delegations`, in column order. The defaults are those of a new delegation.

    Times are in microseconds. store/schema.sql documents the columns."""

    org_id: str
    id: str
    source_id: str
    target_id: str
    status: DelegationStatus = DelegationStatus.PENDING
    phase: DelegationPhase = DelegationPhase.WAITING
    rev: int = 1
    open: int = 1
    reason: FailureReason | None = None
    error: str | None = None
    task: str
    task_hash: str
    result: str | None = None
    via: str | None = None
    seq: int
    activity_id: str
    message_seq: int | None = None
    result_id: str | None = None
    result_seq: int | None = None
    parent_id: str | None = None
    root_id: str
    root_no: int | None = None
    depth: int = 1
    hop: int = 0
    chain_id: str | None = None
    cause_id: str | None = None
    context_id: str | None = None
    recorded: int = 0
    begun_by: str
    retry_of: str | None = None
    attempt: int = 0
    created_at: int
    updated_at: int
    taken_at: int | None = None
    life_at: int
    settled_at: int | None = None
    deadline_at: int
    unsure_at: int | None = None
    wait_until: int = 0
    checks: int = 0

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Delegation":
        """Build a delegation from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["status"], columns["phase"] = DelegationStatus(columns["status"]), DelegationPhase(columns["phase"])
        columns["reason"] = None if columns["reason"] is None else FailureReason(columns["reason"])
        return cls(**columns)

    @property
    def state(self) -> DelegationState:
        """Return the state that decides which transition a trigger causes."""
        return DelegationState(self.status, self.phase, self.attempt)

    @property
    def key(self) -> str:
        """Return the key of its timer."""
        return f"{self.org_id}/{self.id}"


class DelegationTransition(Struct, frozen=True):
    """Result of a trigger: the new state and the event to emit.

    `is_claimed`: the target holds the task from now on. `is_late`: the trigger came after the end; it is added to the
    timeline and changes nothing."""

    status: DelegationStatus
    phase: DelegationPhase
    attempt: int
    event: str | None
    reason: FailureReason | None = None
    is_claimed: bool = False
    is_late: bool = False


class Ancestor(NamedTuple):
    """A delegation on the path to the root, in the order the query selects it."""

    id: str
    parent_id: str | None
    root_id: str
    source_id: str
    target_id: str
    task_hash: str
    depth: int
    open: int
    deadline_at: int = 0
    may: str | None = None
    """Its scope as JSON, only of the first."""


class GuardRejection(Struct, frozen=True):
    """A limit that stops a delegation: its name, its use and maximum, and what to do instead."""

    limit: str
    use: int
    most: int
    what: str
    remedy: str


class TimelineRow(NamedTuple):
    """An entry of a timeline, in the order the query selects it."""

    no: int
    at: int
    fact: str
    status: str
    phase: str
    attempt: int
    late: int
    detail: str | None


class DelegationRequest(Struct, frozen=True, kw_only=True):
    """A task that one workspace delegates to another.

    `parts`: the task as message parts; `task`: its text. `key`: the caller's idempotency key. `wait_seconds`: how long
    the caller waits and claims the result itself. `cause_id`: the message that the caller is working on. `retry_of`:
    the ended delegation that is retried; `task_hash`: its hash, because the stored parts describe files in more detail
    than the first request did. `checks`: what the answer must pass; `rounds`: how many answers that fail are returned
    to the target. `may`: what the delegation may do at most; None: as much as its parent."""

    source_id: str
    target_id: str
    parts: list[dict[str, Any]]
    task: str
    sender: Sender
    metadata: dict[str, Any] = {}
    key: str | None = None
    wait_seconds: int = 0
    deadline_seconds: int | None = None
    cause_id: str | None = None
    context_id: str | None = None
    trace_parent: str | None = None
    retry_of: str | None = None
    task_hash: str | None = None
    checks: tuple[AcceptanceCheck, ...] = ()
    rounds: int = 0
    may: DelegationScope | None = None


class Acceptance(Struct, frozen=True, kw_only=True):
    """A row of `delegation_acceptance`, in column order.

    `answer_no`: of the answer that is due or being checked, from 1; `message_id`: the message that it answers;
    `answer`: the one that is being checked."""

    org_id: str
    delegation_id: str
    checks: tuple[AcceptanceCheck, ...]
    rounds: int
    answer_no: int = 1
    message_id: str
    task_seq: int
    answer: "SubmittedAnswer | None" = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Acceptance":
        """Build the checks of a delegation from a row as the query selects it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["checks"] = msgspec.json.decode(columns["checks"], type=tuple[AcceptanceCheck, ...])
        if columns["answer"] is not None:
            columns["answer"] = msgspec.json.decode(columns["answer"], type=SubmittedAnswer)
        return cls(**columns)

    def to_row(self) -> dict[str, Any]:
        """Return the row of the table."""
        answer = None if self.answer is None else msgspec.json.encode(self.answer).decode()
        return {**asdict(self), "checks": msgspec.json.encode(self.checks).decode(), "answer": answer}

    @property
    def is_last(self) -> bool:
        """Return whether an answer that fails now ends the delegation."""
        return self.answer_no > self.rounds


class SubmittedAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer that is being checked, and how it came.

    `found`: what its checks have found so far, by number; `reviews` and `commands`: ids of its reviews, and of the
    requests to runners, by number of the check."""

    content: AnswerContent
    via: str
    found: dict[int, CheckEvidence] = {}
    reviews: dict[int, str] = {}
    commands: dict[int, str] = {}

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for others, after the checks of the server itself."""
        return bool(self.reviews or self.commands)

    @property
    def open_commands(self) -> dict[int, str]:
        """Return the ids of the requests to runners that are not confirmed, by number of the check."""
        return {number: id_ for number, id_ in self.commands.items() if number not in self.found}

    @property
    def open_reviews(self) -> dict[int, str]:
        """Return the ids of the reviews that are not decided, by number of the check."""
        return {number: id_ for number, id_ in self.reviews.items() if number not in self.found}


class DeliveredFile(Struct, frozen=True):
    """A file that an answer names. `problem`: why it does not count; empty if it does."""

    id: str
    workspace_id: str
    name: str
    mime_type: str
    size: int
    sha256: str
    problem: str = ""


class BeginResult(Struct, frozen=True):
    """The delegation that a request led to.

    `is_duplicate`: it existed already. `held_until`: until when the caller claims the result itself, in microseconds
    (0: it does not wait). `may`: what a new one may do at most; None: anything."""

    row: Delegation
    is_duplicate: bool = False
    held_until: int = 0
    may: DelegationScope | None = None


def delegation_wake_key(org_id: str, delegation_id: str) -> str:
    """Return the wake-up key for changes of a delegation."""
    return f"delegation:{org_id}/{delegation_id}"


def progress_wake_key(org_id: str) -> str:
    """Return the wake-up key for progress reports of an organisation."""
    return f"progress:{org_id}"


class ClaimedResult(Struct, frozen=True):
    """The result that a waiting caller receives.

    `text`: the result. `delivered`: `here` (by this response), `before` (it was handled earlier; this repeats the
    text), `inbox` (it is in the caller's inbox, or claimed from there), or empty (the delegation has not ended)."""

    row: Delegation
    text: str
    delivered: str


class ProgressReport(Struct, frozen=True):
    """Progress as the target reports it. What a report leaves out stays as it was reported before."""

    current_step: str | UnsetType = UNSET
    tools_used: tuple[str, ...] | UnsetType = UNSET
    eta_hint: str | UnsetType = UNSET
    percent: int | UnsetType | None = UNSET

    def merge(self, newer: "ProgressReport") -> "ProgressReport":
        """Return this report with what a newer one says."""
        return replace(self, **{name: value for name, value in asdict(newer).items() if value is not UNSET})


def newest_first(rows: list[Delegation]) -> list[Delegation]:
    """Merge rows of several lists, newest first."""
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)


def take_until_bytes(items: Sequence[L], size: Callable[[L], int], most_bytes: int) -> list[L]:
    """Return the first items up to the one that reaches `most_bytes`, and at least one."""
    found, total = list[L](), 0
    for item in items:
        if found and total >= most_bytes:
            break
        found.append(item)
        total += size(item)
    return found


def page_size_of(row: Delegation) -> int:
    """Return how many bytes of a page a row takes. queries.sql counts the same.

    The error counts twice because items show it under two names."""
    return len((row.result or "").encode()) + 2 * len((row.error or "").encode())
