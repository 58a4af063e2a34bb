"""Reads of organisations and workspaces."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from molecule_core.common import crash_points
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.org.model import Heartbeat, Org, Workspace, WorkspaceStatus
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import heartbeat_key, log_key, org_key
from molecule_core.wire.schemas.events import WorkspaceView

_BOOLEAN_COLUMNS = (
    "external",
    "instruction_compact",
    "broadcast_enabled",
    "talk_to_user_enabled",
    "collapsed",
    "send_drafts",
    "a2a_published",
)


class OrgReader:
    """Read access to organisations and workspaces, all from memory. Implements `rules.OrgTree`."""

    def __init__(self, registry: OrgRegistry) -> None:
        self._registry = registry
        self.org = registry.org
        self.find_org = registry.find_org
        self.orgs = registry.orgs
        self.workspace = registry.workspace
        self.parents = registry.parents
        self.active_workspace = registry.active_workspace
        self.workspaces = registry.workspaces
        self.all_with_removed = registry.all_with_removed
        self.children = registry.children
        self.roots = registry.roots
        self.last_heartbeat = registry.last_heartbeat
        self.last_heartbeat_number = registry.last_heartbeat_number
        self.change_count = registry.change_count
        self.push_workspace_ids = registry.push_workspace_ids
        self.tasks_changed_since = registry.tasks_changed_since
        self.workspaces_after_heartbeat = registry.workspaces_after_heartbeat

    def workspace_view(self, workspace: Workspace) -> WorkspaceView:
        """Return the API view of a workspace with its last heartbeat."""
        return workspace_view(workspace, self.last_heartbeat(workspace.id))

    def is_active_in(self, workspace_id: str, org_id: str) -> bool:
        """Return whether the id is an active workspace of this organisation."""
        found = self.workspace(workspace_id)
        return found is not None and found.org_id == org_id and not found.removed

    def encoded_page(self, org_id: str, after: str | None, count: int) -> bytes:
        """Return up to `count` active workspaces after one of them, oldest first, as a JSON list.

        Raises LookupError if the organisation never had the workspace `after`."""
        return self._registry.encoded_page(org_id, after, count, self._encode)

    def encoded_list(self, org_id: str | None) -> bytes:
        """Return all active workspaces of one organisation, or of all, oldest first, as a JSON list."""
        return self._registry.encoded_list(org_id, self._encode)

    def _encode(self, workspace: Workspace) -> bytes:
        return msgspec.json.encode(self.workspace_view(workspace))


async def load_registry(store: Store, registry: OrgRegistry) -> None:
    """Fill the registry from the store at start."""
    orgs = [_org_from_row(row) for row in await store.rows("all_orgs", {})]
    workspaces = [_workspace_from_row(row) for row in await store.rows("all_workspaces", {})]
    heartbeats = [(row[0], Heartbeat(*row[1:])) for row in await store.rows("all_heartbeats", {})]
    registry.load(orgs, workspaces, heartbeats)
    crash_points.mark_reached("registry.loaded")


class OrgRegistrySync(SyncedCache):
    """Keeps the registry in sync with changes made by other processes."""

    KINDS = ("org", "workspace", "pulses")

    def __init__(self, registry: OrgRegistry) -> None:
        self._registry = registry

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        """Load what another process changed; return the wake-up keys to notify."""
        if kind == "org":
            for rows in await read("org_by_id", [{"id": key} for key in keys]):
                for row in rows:
                    self._registry.put_org(_org_from_row(row))
            return ()
        if kind == "workspace":
            row_groups = await read("workspace_by_id", [{"id": key} for key in keys])
            found = [_workspace_from_row(row) for rows in row_groups for row in rows]
            self._registry.merge_workspaces(found)
            return {key for each in found for key in (org_key(each.org_id), log_key(each.id))}
        heartbeat_rows = await read("heartbeats_of_save", [{"saved": key} for key in keys])
        return self._merge_heartbeats(row for rows in heartbeat_rows for row in rows)

    def _merge_heartbeats(self, rows: Iterable[Row]) -> set[str]:
        orgs = set()
        for row in rows:
            self._registry.merge_heartbeat(row[0], Heartbeat(*row[1:]))
            workspace = self._registry.workspace(row[0])
            if workspace is not None:
                orgs.add(workspace.org_id)
        return {heartbeat_key(org_id) for org_id in orgs}

    async def load_all(self, read: BatchReader) -> None:
        """Reload everything, since the list of changes is incomplete."""
        for row in (await read("all_orgs", [{}]))[0]:
            self._registry.put_org(_org_from_row(row))
        self._registry.merge_workspaces(_workspace_from_row(row) for row in (await read("all_workspaces", [{}]))[0])
        self._merge_heartbeats((await read("all_heartbeats", [{}]))[0])


def _org_from_row(row: Row) -> Org:
    id_, name, skip, at = row
    return Org(id_, name, bool(skip), at)


def _workspace_from_row(row: Row) -> Workspace:
    """Build a workspace from a row of `all_workspaces`, whose columns have the order of the struct's fields."""
    columns: dict[str, Any] = dict(zip(Workspace.__struct_fields__, row, strict=True))
    columns["status"] = WorkspaceStatus(columns["status"])
    for name in _BOOLEAN_COLUMNS:
        columns[name] = bool(columns[name])
    return Workspace(**columns)


def workspace_view(workspace: Workspace, heartbeat: Heartbeat) -> WorkspaceView:
    """Return the API view of a workspace."""
    return WorkspaceView(
        id=workspace.id,
        org_id=workspace.org_id,
        name=workspace.name,
        role=workspace.role,
        runtime=workspace.runtime,
        parent_id=workspace.parent_id,
        delivery_mode=workspace.delivery_mode,
        url=workspace.url,
        status=workspace.status.value,
        external=workspace.external,
        tier=workspace.tier,
        active_tasks=heartbeat.active_tasks,
        max_concurrent_tasks=workspace.max_concurrent_tasks,
        last_error_rate=heartbeat.error_rate,
        uptime_seconds=heartbeat.uptime_seconds,
        agent_card=None if workspace.agent_card is None else Raw(workspace.agent_card.encode()),
        instruction_template_id=workspace.instruction_template_id,
        instruction_compact=workspace.instruction_compact,
        broadcast_enabled=workspace.broadcast_enabled,
        talk_to_user_enabled=workspace.talk_to_user_enabled,
        collapsed=workspace.collapsed,
        x=workspace.x,
        y=workspace.y,
        rev=workspace.rev,
        created_at=to_rfc3339(workspace.created_at),
        updated_at=to_rfc3339(workspace.updated_at),
        removed_at=to_optional_rfc3339(workspace.removed_at),
        key=workspace.key,
        instruction_shape=workspace.instruction_shape,
        reply_seconds=workspace.reply_seconds,
        send_drafts=workspace.send_drafts,
        limited_until=to_optional_rfc3339(workspace.limited_until),
        limit_reason=workspace.limit_reason,
        a2a_card_url=workspace.a2a_card_url,
        a2a_published=workspace.a2a_published,
    )
