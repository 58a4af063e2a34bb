"""Delivery state of a message, as the push dispatcher, dead letters and their readers use it.

Message content is in `model`."""

from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.messages.delivery.push_signature import UNSIGNED, PushSigner
from molecule_core.store.database import Statement


class DeliveryTick(StrEnum):
    """One step of a message's delivery or of its answer, as its sender sees it."""

    STORED = "stored"
    """Derived from the message itself, never recorded."""
    WAKE_REQUESTED = "wake_asked"
    IN_INBOX = "in_inbox"
    """The agent's process keeps it until the model reads it."""
    DELIVERED = "handed_over"
    ACKED = "acked"
    DEAD = "dead"
    ANSWERED = "answered"
    DECLINED = "declined"
    ANSWERED_OUTSIDE = "answered_outside"
    OVERDUE = "overdue"
    FAILED = "failed"
    """The agent's work on the message failed, or ended without an answer."""
    FORGOTTEN = "forgotten"
    """The message was never answered and is too old to keep."""


class DeliveryFailure(StrEnum):
    """The code of a failed push, and the reason of a dead letter."""

    EXPIRED = "expired"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    UNSURE = "unsure"
    """Sent without a response, so the message may have been processed."""
    UNSAFE_URL = "unsafe_url"
    BAD_ANSWER = "bad_answer"
    AGENT_ERROR = "agent_error"


class DeadLetterState(StrEnum):
    """State of a message that was given up."""

    DEAD = "dead"
    REQUEUED = "requeued"
    HANDLED = "handled"
    DISCARDED = "discarded"


PERMANENT_CODES = (
    DeliveryFailure.REFUSED,
    DeliveryFailure.UNSAFE_URL,
    DeliveryFailure.BAD_ANSWER,
    DeliveryFailure.AGENT_ERROR,
)
"""Codes of failures that would only repeat."""


class DeliveryState(Struct, frozen=True):
    """The delivery state of one message, in the column order of `message_state`."""

    id: str
    workspace_id: str
    seq: int
    inbound_no: int
    kind: str | None
    source_id: str | None
    context_id: str | None
    created_at: int
    expires_at: int | None
    attempt: int
    lease_until: int
    acked_at: int | None
    requeued: int
    failures: int
    next_at: int
    busy: int
    last_error: str | None
    answer: str | None
    answered_at: int | None
    dead_state: str | None
    dead_reason: str | None
    dead_detail: str | None
    dead_attempts: int | None
    died_at: int | None
    ack_floor: int

    def is_leased(self, now: int) -> bool:
        """Return whether the message is claimed at a time."""
        return self.lease_until > now and not self.next_at and self.acked_at is None

    @property
    def is_acked(self) -> bool:
        """Return whether it was acknowledged, not given up."""
        return not self.is_dead and not self.requeued and (self.seq <= self.ack_floor or self.acked_at is not None)

    @property
    def has_outcome(self) -> bool:
        """Return whether a waiting sender has its outcome: the answer to a push, or the message was given up."""
        return self.is_dead or self.answer is not None

    @property
    def is_dead(self) -> bool:
        """Return whether it was given up and not requeued."""
        return self.dead_state in (DeadLetterState.DEAD, DeadLetterState.DISCARDED)


class DeliveryNote(NamedTuple):
    """One entry of a message's delivery log, in the column order of `deliveries_of`."""

    tick: str
    at: int
    attempt: int
    reason: str | None


class DeadLetter(Struct, frozen=True):
    """A message that was given up, in the column order of `dead_letters_page`."""

    activity_id: str
    workspace_id: str
    source_id: str | None
    kind: str | None
    summary: str | None
    reason: str
    detail: str | None
    attempts: int
    died_at: int
    created_at: int


class PushCandidate(NamedTuple):
    """One of the first unacknowledged messages of a push agent, in the column order of `push_head`.

    `next_at` is 0 if no retry is planned; `busy`: it waits for a busy agent; `is_requeued`: it is a requeued
    dead letter or a reminder."""

    seq: int
    inbound_no: int
    attempt: int
    lease_until: int
    next_at: int
    busy: int
    noted_at: int
    id: str = ""
    kind: str | None = None
    is_requeued: bool = False


class PushCapacity(Struct, frozen=True):
    """How much a push agent can take now.

    `max_concurrent` at once, of which it reports `active` in use, and at most `max_new` new ones. Waits noted until
    `healthy_since` are void, and those for a busy agent if noted before `free_since`. `check_at`: when to check again.
    Times are microseconds."""

    max_concurrent: int
    max_new: int
    active: int = 0
    free_since: int = 0
    healthy_since: int = 0
    check_at: int | None = None

    @property
    def is_full(self) -> bool:
        """Return whether the agent has no capacity left, regardless of running pushes."""
        return self.active >= self.max_concurrent


class PushAttempt(Struct, frozen=True):
    """A message to push, with its attempt."""

    workspace_id: str
    seq: int
    activity_id: str
    attempt: int
    body: str
    source_id: str | None = None
    kind: str | None = None
    context_id: str | None = None
    """The context of the stored message: for an answer about a delegation, that delegation."""


class PushBatch(NamedTuple):
    """The pushes to an agent now, when to check it again (None: it has no mail), and what signs them."""

    pushes: list[PushAttempt]
    check_at: int | None
    signer: PushSigner = UNSIGNED


class PushResult(Struct, frozen=True):
    """The classified response to a push.

    `answer` if the agent took the message, else the reason. `busy`: it has no capacity now. `refused`: retrying will
    hardly help. `retry_after`: seconds, if the agent named them. Only delegations use `code` (of the failure) and
    `sent` (whether the agent may have received the message)."""

    answer: str | None = None
    error: str | None = None
    busy: bool = False
    refused: bool = False
    retry_after: int | None = None
    code: str = ""
    sent: bool = True
    more_writes: tuple[Statement, ...] = ()
    """What the delivery of the message stores besides: the task of an A2A agent."""
    is_followed: bool = False
    """Whether the answer is an unfinished task that is followed until it ends. Its answer is recorded then."""


class ReplyKind(StrEnum):
    """What an agent's answer to a push means."""

    ANSWERED = "words"
    """The work is done."""
    DECLINED = "no"
    """The agent will not do the work."""
    ACCEPTED = "taken"
    """The agent has the message and has not done the work."""
    ASKED = "asked"
    """The agent needs input or an authorization before it can do the work."""
    ERROR = "error"
    """The agent failed."""


class AgentReply(NamedTuple):
    """A parsed answer to a push."""

    kind: ReplyKind
    text: str = ""
    parts: tuple[dict[str, Any], ...] = ()
