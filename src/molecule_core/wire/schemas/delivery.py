"""Message delivery as clients read it: delivery log, push status, dead letters. Times are RFC 3339."""

from msgspec import UNSET, Raw, Struct, UnsetType


class DeliveryLogEntry(Struct):
    """A delivery step of a message: stored, wake_asked, in_inbox, handed_over, acked or dead."""

    tick: str
    at: str
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class DeliveryBlocker(Struct):
    """Why a message is not being delivered now."""

    reason: str


class MessageDeliveryLog(Struct):
    """The delivery steps of a message in order, and what blocks it, if anything.

    `source_id`: the workspace that sent it; null for a person."""

    activity_id: str
    workspace_id: str
    source_id: str | None
    ticks: list[DeliveryLogEntry]
    stuck: DeliveryBlocker | None


class QueueStatus(Struct):
    """Status of a message to an agent: queued, dispatched, completed, failed or dropped.

    `response_body`: the response of a push agent."""

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
    """A message whose delivery was given up: expired, unreachable or refused. `detail`: the last error."""

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
    """A workspace that does not take its messages.

    `status`: of the workspace; `waiting`: number of undelivered requests (`more`: there are more than were counted);
    `since`: time of the oldest one."""

    workspace_id: str
    workspace_name: str
    status: str
    waiting: int
    more: bool
    since: str


class StaleInboxPage(Struct):
    """A page of stale inboxes, the longest waiting first. `reached_end`: there are no more.

    `untaken_seconds`: a message is listed after it has waited for this long. No event reports that: a client that shows
    the page reads it again after `next_check_seconds`."""

    untaken: list[StaleInboxRow]
    reached_end: bool
    untaken_seconds: int
    next_check_seconds: int


class DeadLetterPage(Struct):
    """A page of dead letters, newest first. `before` of the next page: the last activity_id of this one."""

    dead_letters: list[DeadLetterRow]
    reached_end: bool
