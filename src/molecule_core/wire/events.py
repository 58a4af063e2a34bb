"""The one table of events: name, who may see it, and the shape of its payload.

Audience `workspace`: persons of the organisation, and the workspace it is about. `peers`: also every workspace that may
talk to that one.
"""

from typing import Any, Literal

from msgspec import Raw, Struct

Audience = Literal["workspace", "peers"]


class WorkspaceView(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A workspace as persons and peers see it; also a row of GET /workspaces. Times are RFC 3339."""

    id: str
    org_id: str
    name: str
    role: str | None
    runtime: str
    parent_id: str | None
    delivery_mode: str
    url: str | None
    status: str
    external: bool
    tier: int
    active_tasks: int
    max_concurrent_tasks: int
    last_error_rate: float
    uptime_seconds: int
    agent_card: Raw | None
    instruction_template_id: str | None
    instruction_compact: bool
    broadcast_enabled: bool
    talk_to_user_enabled: bool
    collapsed: bool
    x: float
    y: float
    rev: int
    created_at: str
    updated_at: str
    removed_at: str | None


class Online(Struct, frozen=True, omit_defaults=True):
    """An agent sits in its seat and is heard. `recovered_from`: the status it had before."""

    delivery_mode: str
    recovered_from: str | None = None
    agent_card: Raw | None = None
    url: str | None = None


class Degraded(Struct, frozen=True, omit_defaults=True):
    """An agent answers, but says that much of its work fails."""

    error_rate: float
    sample_error: str | None = None
    runtime_state: str | None = None


class Silent(Struct, frozen=True):
    """No heartbeat for too long."""

    last_heard_at: str


class Removed(Struct, frozen=True):
    """The seat is gone; what it said stays readable for persons."""

    removed_at: str


class CardUpdated(Struct, frozen=True):
    """What the agent says of itself now."""

    agent_card: Raw


class ActivityView(Struct, frozen=True, omit_defaults=True):
    """A new row of a workspace's log, as GET /workspaces/{id}/activity shows it. `seq` numbers the log. Bodies that
    are large are left out, but for a person's message."""

    activity_type: str
    status: str
    seq: int
    method: str | None = None
    kind: str | None = None
    summary: str | None = None
    source_id: str | None = None
    target_id: str | None = None
    duration_ms: int | None = None
    request_body: Raw | None = None
    response_body: Raw | None = None
    tool_trace: Raw | None = None
    error_detail: str | None = None


class AgentMessage(Struct, frozen=True, omit_defaults=True):
    """An agent wrote to its user. `seq` orders the chat of its workspace."""

    message: str
    workspace_id: str
    name: str
    seq: int
    attachments: list[dict[str, Any]] = []


class ChatPruned(Struct, frozen=True):
    """Old lines of a chat are gone. `kept`: of the agent's lines the numbers (`seq`) of those that are still there, at
    most as many as are counted as unread."""

    kept: list[int]


class Heartbeat(Struct, frozen=True):
    """An agent is there."""

    active_tasks: int
    uptime_seconds: int
    current_task: str | None
    last_heard_at: str


class TaskUpdated(Struct, frozen=True):
    """What an agent works on has changed. None: on nothing."""

    current_task: str | None
    active_tasks: int


class EventShape(Struct, frozen=True):
    """One row of the table. Journaled events are numbered and can be read again; transient ones are not."""

    audience: Audience
    payload: type[Struct]
    journaled: bool = True


EVENTS: dict[str, EventShape] = {
    "WORKSPACE_PROVISIONING": EventShape("peers", WorkspaceView),
    "WORKSPACE_UPDATED": EventShape("peers", WorkspaceView),
    "WORKSPACE_ONLINE": EventShape("peers", Online),
    "WORKSPACE_DEGRADED": EventShape("peers", Degraded),
    "WORKSPACE_OFFLINE": EventShape("peers", Silent),
    "WORKSPACE_AWAITING_AGENT": EventShape("peers", Silent),
    "WORKSPACE_REMOVED": EventShape("peers", Removed),
    "AGENT_CARD_UPDATED": EventShape("peers", CardUpdated),
    "ACTIVITY_LOGGED": EventShape("workspace", ActivityView),
    "USER_MESSAGE": EventShape("workspace", ActivityView),
    "AGENT_MESSAGE": EventShape("workspace", AgentMessage),
    "CHAT_PRUNED": EventShape("workspace", ChatPruned),
    "WORKSPACE_HEARTBEAT": EventShape("workspace", Heartbeat, journaled=False),
    "TASK_UPDATED": EventShape("workspace", TaskUpdated, journaled=False),
}
"""Every event that this version tells. A name that is not here, or is transient, cannot be journaled."""
