"""Activities: the durable rows of a workspace's log, and how far its inbox is handled."""

from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.wire.schemas.envelope import Instructions

TYPE_RECEIVE = "a2a_receive"
TYPE_SEND = "a2a_send"
KIND_USER = "canvas_user"
KIND_PEER = "peer_agent"
KIND_BROADCAST = "broadcast"
KIND_UPLOAD = "chat_upload_receive"
KIND_DELEGATION = "delegation"
KIND_DELEGATION_RESULT = "delegation_result"
KIND_APPROVAL_REQUEST, KIND_APPROVAL_DECISION = "approval_request", "approval_decision"
KIND_SYSTEM = "system"
TYPE_DELEGATION = "delegation"
"""The type of the row that a workspace's own log holds of what it has delegated; no agent can write one."""
METHOD_DELEGATE, METHOD_DELEGATE_RESULT = "delegate", "delegate_result"
"""The methods of that row, and of the row that brings the result."""
METHOD_NOTIFY = "notify"
METHOD_BROADCAST = "broadcast"
METHOD_BROADCAST_SENT = "broadcast_sent"

INTENT_REQUEST, INTENT_INFORM, INTENT_ACK = "request", "inform", "ack"
"""What a message wants: an answer; none; none, since it only says that something was read."""

SUMMARY_LENGTH = 80

LOGGABLE_TYPES = (
    TYPE_SEND,
    "task_update",
    "agent_log",
    "skill_promotion",
    "memory_write",
    "error",
    "memory_write_global",
)
"""What an agent may write into its own log. Everything else is written by the server for what really happened."""
LOG_STATUSES = ("ok", "error", "timeout", "pending", "dispatched", "queued", "completed", "failed")


class Activity(Struct, kw_only=True):
    """One row of the log. Bodies are JSON text; `size` is the bytes of all bodies; times are microseconds.

    `seq` numbers all rows of the workspace, `inbound_no` those of its inbox (None for what it did itself). `root_id` is
    the message that began its chain (None: itself), `hop` how far it is from there, `cause_id` the one before it."""

    id: str
    org_id: str
    workspace_id: str
    seq: int
    inbound_no: int | None = None
    chat: int = 0
    size: int = 0
    activity_type: str
    method: str | None = None
    kind: str | None = None
    intent: str | None = None
    source_id: str | None = None
    target_id: str | None = None
    user_id: str | None = None
    sender: str
    dedupe_key: str | None = None
    content_hash: str | None = None
    context_id: str | None = None
    status: str = "ok"
    created_at: int
    duration_ms: int | None = None
    summary: str | None = None
    error_detail: str | None = None
    request_body: str | None = None
    response_body: str | None = None
    tool_trace: str | None = None
    root_id: str | None = None
    hop: int = 0
    cause_id: str | None = None
    expires_at: int | None = None
    trace_parent: str | None = None
    chain_no: int | None = None
    small_talk: int | None = None


class StoredFile(Struct, frozen=True):
    """A file that came in, in the order the query `file` selects it. Its name is cleaned, its type only claimed; its
    bytes lie under its id. `activity_id`: the row that told a polling agent of it. Times are microseconds."""

    id: str
    org_id: str
    workspace_id: str
    uploaded_by: str
    name: str
    mime_type: str
    size: int
    sha256: str
    activity_id: str | None
    created_at: int
    acked_at: int | None = None


class ActivityPageRow(Struct, frozen=True):
    """What a page of activity needs of a row, in the order the page queries select it."""

    id: str
    workspace_id: str
    seq: int
    activity_type: str
    method: str | None
    kind: str | None
    intent: str | None
    source_id: str | None
    target_id: str | None
    status: str
    created_at: int
    duration_ms: int | None
    summary: str | None
    error_detail: str | None
    request_body: str | None
    response_body: str | None
    tool_trace: str | None
    root_id: str | None
    hop: int
    cause_id: str | None
    trace_parent: str | None
    context_id: str | None
    inbound_no: int | None
    attempt: int | None = None
    """How often it was handed out, this time included; None where the row was not handed out by a claim."""
    instructions: Instructions | None = None
    """What is said with it, where that was chosen when it was handed out."""
    reminder: bool = False
    """Whether it was handed out once more because nobody has answered it."""


class LivePayload(Struct, frozen=True):
    """A row as its live event tells it: the payload as JSON, the id that the person's client chose, and, of a message
    that came in, what it is told with (its large bodies left out)."""

    payload: bytes
    client_id: str | None = None
    row: ActivityPageRow | None = None


class Sender(Struct, frozen=True):
    """Who a message is from, as the credential proves it. `key` is unique over persons, workspaces and the admin."""

    key: str
    workspace_id: str | None
    user_id: str | None
    user_name: str | None


class MessageDraft(Struct, frozen=True):
    """A regular message that is about to be sent."""

    sender: Sender
    params: dict[str, Any]
    message: dict[str, Any]
    rpc_id: str | int | None
    text: str
    intent: str
    dedupe_key: str | None
    context_id: str | None
    trace_parent: str | None = None
    """Of which trace it is part (W3C `traceparent`)."""
    kind: str | None = None
    """None: a person's or a peer's, as the sender is."""
    activity_id: str | None = None
    """None: a new one."""
    wait_seconds: int = 0
    """So many seconds its sender waits for the answer of an agent that is pushed to."""


class UserNotice(Struct, frozen=True):
    """What an agent writes to its user. `metadata`: what it says about it, as in a message to a peer."""

    parts: list[dict[str, Any]]
    dedupe_key: str | None = None
    metadata: dict[str, Any] = {}


class MessageReceipt(Struct, frozen=True):
    """What a sender is told. The same for every repetition of the same message, but for what its own request does: with
    `asks` the answer of a push agent is to come, and until `held_until` (microseconds) it waits for that here."""

    activity_id: str
    context_id: str
    created_at: int
    expects_reply: bool = False
    held_until: int = 0


class BroadcastDraft(Struct, frozen=True):
    """What one workspace says to all others of its organisation."""

    sender: Sender
    parts: list[dict[str, Any]]
    text: str
    dedupe_key: str | None = None
    cause_id: str | None = None


class BroadcastReceipt(Struct, frozen=True):
    """How many it reached; `skipped` names those whose inbox is full."""

    activity_id: str
    delivered: int
    skipped: list[str]


class AgentLogEntry(Struct, frozen=True, kw_only=True):
    """What an agent reports about its own work. Bodies are any JSON value."""

    activity_type: str
    method: str | None = None
    summary: str | None = None
    target_id: str | None = None
    source_id: str | None = None
    status: str = "ok"
    error_detail: str | None = None
    duration_ms: int | None = None
    request_body: Any = None
    response_body: Any = None


class ActivityFilters(Struct, frozen=True):
    """Which rows of a log are wanted. Times in microseconds; None: all."""

    activity_type: str | None = None
    source: str | None = None
    peer_id: str | None = None
    since: int | None = None
    before: int | None = None

    @property
    def is_whole_inbox(self) -> bool:
        """Whether every inbound row matches."""
        return self.activity_type in (None, TYPE_RECEIVE) and not (
            self.source or self.peer_id or self.since or self.before
        )


class InboxState(Struct, frozen=True):
    """How far an inbox is handled: all rows up to `acked_seq`, which holds `acked_no` inbound ones, and `acked_above`
    single rows behind it. `requeued` dead letters wait again, wherever they stand; `dead` ones were given up."""

    acked_seq: int = 0
    acked_no: int = 0
    acked_above: int = 0
    requeued: int = 0
    dead: int = 0


class InboxClaim(Struct, frozen=True):
    """A row behind `acked_seq` that a claim handed out, or that was handled out of order; or a dead letter that waits
    again. `shown_behind`: the cursor of the reader that it was shown to. Times in microseconds."""

    seq: int
    attempt: int
    lease_until: int
    acked_at: int | None
    requeued: int = 0
    shown_after: int | None = None

    @property
    def is_passable(self) -> bool:
        """Whether the floor need not wait for it."""
        return self.acked_at is not None or self.requeued == 1

    def is_released(self, now: int) -> bool:
        """Whether nobody holds any more what was handed out: it was given back, not taken, or its lease has ended."""
        return self.acked_at is None and self.attempt > 0 and self.lease_until <= now


class UnansweredMessage(NamedTuple):
    """A message that a workspace has sent to one that is removed, and gets no answer to: one of the newest of `found`
    from the same to the same. Time in microseconds."""

    target_id: str
    source_id: str
    total: int
    id: str
    created_at: int


class InboxPosition(NamedTuple):
    """A row of an inbox, and the attempt that was or is to be made with it."""

    seq: int
    attempt: int
    inbound_no: int


class InboxRange(Struct, frozen=True):
    """A range of an inbox that one command handed out or settled, with the same attempt."""

    first: InboxPosition
    last: InboxPosition


# What becomes of a message, as its sender may see it; `stored` is told by the message itself.
STORED, WAKE_ASKED, DELIVERED, ACKED, DEAD = "stored", "wake_asked", "handed_over", "acked", "dead"
ANSWERED, DECLINED, ANSWERED_OUTSIDE, OVERDUE = "answered", "declined", "answered_outside", "overdue"
"""What becomes of the answer to it."""
UNMENTIONED_FILE_TIMER = "unmentioned-file"
"""The kind of the timer that asks whether a message mentions a file by now; its key is `organisation/file`."""
EXPIRY_TIMER = "expiry"
"""The kind of the timer that ends the life of a message; its key is the message's id."""
# Why a message was given up.
EXPIRED, UNREACHABLE, REFUSED = "expired", "unreachable", "refused"
# What became of a dead letter.
REQUEUED, HANDLED, DISCARDED = "requeued", "handled", "discarded"
