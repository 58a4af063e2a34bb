"""What goes over a live channel, and the snapshot it goes on from. The canvas' types are generated from here.

Event frames carry `event`; all other frames carry `type`. Clients that know only `event` may ignore the rest.
"""

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.wire.schemas.approvals import ApprovalItem
from molecule_core.wire.schemas.delegations import DelegationProgress
from molecule_core.wire.schemas.events import WorkspaceView

PROTOCOL_VERSION = 1
"""Raised when a client of the version before could not go on."""


class EventEntity(Struct, frozen=True):
    """What an event is about: `rev` counts the entity's changes; 0 for what never changes."""

    kind: str
    id: str
    rev: int


class EventFrame(Struct, frozen=True, kw_only=True):
    """One event. `seq` numbers the organisation's journal; `prev` is the seq of the event before it on this channel.

    Transient events (`WORKSPACE_HEARTBEAT`, `TASK_UPDATED`) have neither: nothing misses them. `client_id` is the
    messageId of the person's message that caused it."""

    event: str
    workspace_id: str
    timestamp: str
    payload: Raw
    entity: EventEntity
    seq: int | UnsetType = UNSET
    prev: int | UnsetType = UNSET
    client_id: str | UnsetType = UNSET


class SessionUser(Struct, frozen=True):
    """Who looks. `kind`: person, workspace or admin; `role`: viewer, operator or owner."""

    id: str
    name: str
    kind: str
    role: str


class HelloFrame(Struct, frozen=True, tag="hello"):
    """The first frame. `epoch` changes when numbers cannot be trusted any more: drop all, load a snapshot. `oldest` is
    the first event that is kept: one can go on behind `oldest` - 1 or later."""

    protocol: int
    epoch: str
    org_id: str
    head: int
    oldest: int
    user: SessionUser
    heartbeat_s: int
    server_time: str


class SubscribeFrame(Struct, frozen=True, tag="subscribe"):
    """From the client: go on behind `after`, which was learned in `epoch`. Without `after`: from here on."""

    after: int | None = None
    epoch: str | None = None


class ResumedFrame(Struct, frozen=True, tag="resumed"):
    """`count` events follow, behind `after` and up to `upto`; then live ones. The first has `prev` == `after`."""

    after: int
    upto: int
    count: int


class CurrentFrame(Struct, frozen=True, tag="current"):
    """Nothing was missed: `after` is the head."""

    after: int


class SnapshotRequiredFrame(Struct, frozen=True, tag="snapshot_required"):
    """Load a snapshot and subscribe behind its `as_of`. `reason`: epoch_changed, too_many, ahead or
    pruned."""

    reason: str


class PingFrame(Struct, frozen=True, tag="ping"):
    """The channel lives; `head_sent` is the seq of the last event sent on it."""

    head_sent: int


class SnapshotWorkspace(WorkspaceView, frozen=True, kw_only=True, omit_defaults=False):
    """A workspace with what its agent said last."""

    current_task: str | None
    last_heard_at: str | None


class LastChatMessage(Struct, frozen=True):
    """The last message of a chat. `content` is cut."""

    id: str
    role: str
    content: str
    timestamp: str
    seq: int


class SnapshotChat(Struct, frozen=True):
    """How a workspace's chat stands for the person who asks. `unread` stops counting at 100."""

    workspace_id: str
    unread: int
    read_seq: int
    last: LastChatMessage


class SnapshotUnanswered(Struct, frozen=True):
    """Messages to a workspace that wait for an answer although it was due, by their `seq`: `overdue` ones, and those
    whose agent said something `outside` and did not send it. One can be in both."""

    workspace_id: str
    overdue: list[int]
    outside: list[int]


class SnapshotDelegation(Struct, frozen=True, kw_only=True):
    """A delegation that has not ended, as its events tell it. `task_preview`: at most 100 bytes; `seq`: of the row in
    the log of its source; `life_at`: the last sign of life of its work."""

    delegation_id: str
    source_id: str
    target_id: str
    task_preview: str
    status: str
    phase: str
    attempt: int
    rev: int
    seq: int
    parent_id: str | None
    root_id: str
    depth: int
    created_at: str
    taken_at: str | None
    life_at: str
    deadline_at: str
    error: str | None
    retry_of: str | None
    progress: DelegationProgress | None


class SnapshotRejection(Struct, frozen=True, kw_only=True):
    """A delegation that a guard stopped before it began, as its event told it. `seq` and `at`: of the event."""

    seq: int
    at: str
    source_id: str
    target_id: str
    task_preview: str
    limit: str
    use: int
    most: int
    remedy: str


class SnapshotOrg(Struct, frozen=True):
    """The organisation."""

    id: str
    name: str


class SnapshotLimits(Struct, frozen=True):
    """What the page must know before it asks."""

    text_bytes: int
    name_length: int
    reply_seconds: int
    stuck_seconds: int


class Snapshot(Struct, frozen=True, kw_only=True):
    """All that the canvas shows of an organisation, as of one place in its journal. Events with `seq` <= `as_of`, or
    whose entity's `rev` is not above the known one, are in it already."""

    protocol: int
    epoch: str
    as_of: int
    server_time: str
    org: SnapshotOrg
    user: SessionUser
    limits: SnapshotLimits
    workspaces: list[SnapshotWorkspace]
    chats: list[SnapshotChat]
    unanswered: list[SnapshotUnanswered]
    delegations: list[SnapshotDelegation]
    """Open ones, newest first, as many as the limit allows."""
    refusals: list[SnapshotRejection]
    """Of the last day, newest first, as many as the limit allows."""
    approvals: list[ApprovalItem]
    """Open ones, oldest first, then those that have ended lately, newest first; as many as the limit allows."""


class SessionView(Struct, frozen=True):
    """Who is logged in."""

    user: SessionUser
    org: SnapshotOrg
    version: str
