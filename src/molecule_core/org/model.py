"""Organisations, workspaces and their states."""

from enum import StrEnum

from msgspec import Struct


class DeliveryMode(StrEnum):
    """How messages reach the agent of a workspace."""

    POLL = "poll"
    """The agent polls."""
    PUSH = "push"
    """The server posts to the agent's URL."""


class WorkspaceStatus(StrEnum):
    """Status of a workspace."""

    PROVISIONING = "provisioning"
    ONLINE = "online"
    OFFLINE = "offline"
    DEGRADED = "degraded"
    PAUSED = "paused"
    HIBERNATED = "hibernated"
    AWAITING_AGENT = "awaiting_agent"
    FAILED = "failed"
    REMOVED = "removed"


class AgentSignal(StrEnum):
    """Result of a heartbeat, or of its absence."""

    HEALTHY = "well"  # error rate below 0.1
    FAIR = "fair"  # error rate from 0.1 to below 0.5
    FAILING = "failing"  # error rate of 0.5 or more, or the runtime is wedged
    SILENT = "silent"  # no heartbeat for `limits.silence_seconds`


class LifecycleAction(StrEnum):
    """Lifecycle action of a person on a workspace."""

    PAUSE = "pause"
    RESUME = "resume"
    HIBERNATE = "hibernate"


class Org(Struct, frozen=True):
    """A tenant. No data crosses organisations. `created_at` in microseconds."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: int


class Workspace(Struct, frozen=True, kw_only=True):
    """A node of the org tree, used by one agent. `agent_card` is JSON text, times are microseconds."""

    id: str
    org_id: str
    parent_id: str | None
    name: str
    role: str | None
    runtime: str
    delivery_mode: str
    url: str | None
    agent_card: str | None
    status: WorkspaceStatus
    external: bool
    tier: int
    max_concurrent_tasks: int
    instruction_template_id: str | None
    instruction_compact: bool
    broadcast_enabled: bool
    talk_to_user_enabled: bool
    collapsed: bool
    x: float
    y: float
    rev: int
    created_at: int
    updated_at: int
    removed_at: int | None
    key: str | None = None
    """Identifies the workspace in an org file, independent of its name."""
    instruction_shape: str | None = None
    """Format of delivered instructions: json, xml or both; None: the server's default."""
    reply_seconds: int | None = None
    """Seconds from delivery until an answer is due; 0: no deadline; None: the server's default."""
    send_drafts: bool = True
    """Whether final texts that a bridge or `agent run` asks to send are sent; False: they are kept as drafts."""
    limited_until: int | None = None
    """When the limit of a vendor ends that its agent has reached (microseconds); None: it is not limited."""
    limit_reason: str | None = None
    a2a_card_url: str | None = None
    """The card of the A2A agent of others that the server calls; None: its agent is another one."""
    a2a_published: bool = False
    """Whether its A2A card can be read without a credential."""

    @property
    def uses_push(self) -> bool:
        """Return whether the server posts messages to the agent's URL."""
        return self.delivery_mode == DeliveryMode.PUSH

    @property
    def removed(self) -> bool:
        """Return whether the workspace was removed."""
        return self.removed_at is not None

    def is_limited(self, now: int) -> bool:
        """Return whether the limit of a vendor keeps its agent from working."""
        return self.limited_until is not None and self.limited_until > now

    def holds_mail(self, now: int) -> bool:
        """Return whether nothing is delivered now: the workspace is paused or limited."""
        return self.status is WorkspaceStatus.PAUSED or self.is_limited(now)


class Heartbeat(Struct, frozen=True):
    """Content of an agent's heartbeat. `heard_at` in microseconds."""

    heard_at: int
    active_tasks: int = 0
    error_rate: float = 0.0
    sample_error: str | None = None
    uptime_seconds: int = 0
    current_task: str | None = None


class WorkspacesRemoved(Struct, frozen=True):
    """Domain event: workspaces were removed. Handled in the same transaction (store/subscribers.py)."""

    ids: tuple[str, ...]
    at: int


class WorkspacesMoved(Struct, frozen=True):
    """Domain event: a workspace and its descendants were moved. Handled like `WorkspacesRemoved`."""

    ids: tuple[str, ...]
    at: int


class LimitBegan(Struct, frozen=True):
    """Domain event: a workspace is limited until a time, or until another time than before (`previous_until`)."""

    workspace_id: str
    until: int
    previous_until: int | None
    at: int


class LimitEnded(Struct, frozen=True):
    """Domain event: the limit of a workspace ended, by itself or before its time."""

    workspace_id: str
    until: int
    at: int


class LimitEnder(StrEnum):
    """What ended the limit of a workspace."""

    TIME = "time"
    AGENT = "agent"
    PERSON = "person"
    BUDGET = "budget"
    """The budget that the workspace waited for was raised, changed or deleted."""


class NewWorkspace(Struct, frozen=True, kw_only=True):
    """Properties of a workspace to create, from a person or an org file."""

    name: str
    org_id: str | None = None
    parent_id: str | None = None
    role: str | None = None
    runtime: str = "generic-mcp"
    external: bool = False
    delivery_mode: str = DeliveryMode.POLL
    url: str | None = None
    tier: int = 1
    max_concurrent_tasks: int = 1
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    x: float = 0.0
    y: float = 0.0
    key: str | None = None
    instruction_shape: str | None = None
    reply_seconds: int | None = None
    send_drafts: bool = True
    a2a_card_url: str | None = None


class TeamSpec(Struct, frozen=True):
    """A workspace to create, with its descendants."""

    workspace: NewWorkspace
    children: "tuple[TeamSpec, ...]" = ()


NO_HEARTBEAT = Heartbeat(heard_at=0)
"""Placeholder for an agent that has not sent a heartbeat yet."""
