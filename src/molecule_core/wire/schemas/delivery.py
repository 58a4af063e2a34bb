"""What becomes of a message, as clients read it: ticks, the state of a push, dead letters. Times are RFC 3339."""

from msgspec import UNSET, Raw, Struct, UnsetType


class DeliveryLogEntry(Struct):
    """One thing that became of a message: stored, wake_asked, handed_over, acked or dead."""

    tick: str
    at: str
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class DeliveryBlocker(Struct):
    """Why a message does not go on at this moment."""

    reason: str


class MessageDeliveryLog(Struct):
    """All that became of a message, in order, and why it does not go on, if it does not. `source_id`: the workspace
    that sent it; null for a person."""

    activity_id: str
    workspace_id: str
    source_id: str | None
    ticks: list[DeliveryLogEntry]
    stuck: DeliveryBlocker | None


class QueueStatus(Struct):
    """How a message stands on its way to an agent: queued, dispatched, completed, failed or dropped. `response_body` is
    what a push agent answered."""

    queue_id: str
    workspace_id: str
    status: str
    priority: int
    attempts: int
    enqueued_at: str
    last_error: str | UnsetType = UNSET
    dispatched_at: str | UnsetType = UNSET
    completed_at: str | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    response_body: Raw | UnsetType = UNSET


class DeadLetterRow(Struct):
    """A message that was given up: expired, unreachable or refused. `detail` is what went wrong last."""

    activity_id: str
    workspace_id: str
    workspace_name: str
    source_id: str | None
    kind: str | None
    summary: str | None
    reason: str
    detail: str | None
    attempts: int
    died_at: str
    created_at: str


class StaleInboxRow(Struct):
    """A workspace whose mail nobody takes. `status`: its own; `waiting`: how many messages that want an answer nobody
    has had, `more`: or more than were counted; `since`: since when the longest of them waits."""

    workspace_id: str
    workspace_name: str
    status: str
    waiting: int
    more: bool
    since: str


class StaleInboxPage(Struct):
    """Such workspaces, the longest waiting first. `reached_end`: there are no more of them."""

    untaken: list[StaleInboxRow]
    reached_end: bool


class DeadLetterPage(Struct):
    """A page of dead letters, newest first; `before` of the next page is the last activity_id of this one."""

    dead_letters: list[DeadLetterRow]
    reached_end: bool
