"""What messages say has happened to one that carries a delegation, or asks about an approval; whoever follows hears it
(store/subscribers.py).

Made only for messages of those kinds, so that all other traffic makes none. Each names the delegation by its id, which
is the id of the message; times are microseconds. Above: the hands of this slice. Below: nothing.
"""

from typing import Any

from msgspec import Struct


class MessagesDelivered(Struct, frozen=True):
    """Messages were handed over to a workspace, each with its attempt. `pushed`: the server sends them; else the agent
    took them."""

    target_id: str
    messages: tuple[tuple[str, int], ...]
    pushed: bool
    at: int


class MessagesReleased(Struct, frozen=True):
    """An agent gave messages back, or a push was let go: whoever comes next gets them."""

    delegation_ids: tuple[str, ...]
    at: int


class PushDeferred(Struct, frozen=True):
    """A push has failed and is tried again at a time, or begins later than it could. `busy`: that counts as no attempt,
    since the agent has no time, has its hands full, is silent or is left in peace after many failures."""

    delegation_id: str
    busy: bool
    error: str | None
    next_at: int
    at: int


class PushOutcomeUnknown(Struct, frozen=True):
    """A message was sent and no answer came: it may be done, so it is not sent again."""

    delegation_id: str
    error: str
    at: int


class PushAccepted(Struct, frozen=True):
    """An agent has taken a pushed message and has not answered it yet."""

    delegation_id: str
    at: int


class AnswerContent(Struct, frozen=True):
    """What a workspace says in answer. `id`: the row that it will be; `dedupe_key` and `content_hash` tell its
    repetitions."""

    id: str
    sender: str
    parts: list[dict[str, Any]]
    text: str
    dedupe_key: str | None
    content_hash: str | None
    context_id: str | None


class MessageAnswered(Struct, frozen=True):
    """A message is answered, or declined. `via`: reply, message, push or draft. `handled`: the same command also
    settles it in the inbox; else nobody has."""

    delegation_id: str
    answer: AnswerContent
    via: str
    declined: bool
    acknowledged: bool
    at: int


class ApprovalExplained(Struct, frozen=True):
    """A workspace has answered a question about what it wants leave for. `message_id`: the message that asked; `seq`:
    its place in the workspace's log."""

    message_id: str
    seq: int
    text: str
    at: int


class ProgressReported(Struct, frozen=True):
    """An agent says that it is at work on a message."""

    delegation_id: str
    text: str
    at: int


class DeliveryFailed(Struct, frozen=True):
    """A message will not be delivered. `code`: unreachable, refused, agent_error, unsafe_url, bad_answer or expired."""

    delegation_id: str
    code: str
    detail: str | None
    at: int
