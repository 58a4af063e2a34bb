"""Organisations, workspaces and their states."""

from enum import StrEnum

from msgspec import Struct

POLL, PUSH = "poll", "push"
"""How messages reach an agent: it takes them, or they are posted to its url."""


class WorkspaceStatus(StrEnum):
    """How a workspace stands."""

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
    """What the server notices about an agent."""

    HEALTHY = "well"  # heard, and nearly all of its work succeeds
    FAIR = "fair"  # heard, some of its work fails
    FAILING = "failing"  # heard, but at least half of its work fails, or its runtime hangs
    SILENT = "silent"  # not heard for `limits.silence_seconds`


class LifecycleAction(StrEnum):
    """What a person does to the standing of a workspace."""

    PAUSE = "pause"
    RESUME = "resume"
    HIBERNATE = "hibernate"


class Org(Struct, frozen=True):
    """A tenant. Nothing crosses organisations. Times in microseconds."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: int


class Workspace(Struct, frozen=True, kw_only=True):
    """A seat in the org tree, held by one agent. `agent_card` is JSON text, times are microseconds."""

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
    """What an org file knows it by, whatever its name is."""
    instruction_shape: str | None = None
    """How its agent is given instructions: json, xml or both; None: as the deployment has it."""
    reply_seconds: int | None = None
    """So long after hand-over an answer is due; 0: nobody watches; None: as the deployment has it."""
    send_drafts: bool = False
    """Whether what its agent said without sending it is sent for it."""

    @property
    def removed(self) -> bool:
        """Whether the seat is gone."""
        return self.removed_at is not None


class Heartbeat(Struct, frozen=True):
    """What an agent said of itself in its last heartbeat; `heard_at` in microseconds."""

    heard_at: int
    active_tasks: int = 0
    error_rate: float = 0.0
    sample_error: str | None = None
    uptime_seconds: int = 0
    current_task: str | None = None


class WorkspacesRemoved(Struct, frozen=True):
    """Seats are removed: what others hear of it, in the same transaction (store/subscribers.py)."""

    ids: tuple[str, ...]
    at: int


class WorkspacesMoved(Struct, frozen=True):
    """A seat is moved, and all below it with it: they have others above them now. Heard like `WorkspacesRemoved`."""

    ids: tuple[str, ...]
    at: int


class NewWorkspace(Struct, frozen=True, kw_only=True):
    """What a person or an org file says about a seat that is to be made."""

    name: str
    org_id: str | None = None
    parent_id: str | None = None
    role: str | None = None
    runtime: str = "generic-mcp"
    external: bool = False
    delivery_mode: str = POLL
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
    send_drafts: bool = False


class TeamSpec(Struct, frozen=True):
    """A seat that is to be made, and those below it."""

    workspace: NewWorkspace
    children: "tuple[TeamSpec, ...]" = ()


NO_HEARTBEAT = Heartbeat(heard_at=0)
"""Before the first heartbeat."""
