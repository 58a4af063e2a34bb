"""Rows, statements and events of workspaces that the writer stores."""

import msgspec

from molecule_core.common.clock import to_rfc3339
from molecule_core.org.model import Heartbeat, NewWorkspace, Workspace, WorkspaceStatus
from molecule_core.store.database import JournalEvent, Statement
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.events import (
    AgentDegradedPayload,
    AgentOfflinePayload,
    AgentOnlinePayload,
    WorkspacePausedPayload,
)


def insert_statement(workspace: Workspace) -> Statement:
    """Return the statement that inserts a workspace."""
    return "insert_workspace", _workspace_params(workspace)


def update_statement(workspace: Workspace) -> Statement:
    """Return the statement that updates a workspace."""
    return "update_workspace", _workspace_params(workspace)


def _workspace_params(workspace: Workspace) -> Params:
    """Return a workspace as parameters, with booleans as 0 and 1 as both databases store them."""
    columns = msgspec.structs.asdict(workspace)
    return {name: int(value) if isinstance(value, bool) else value for name, value in columns.items()}


def workspace_event(name: str, workspace: Workspace, payload: msgspec.Struct) -> JournalEvent:
    """Return an event about a workspace, at its revision."""
    return JournalEvent(name, workspace.id, "workspace", workspace.id, workspace.rev, msgspec.json.encode(payload))


def status_event(new: Workspace, old: Workspace, heartbeat: Heartbeat) -> JournalEvent:
    """Return the event for a changed status."""
    match new.status:
        case WorkspaceStatus.ONLINE:
            return workspace_event("WORKSPACE_ONLINE", new, AgentOnlinePayload(new.delivery_mode, old.status.value))
        case WorkspaceStatus.DEGRADED:
            return workspace_event(
                "WORKSPACE_DEGRADED", new, AgentDegradedPayload(heartbeat.error_rate, heartbeat.sample_error)
            )
        case WorkspaceStatus.PAUSED | WorkspaceStatus.HIBERNATED:
            return workspace_event(f"WORKSPACE_{new.status.name}", new, WorkspacePausedPayload(old.status.value))
        case _:
            name = "WORKSPACE_OFFLINE" if new.status is WorkspaceStatus.OFFLINE else "WORKSPACE_AWAITING_AGENT"
            return workspace_event(
                name, new, AgentOfflinePayload(to_rfc3339(heartbeat.heard_at) if heartbeat.heard_at else None)
            )


def build_workspace(new: NewWorkspace, org_id: str, id_: str, name: str, now: int, parent_id: str | None) -> Workspace:
    """Return a new workspace that awaits its agent."""
    return Workspace(
        id=id_,
        org_id=org_id,
        parent_id=parent_id,
        name=name,
        role=new.role,
        runtime=new.runtime,
        delivery_mode=new.delivery_mode,
        url=new.url,
        agent_card=None,
        status=WorkspaceStatus.AWAITING_AGENT,
        external=new.external,
        tier=new.tier,
        max_concurrent_tasks=new.max_concurrent_tasks,
        instruction_template_id=new.instruction_template_id,
        instruction_compact=new.instruction_compact,
        broadcast_enabled=False,
        talk_to_user_enabled=True,
        collapsed=False,
        x=new.x,
        y=new.y,
        rev=1,
        created_at=now,
        updated_at=now,
        removed_at=None,
        key=new.key,
        instruction_shape=new.instruction_shape,
        reply_seconds=new.reply_seconds,
        send_drafts=new.send_drafts,
        a2a_card_url=new.a2a_card_url,
    )
