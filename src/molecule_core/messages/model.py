"""Models of activities (the durable rows of a workspace's log) and of inbox state."""

from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.wire.schemas.activity import ActivityType
from molecule_core.wire.schemas.conversations import PeerMessage
from molecule_core.wire.schemas.envelope import Instructions

SUMMARY_LENGTH = 80

LOGGABLE_TYPES = (
    ActivityType.SEND,
    ActivityType.TASK_UPDATE,
    ActivityType.AGENT_LOG,
    ActivityType.SKILL_PROMOTION,
    ActivityType.MEMORY_WRITE,
    ActivityType.ERROR,
    ActivityType.MEMORY_WRITE_GLOBAL,
)
"""Types that an agent may write into its own log. The server writes all others, for events that really happened."""
SENDER_CANCELLED = "cancelled by its sender"
"""Reason of an obligation that ended because the sender of the message cancelled it."""
LOG_STATUSES = ("ok", "error", "timeout", "pending", "dispatched", "queued", "completed", "failed")


class Activity(Struct, kw_only=True):
    """One row of a workspace's log.

    Bodies are JSON text, `size` is the bytes of all bodies, times are microseconds. `seq` numbers all rows of the
    workspace, `inbound_no` those of its inbox (None for its own actions). `root_id` is the message that began the chain
    (None: this one), `hop` the distance from it, `cause_id` the message before it."""

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
    """A received file, in the column order of the query `file`.

    `name` is sanitized, `mime_type` is only claimed by the uploader. Blobs are stored under `id`. `activity_id`: the
    row that announced the file to a polling agent. Times are microseconds."""

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
    """The columns of an activity page, in the order of the page queries."""

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
    """Deliveries so far, this one included; None if the row was not delivered by a claim."""
    instructions: Instructions | None = None
    """Instructions that were selected at delivery."""
    reminder: bool = False
    """Whether this is a repeated delivery because the message is still unanswered."""


class LivePayload(Struct, frozen=True):
    """A row as its live event carries it.

    `payload` is JSON, `client_id` the id chosen by the person's client. `row`: for an incoming message, the row that
    instructions are rendered from, without its large bodies."""

    payload: bytes
    client_id: str | None = None
    row: ActivityPageRow | None = None


class Sender(Struct, frozen=True):
    """The authenticated sender of a message. `key` is unique across people, workspaces and the admin."""

    key: str
    workspace_id: str | None
    user_id: str | None
    user_name: str | None

    @classmethod
    def of_workspace(cls, workspace_id: str) -> "Sender":
        """Return a workspace as the sender."""
        return cls(f"workspace:{workspace_id}", workspace_id, None, None)


class MessageDraft(Struct, frozen=True):
    """A parsed message that is about to be sent."""

    sender: Sender
    params: dict[str, Any]
    message: dict[str, Any]
    rpc_id: str | int | None
    text: str
    intent: str
    dedupe_key: str | None
    context_id: str | None
    trace_parent: str | None = None
    """W3C `traceparent` of the trace that the message is part of."""
    kind: str | None = None
    """None: a person's or a peer's message, depending on the sender."""
    activity_id: str | None = None
    """None: a new id."""
    wait_seconds: int = 0
    """Seconds that the sender waits for the answer of a push agent."""
    task_id: str | None = None
    """The first message of the A2A task that a person's message continues."""


class UserNotice(Struct, frozen=True):
    """A message of an agent to its user. `metadata` has the keys of a message to a peer."""

    parts: list[dict[str, Any]]
    dedupe_key: str | None = None
    metadata: dict[str, Any] = {}


class MessageReceipt(Struct, frozen=True):
    """The result of sending a message.

    A repetition of the same message gets an equal receipt, except for `expects_reply` (a push agent will answer),
    `held_until` (microseconds: how long this request waits for that answer) and `answered_id` (the message that a
    notice to the user answered; empty: none)."""

    activity_id: str
    context_id: str
    created_at: int
    expects_reply: bool = False
    held_until: int = 0
    answered_id: str = ""


class BroadcastDraft(Struct, frozen=True):
    """A message of one workspace to all others of its organisation."""

    sender: Sender
    parts: list[dict[str, Any]]
    text: str
    dedupe_key: str | None = None
    cause_id: str | None = None


class BroadcastReceipt(Struct, frozen=True):
    """The number of recipients; `skipped` lists workspaces with a full inbox."""

    activity_id: str
    delivered: int
    skipped: list[str]


class AgentLogEntry(Struct, frozen=True, kw_only=True):
    """An agent's report about its own work. Bodies are any JSON value."""

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
    """Filters of a log page. Times are microseconds; None: no filter."""

    activity_type: str | None = None
    source: str | None = None
    peer_id: str | None = None
    since: int | None = None
    before: int | None = None

    @property
    def is_whole_inbox(self) -> bool:
        """Return whether every inbound row matches."""
        return self.activity_type in (None, ActivityType.RECEIVE) and not (
            self.source or self.peer_id or self.since or self.before
        )


class InboxState(Struct, frozen=True):
    """How far an inbox is acknowledged.

    All rows up to the ack floor `acked_seq` are acknowledged, which includes `acked_no` inbound ones, and `acked_above`
    single rows above it. `requeued` dead letters wait for delivery again, at any position; `dead` ones were given
    up."""

    acked_seq: int = 0
    acked_no: int = 0
    acked_above: int = 0
    requeued: int = 0
    dead: int = 0


class InboxClaim(Struct, frozen=True):
    """A claimed row above the ack floor, one acknowledged out of order, or a requeued dead letter.

    `shown_after`: cursor of the reader that the row was delivered to. Times are microseconds."""

    seq: int
    attempt: int
    lease_until: int
    acked_at: int | None
    requeued: int = 0
    shown_after: int | None = None

    @property
    def is_passable(self) -> bool:
        """Return whether the ack floor may move past this row."""
        return self.acked_at is not None or self.requeued == 1

    def is_released(self, now: int) -> bool:
        """Return whether a delivered, unacknowledged row has no holder: it was released, or its lease ended."""
        return self.acked_at is None and self.attempt > 0 and self.lease_until <= now


class UnansweredMessage(NamedTuple):
    """An unanswered message to a removed workspace.

    One of the newest of `total` messages from the same sender to the same recipient. `created_at` in microseconds."""

    target_id: str
    source_id: str
    total: int
    id: str
    created_at: int


class InboxPosition(NamedTuple):
    """A row of an inbox and its current or next delivery attempt."""

    seq: int
    attempt: int
    inbound_no: int


class InboxRange(Struct, frozen=True):
    """A range of an inbox that one command delivered or acknowledged with the same attempt."""

    first: InboxPosition
    last: InboxPosition


class PeerPosition(NamedTuple):
    """Position of a message between two workspaces, whose logs have no common numbers. `at`: microseconds."""

    at: int
    id: str


class PlacedPeerMessage(NamedTuple):
    """A message between two workspaces, its position, and the bytes that a page counts for it."""

    position: PeerPosition
    message: PeerMessage
    size: int


UNMENTIONED_FILE_TIMER = "unmentioned-file"
"""Kind of the timer that checks whether any message mentions a file; its key is `organisation/file`."""
MESSAGE_EXPIRY_TIMER = "expiry"
"""Kind of the timer that expires a message; its key is the message id."""


class TracedMessage(Struct, frozen=True):
    """One message of a request's trace, in column order of the queries.

    `seq`: its row number in the log of its workspace. `state` and `closed_at`: of its obligation, if it has one."""

    id: str
    workspace_id: str
    source_id: str | None
    target_id: str | None
    method: str | None
    kind: str | None
    summary: str | None
    hop: int
    cause_id: str | None
    created_at: int
    chain_no: int
    seq: int
    user_id: str | None
    state: str | None
    closed_at: int | None


class TurnLog(Struct, frozen=True):
    """What a bridge logged about one turn: the message that began it, what it used, and its calls of tools, by name.

    `logged_at`: microseconds; `seconds`: duration of the turn. `usage_key`: key of its usage record, if it has one."""

    logged_at: int
    seconds: float
    activity_id: str
    usage: dict[str, float]
    tools: dict[str, int]
    usage_key: str = ""
