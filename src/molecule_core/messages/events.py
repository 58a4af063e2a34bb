"""Domain events of messages that carry a delegation or ask about an approval.

Emitted for these kinds only, so that other traffic causes none; handled by the subscribers (store/subscribers.py). The
delegation id equals the id of its message. Times are microseconds."""

from typing import Any

from msgspec import Struct


class MessagesDelivered(Struct, frozen=True):
    """Messages were delivered to a workspace, each as (id, attempt).

    `pushed`: the server sends them; otherwise the agent claimed them."""

    target_id: str
    messages: tuple[tuple[str, int], ...]
    pushed: bool
    at: int


class MessagesReleased(Struct, frozen=True):
    """An agent released messages, or a push was abandoned: the next claim gets them."""

    delegation_ids: tuple[str, ...]
    at: int


class PushDeferred(Struct, frozen=True):
    """A push failed and will be retried, or starts later than it could.

    `busy`: not counted as an attempt, because the agent is busy, at capacity, silent, or its circuit is open."""

    delegation_id: str
    busy: bool
    error: str | None
    next_at: int
    at: int


class PushOutcomeUnknown(Struct, frozen=True):
    """A message was pushed without a response: it may have been processed, so it is not sent again."""

    delegation_id: str
    error: str
    at: int


class PushAccepted(Struct, frozen=True):
    """An agent accepted a pushed message and has not answered it yet."""

    delegation_id: str
    at: int


class QuestionAsked(Struct, frozen=True):
    """An agent needs input or an authorization to go on with a delegation. Its delegator has the question."""

    delegation_id: str
    text: str
    at: int


class AnswerContent(Struct, frozen=True):
    """The content of an answer. `id` is its future row; `dedupe_key` and `content_hash` identify repetitions."""

    id: str
    sender: str
    parts: list[dict[str, Any]]
    text: str
    dedupe_key: str | None
    content_hash: str | None
    context_id: str | None


class MessageAnswered(Struct, frozen=True):
    """A message was answered or declined.

    `via`: reply, message, push or draft. `acknowledged`: the same command also acknowledges the message in the
    inbox."""

    delegation_id: str
    answer: AnswerContent
    via: str
    declined: bool
    acknowledged: bool
    at: int


class ApprovalExplained(Struct, frozen=True):
    """A workspace answered a question about its approval request.

    `message_id`: the message that asked; `seq`: the answer's position in the workspace's log."""

    message_id: str
    seq: int
    text: str
    at: int


class ProgressReported(Struct, frozen=True):
    """An agent reports that it is working on a message."""

    delegation_id: str
    text: str
    at: int


class DeliveryFailed(Struct, frozen=True):
    """A message will not be delivered. `code`: unreachable, refused, agent_error, unsafe_url, bad_answer or expired."""

    delegation_id: str
    code: str
    detail: str | None
    at: int


class ReviewFile(Struct, frozen=True):
    """A file of an answer that is reviewed."""

    uri: str
    name: str
    mime_type: str
    size: int
    sha256: str


class ReviewRequested(Struct, frozen=True, kw_only=True):
    """An answer to a delegation waits for a review.

    `id`: that the review gets. `reviewer_id`: the workspace that decides; None: a person. `until`: the deadline of the
    delegation, in microseconds."""

    id: str
    delegation_id: str
    check: int
    source_id: str
    worker_id: str
    reviewer_id: str | None
    instructions: str
    task: str
    answer: str
    answer_sha256: str
    files: tuple[ReviewFile, ...]
    until: int
    at: int


class ReviewDecided(Struct, frozen=True, kw_only=True):
    """A review was decided, or can never be.

    `by_id`: the workspace or person that decided. `note`: why; a rejected one has a reason."""

    id: str
    delegation_id: str
    is_passed: bool
    note: str
    by_id: str
    by_name: str
    at: int


class ReviewsDropped(Struct, frozen=True):
    """Reviews whose outcome is not needed any more."""

    ids: tuple[str, ...]
    reason: str
