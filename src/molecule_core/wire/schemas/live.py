"""Frames of the live channels, and the snapshot that a client starts from. The canvas types are generated from it.

Event frames carry `event`; all other frames carry `type`. A client that handles only `event` may ignore the others.
"""

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.wire.schemas.approvals import ApprovalItem
from molecule_core.wire.schemas.delegations import DelegationProgress
from molecule_core.wire.schemas.events import WorkspaceView

PROTOCOL_VERSION = 1
"""Incremented when clients of the previous version could no longer work."""


class EventEntity(Struct, frozen=True):
    """The entity that an event is about. `rev` counts its changes; 0 for immutable entities."""

    kind: str
    id: str
    rev: int


class EventFrame(Struct, frozen=True, kw_only=True):
    """An event. `seq` numbers the organisation's journal; `prev` is the seq of the previous event on this channel.

    Transient events (such as `WORKSPACE_HEARTBEAT`) have neither, so losing one leaves no gap. `client_id`:
    the messageId of the person's message that caused the event."""

    event: str
    workspace_id: str
    timestamp: str
    payload: Raw
    entity: EventEntity
    seq: int | UnsetType = UNSET
    prev: int | UnsetType = UNSET
    client_id: str | UnsetType = UNSET


class SessionUser(Struct, frozen=True):
    """The authenticated user. `kind`: person, workspace or admin; `role`: viewer, operator or owner."""

    id: str
    name: str
    kind: str
    role: str


class HelloFrame(Struct, frozen=True, tag="hello"):
    """The first frame of a channel.

    `epoch` changes when stored seqs are no longer valid: drop all state and load a snapshot. `oldest`: the first
    retained event; a client can resume after `oldest` - 1 or later."""

    protocol: int
    epoch: str
    org_id: str
    head: int
    oldest: int
    user: SessionUser
    heartbeat_s: int
    server_time: str


class SubscribeFrame(Struct, frozen=True, tag="subscribe"):
    """Sent by the client: resume after `after`, which it read in `epoch`. Without `after`: only new events."""

    after: int | None = None
    epoch: str | None = None


class ResumedFrame(Struct, frozen=True, tag="resumed"):
    """`count` events follow, after `after` and up to `upto`, then live ones. The first has `prev` == `after`."""

    after: int
    upto: int
    count: int


class CurrentFrame(Struct, frozen=True, tag="current"):
    """Nothing was missed: `after` is the head."""

    after: int


class SnapshotRequiredFrame(Struct, frozen=True, tag="snapshot_required"):
    """Load a snapshot and subscribe after its `as_of`. `reason`: epoch_changed, too_many, ahead or pruned."""

    reason: str


class PingFrame(Struct, frozen=True, tag="ping"):
    """Keep-alive of the channel. `head_sent`: seq of the last event sent on it."""

    head_sent: int


class SnapshotWorkspace(WorkspaceView, frozen=True, kw_only=True, omit_defaults=False):
    """A workspace with the data of its agent's last heartbeat."""

    current_task: str | None
    last_heard_at: str | None


class LastChatMessage(Struct, frozen=True):
    """The last message of a chat. `content` is truncated."""

    id: str
    role: str
    content: str
    timestamp: str
    seq: int


class SnapshotChat(Struct, frozen=True):
    """State of a workspace's chat for the requesting person. `unread` stops counting at 100."""

    workspace_id: str
    unread: int
    read_seq: int
    last: LastChatMessage


class SnapshotUnanswered(Struct, frozen=True):
    """Messages to a workspace with a late answer, by `seq`.

    `overdue`: the answer is overdue; `outside`: the agent has an answer that it did not send. A message can be in
    both."""

    workspace_id: str
    overdue: list[int]
    outside: list[int]


class SnapshotDelegation(Struct, frozen=True, kw_only=True):
    """An open delegation.

    `task_preview`: at most 100 bytes; `seq`: of the row in the source's log; `life_at`: the last activity of its
    work."""

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
    """A delegation that was rejected by a limit before it began. `seq` and `at`: of the event."""

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
    """Limits that the canvas applies before it sends a request."""

    text_bytes: int
    name_length: int
    reply_seconds: int
    stuck_seconds: int
    grace_seconds: int


class Snapshot(Struct, frozen=True, kw_only=True):
    """All that the canvas shows of an organisation, as of one position in its journal.

    Events with `seq` <= `as_of`, or whose entity's `rev` is not above the known one, are already included. A list ends
    early at `snapshot_bytes`. `next_workspace`: there are more workspaces; read them with `?after=` and this value."""

    protocol: int
    epoch: str
    as_of: int
    server_time: str
    org: SnapshotOrg
    user: SessionUser
    limits: SnapshotLimits
    workspaces: list[SnapshotWorkspace]
    chats: list[SnapshotChat]
    """Those of the workspaces above."""
    next_workspace: str | None = None
    unanswered: list[SnapshotUnanswered]
    delegations: list[SnapshotDelegation]
    """Open ones, newest first, up to the limit."""
    refusals: list[SnapshotRejection]
    """Those of the last day, newest first, up to the limit."""
    approvals: list[ApprovalItem]
    """Open ones, oldest first, then recently ended ones, newest first; up to the limit."""


class SnapshotPage(Struct, frozen=True, kw_only=True):
    """Further workspaces of a snapshot and their chats, as they are now. `next_workspace`: there are more."""

    workspaces: list[SnapshotWorkspace]
    chats: list[SnapshotChat]
    next_workspace: str | None


class SessionView(Struct, frozen=True):
    """The current session."""

    user: SessionUser
    org: SnapshotOrg
    version: str


class LoginHelpResponse(Struct, frozen=True):
    """The command that prints a login link. `is_exact`: it is complete for this server; otherwise the server's operator
    adds where it is. `needs_admin_token`: the state folder has no admin token, so the command needs it in its
    environment."""

    command: str
    is_exact: bool
    needs_admin_token: bool


class SampleTeamView(Struct, frozen=True):
    """A few scripted agents to try the page with. `is_available`: this server can run them. `workspace_id`: the
    workspace at the top of the organisation's team, if it has one."""

    is_available: bool
    workspace_id: str | None


class OrgView(Struct, frozen=True):
    """An organisation. Times are RFC 3339."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: str
