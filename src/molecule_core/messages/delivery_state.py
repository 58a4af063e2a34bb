"""How the delivery of one message stands, as the server's own driver, dead letters and their readers know it.

The half of the model that is about hand-overs: what a message says is in `model`.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.messages.model import DEAD, DISCARDED, REFUSED

UNSURE, UNSAFE_URL, BAD_ANSWER, AGENT_ERROR = "unsure", "unsafe_url", "bad_answer", "agent_error"
"""Why a push has failed, as a delegation tells it, beside `unreachable` and `refused` of the model. unsure: it was sent
and no answer came, so that it may be done."""
PERMANENT_CODES = (REFUSED, UNSAFE_URL, BAD_ANSWER, AGENT_ERROR)
"""Those that a second push would only meet again."""


class DeliveryState(Struct, frozen=True):
    """All that is known of the delivery of one message, in the order `message_state` selects it."""

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
        """Whether somebody has it in hand at a time."""
        return self.lease_until > now and not self.next_at and self.acked_at is None

    @property
    def is_handled(self) -> bool:
        """Whether it was settled otherwise than by giving it up."""
        return not self.is_dead and not self.requeued and (self.seq <= self.ack_floor or self.acked_at is not None)

    @property
    def has_outcome(self) -> bool:
        """Whether its agent has answered a push of it, or it was given up: whoever waits for the answer has that."""
        return self.is_dead or self.answer is not None

    @property
    def is_dead(self) -> bool:
        """Whether it was given up, and nobody has asked for it again."""
        return self.dead_state in (DEAD, DISCARDED)


class DeliveryNote(NamedTuple):
    """One note of what became of a message, in the order `handovers_of` selects it."""

    tick: str
    at: int
    attempt: int
    reason: str | None


class DeadLetter(Struct, frozen=True):
    """A message that was given up, in the order `dead_letters_page` selects it."""

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
    """One of the first messages that a push agent has not handled, in the order `push_head` selects it. `next_at` is 0
    if no further try is planned; `busy`: it waits because the agent had no time; `again`: it waits once more, as a dead
    letter or for a reminder."""

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
    """What a push agent can take now: `capacity` at once, of which `active` are taken by its own account, and no more
    than `most` new ones. Waits that were noted until `well_since` need not be waited for, nor before `free_since`
    those of an agent that had no time. `look_at`: when to look again. Times in microseconds."""

    max_concurrent: int
    max_new: int
    active: int = 0
    free_since: int = 0
    healthy_since: int = 0
    check_at: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether the agent can take nothing more, however many pushes are under way."""
        return self.active >= self.max_concurrent


class PushAttempt(Struct, frozen=True):
    """A message that is to be pushed, with its attempt."""

    workspace_id: str
    seq: int
    activity_id: str
    attempt: int
    body: str
    source_id: str | None = None
    kind: str | None = None


class PushBatch(NamedTuple):
    """What may go out to an agent now, and when to look at it again; None if it has no mail."""

    pushes: list[PushAttempt]
    check_at: int | None


class PushResult(Struct, frozen=True):
    """What an agent's answer to a push means: `answer` if it took the message; else why not. `busy`: it only has no
    time. `refused`: trying again will hardly help. `retry_after` in seconds, if the agent said so. `code` is how a
    delegation calls the failure, and `sent` whether the agent may have had the message: other messages ask neither."""

    answer: str | None = None
    error: str | None = None
    busy: bool = False
    refused: bool = False
    retry_after: int | None = None
    code: str = ""
    sent: bool = True


class ReplyKind(StrEnum):
    """What an agent has said with its answer to a push."""

    ANSWERED = "words"
    """It is done."""
    DECLINED = "no"
    """It will not do it."""
    ACCEPTED = "taken"
    """It has it, and has not done it."""
    ERROR = "error"
    """It has failed at it."""


class AgentReply(NamedTuple):
    """An agent's answer to a push, read: what it says, in which words and parts."""

    kind: ReplyKind
    text: str = ""
    parts: tuple[dict[str, Any], ...] = ()
