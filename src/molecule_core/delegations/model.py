"""Delegations: work that one workspace gives another, how it stands, and what is noted of it."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from molecule_core.messages.model import Sender

L = TypeVar("L")

DELEGATION = "delegation"
"""The kind of the timer that looks after a delegation; its key is `organisation/delegation`."""
BEGUN_ENTRY = "begun"
"""The first line of every time line."""


class DelegationStatus(StrEnum):
    """How a delegation stands."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    QUEUED = "queued"
    UNKNOWN = "unknown_after_send"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_ended(self) -> bool:
        """Whether it stands so for good."""
        return self in (DelegationStatus.COMPLETED, DelegationStatus.FAILED, DelegationStatus.CANCELLED)


class DelegationPhase(StrEnum):
    """What happens within a status."""

    WAITING = "waiting"
    SENDING = "sending"
    RETRYING = "retrying"
    CLAIMED = "claimed"
    WORKING = "working"
    ENDED = "ended"


class DelegationTrigger(StrEnum):
    """What can happen to a delegation."""

    SENT = "sent"
    """A push begins."""
    STORED = "stored"
    """Its message stands in the inbox of an agent that polls: that is the send."""
    PARKED = "parked"
    """The agent that it is to be pushed to cannot take it now."""
    CLAIMED = "claimed"
    """The agent took it."""
    RETURNED = "returned"
    """The agent gave it back, or a push was let go."""
    BUSY = "busy"
    """The agent had no time."""
    RETRY = "retry"
    """A push has failed and is tried once more."""
    ACCEPTED = "accepted"
    """The agent has it, by its own answer, and has not done it."""
    UNSURE = "unsure"
    """It was sent and no answer came."""
    PROGRESS = "progress"
    """The agent says how far it is."""
    ANSWERED = "answered"
    DECLINED = "declined"
    GAVE_UP = "gave_up"
    """It could not be delivered, or the agent failed at it."""
    EXPIRED = "expired"
    """Its deadline has passed."""
    CANCELLED = "cancelled"
    TARGET_GONE = "target_gone"
    REPORTED_DONE = "reported_done"
    """Who recorded it says that it is done."""
    REPORTED_FAILED = "reported_failed"
    UNSURE_TOO_LONG = "unsure_too_long"
    """It was sent, and no answer came for too long."""


class FailureReason(StrEnum):
    """Why a delegation has ended without an answer. A closed list: each has its advice (rules.ADVICE)."""

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


class DelegationState(NamedTuple):
    """As much of a delegation as decides what a fact does to it."""

    status: DelegationStatus
    phase: DelegationPhase
    attempt: int = 0


class Delegation(Struct, frozen=True, kw_only=True):
    """One row, in the order of its columns. Times in microseconds. store/schema.sql says what the columns mean."""

    org_id: str
    id: str
    source_id: str
    target_id: str
    status: DelegationStatus
    phase: DelegationPhase
    rev: int
    open: int
    reason: FailureReason | None
    error: str | None
    task: str
    task_hash: str
    result: str | None
    via: str | None
    seq: int
    activity_id: str
    message_seq: int | None
    result_id: str | None
    result_seq: int | None
    parent_id: str | None
    root_id: str
    root_no: int | None
    depth: int
    hop: int
    chain_id: str | None
    cause_id: str | None
    context_id: str | None
    recorded: int
    begun_by: str
    retry_of: str | None
    attempt: int
    created_at: int
    updated_at: int
    taken_at: int | None
    life_at: int
    settled_at: int | None
    deadline_at: int
    unsure_at: int | None
    wait_until: int

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Delegation":
        """A row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["status"], columns["phase"] = DelegationStatus(columns["status"]), DelegationPhase(columns["phase"])
        columns["reason"] = None if columns["reason"] is None else FailureReason(columns["reason"])
        return cls(**columns)

    @property
    def state(self) -> DelegationState:
        """What decides what a fact does to it."""
        return DelegationState(self.status, self.phase, self.attempt)

    @property
    def key(self) -> str:
        """The key of its timer."""
        return f"{self.org_id}/{self.id}"


class DelegationTransition(Struct, frozen=True):
    """What a fact does: how the delegation stands then, and the event that tells it. `taken`: somebody has it in hand
    from now on. `late`: it came after the end, is noted, and changes nothing."""

    status: DelegationStatus
    phase: DelegationPhase
    attempt: int
    event: str | None
    reason: FailureReason | None = None
    is_claimed: bool = False
    is_late: bool = False


class Ancestor(NamedTuple):
    """A delegation on the way up to the root, in the order the query selects it."""

    id: str
    parent_id: str | None
    root_id: str
    source_id: str
    target_id: str
    task_hash: str
    depth: int
    open: int


class GuardRejection(Struct, frozen=True):
    """What a guard says: which limit, how much of it is in use, in words, and what to do instead."""

    limit: str
    use: int
    most: int
    what: str
    remedy: str


class TimelineRow(NamedTuple):
    """A line of a time line, in the order the query selects it."""

    no: int
    at: int
    fact: str
    status: str
    phase: str
    attempt: int
    late: int
    detail: str | None


class DelegationRequest(Struct, frozen=True, kw_only=True):
    """What a workspace wants done by another one. `parts`: the task as a message has it, `task`: its text. `key`: what
    the caller calls its request. `wait_seconds`: so long the caller waits, and takes the result itself. `cause_id`: the
    message that the caller says it is at work on. `retry_of`: what has ended, and is begun once more; `task_hash`: what
    told its task from others (by then, the parts say more of their files)."""

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


class BeginResult(Struct, frozen=True):
    """How a delegation stands that was asked for. `hit`: it was there already. `held_until`: until then the caller that
    asked takes the result itself (microseconds; 0: it does not wait)."""

    row: Delegation
    is_duplicate: bool = False
    held_until: int = 0


def delegation_wake_key(org_id: str, delegation_id: str) -> str:
    """The wake-up key of who waits for a delegation."""
    return f"delegation:{org_id}/{delegation_id}"


def progress_wake_key(org_id: str) -> str:
    """The wake-up key of who tells how far the work of an organisation is."""
    return f"progress:{org_id}"


class ClaimedResult(Struct, frozen=True):
    """What a caller that waits finds. `text`: what the delegation has come to. `delivered`: `here`, with this very
    answer; `before`: it was handled already, and this is the same text once more; `inbox`: by the inbox, where it lies
    or somebody has it; empty: it has not ended."""

    row: Delegation
    text: str
    delivered: str


class ProgressReport(Struct, frozen=True):
    """What the working peer says of how far it is."""

    current_step: str = ""
    tools_used: tuple[str, ...] = ()
    eta_hint: str = ""
    percent: int | None = None


def newest_first(rows: list[Delegation]) -> list[Delegation]:
    """Rows of several lists in the order of each."""
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)


def take_until_bytes(items: Sequence[L], size: Callable[[L], int], most_bytes: int) -> list[L]:
    """The first lines, up to the one that fills so many bytes; the first one always."""
    found, total = list[L](), 0
    for item in items:
        if found and total >= most_bytes:
            break
        found.append(item)
        total += size(item)
    return found


def page_size_of(row: Delegation) -> int:
    """How much of a page a row fills; queries.sql counts the same. What went wrong is shown under two names."""
    return len((row.result or "").encode()) + 2 * len((row.error or "").encode())
