"""Shared by the files of the org writer: validation, revisions, statements and events of workspaces."""

from collections.abc import Callable
from typing import Any

import msgspec

from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import InvalidField, InvalidParent
from molecule_core.common.limits import Limits
from molecule_core.common.text import unique_name, validate_line, validate_name
from molecule_core.org import rules
from molecule_core.org.model import POLL, Heartbeat, NewWorkspace, Workspace, WorkspaceStatus
from molecule_core.org.reader import workspace_view
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.database import Command, CommandSteps, JournalEvent, Store, T, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.events import (
    AgentDegradedPayload,
    AgentOfflinePayload,
    AgentOnlinePayload,
    WorkspacePausedPayload,
)


class WorkspaceChanges:
    """Commands, checks and write sets that the files of the org writer share."""

    def __init__(self, store: Store, registry: OrgRegistry, *, clock: Clock, limits: Limits) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self.limits = limits

    # -- commands ------------------------------------------------------------------------------------------------------

    def tree_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        """Return a command that reads or changes positions in the tree. They run one at a time in each organisation."""
        org_id = self.registry.active_workspace(workspace_id).org_id
        return Command(org_id, (("tree", org_id), ("workspace", workspace_id)), decide)

    def workspace_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        """Return a command on one workspace alone."""
        return Command(self.registry.active_workspace(workspace_id).org_id, (("workspace", workspace_id),), decide)

    # -- checks --------------------------------------------------------------------------------------------------------

    def future_siblings(self, org_id: str, parent_id: str | None) -> list[Workspace]:
        """Return the siblings that a new workspace would have. Raises InvalidParent."""
        if parent_id is None:
            return self.registry.roots(org_id)
        parent = self.valid_parent(org_id, parent_id)
        if rules.depth(self.registry, parent) + 1 > self.limits.tree_depth:
            raise InvalidParent(reason=rules.depth_error(self.limits.tree_depth))
        return self.registry.children(parent)

    def valid_parent(self, org_id: str, parent_id: str) -> Workspace:
        """Return an active workspace of an organisation that can be a parent. Raises InvalidParent."""
        parent = self.registry.workspace(parent_id)
        if parent is None or parent.org_id != org_id or parent.removed:
            raise InvalidParent(reason="there is no such workspace in this organisation")
        return parent

    def unused_name(self, name: str, level: list[Workspace], own_id: str = "") -> str:
        """Return the name, with a number appended if another workspace of the level has it."""
        return unique_name(name, {each.name for each in level if each.id != own_id}, self.limits.name_length)

    def clean_workspace(self, new: NewWorkspace) -> NewWorkspace:
        """Validate and normalise a new workspace. Raises InvalidName, InvalidField, UrlRequired."""
        short = self.limits.short_text_length
        mode, url = rules.resolve_delivery(new.delivery_mode, new.url, (POLL, None))
        return msgspec.structs.replace(
            new,
            name=validate_name(new.name, self.limits.name_length),
            role=None if new.role is None else validate_line(new.role, short, "role"),
            runtime=validate_line(new.runtime, short, "runtime") or "generic-mcp",
            key=self.clean_key(new.key),
            delivery_mode=mode,
            url=url,
        )

    def clean_key(self, key: str | None) -> str | None:
        """Validate the key of a workspace in an org file. Raises InvalidField."""
        return None if key is None else validate_line(key, self.limits.name_length, "key") or None

    def check_key_unused(self, org_id: str, key: str | None, own_id: str = "") -> None:
        """Raise InvalidField if an active workspace has the key: an org file could not distinguish the two."""
        for each in self.registry.workspaces(org_id) if key is not None else ():
            if each.key == key and each.id != own_id:
                raise InvalidField(reason=f"the key {key!r} is taken by {each.name!r}; choose another")

    # -- writes --------------------------------------------------------------------------------------------------------

    def next_revision(self, old: Workspace, **fields: Any) -> Workspace:
        """Return the next revision of a workspace."""
        return msgspec.structs.replace(old, rev=old.rev + 1, updated_at=self.clock.now(), **fields)

    def update_write_set(self, new: Workspace, events: list[JournalEvent], result: T) -> WriteSet[T]:
        """Return the write set for the change of one workspace."""
        return WriteSet(
            result,
            [update_statement(new)],
            events,
            notify=(org_key(new.org_id), log_key(new.id), PUSHES_KEY),
            after_commit=lambda: self.registry.put_workspace(new),
        )

    def workspace_view_event(self, name: str, workspace: Workspace) -> JournalEvent:
        """Return an event with the full view of a workspace."""
        return workspace_event(name, workspace, workspace_view(workspace, self.registry.last_heartbeat(workspace.id)))


def insert_statement(workspace: Workspace) -> tuple[str, Params]:
    """Return the statement that inserts a workspace."""
    return "insert_workspace", _workspace_params(workspace)


def update_statement(workspace: Workspace) -> tuple[str, Params]:
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
    )
