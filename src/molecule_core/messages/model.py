"""Activities: the durable rows of a workspace's log, and how far its inbox is handled."""

from typing import Any

from msgspec import Struct

RECEIVE = "a2a_receive"
SEND = "a2a_send"
KIND_USER = "canvas_user"
KIND_PEER = "peer_agent"
NOTIFY = "notify"

LOGGABLE = (SEND, "task_update", "agent_log", "skill_promotion", "memory_write", "error", "memory_write_global")
"""What an agent may write into its own log. Everything else is written by the server for what really happened."""
STATUSES = ("ok", "error", "timeout", "pending", "dispatched", "queued", "completed", "failed")


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


class Shown(Struct, frozen=True):
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
    trace_parent: str | None
    attempt: int | None = None
    """How often it was handed out, this time included; None where the row was not handed out by a claim."""


class Told(Struct, frozen=True):
    """A row as its live event tells it: the payload as JSON, and the id that the person's client chose."""

    payload: bytes
    client_id: str | None = None


class Sender(Struct, frozen=True):
    """Who a message is from, as the credential proves it. `key` is unique over persons, workspaces and the admin."""

    key: str
    workspace_id: str | None
    user_id: str | None
    user_name: str | None


class Draft(Struct, frozen=True):
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


class Receipt(Struct, frozen=True):
    """What a sender is told. The same for every repetition of the same message."""

    activity_id: str
    context_id: str
    created_at: int


class LogEntry(Struct, frozen=True, kw_only=True):
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


class Filters(Struct, frozen=True):
    """Which rows of a log are wanted. Times in microseconds; None: all."""

    activity_type: str | None = None
    source: str | None = None
    peer_id: str | None = None
    since: int | None = None
    before: int | None = None

    @property
    def whole_inbox(self) -> bool:
        """Whether every inbound row matches."""
        return self.activity_type in (None, RECEIVE) and not (self.source or self.peer_id or self.since or self.before)


class Inbox(Struct, frozen=True):
    """How far an inbox is handled: all rows up to `acked_seq`, which holds `acked_no` inbound ones, and `acked_above`
    single rows behind it."""

    acked_seq: int = 0
    acked_no: int = 0
    acked_above: int = 0


class Handout(Struct, frozen=True):
    """A row behind `acked_seq` that a claim handed out, or that was handled out of order. Times in microseconds."""

    seq: int
    attempt: int
    lease_until: int
    acked_at: int | None
