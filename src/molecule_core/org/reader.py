"""Reads of organisations and workspaces."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from molecule_core.ground import points
from molecule_core.ground.clock import rfc3339
from molecule_core.org.model import Org, Pulse, Status, Workspace
from molecule_core.org.registry import Registry
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import log_key, org_key, pulse_key
from molecule_core.store.mirrors import Mirror, Reads
from molecule_core.wire.events import WorkspaceView

_SWITCHES = ("external", "instruction_compact", "broadcast_enabled", "talk_to_user_enabled", "collapsed", "send_drafts")


class OrgReader:
    """What others may know of organisations and workspaces. Implements `rules.Tree`; every answer is from memory."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.org = registry.org
        self.find_org = registry.find_org
        self.orgs = registry.orgs
        self.workspace = registry.workspace
        self.parents = registry.parents
        self.living = registry.living
        self.workspaces = registry.workspaces
        self.all_ever = registry.all_ever
        self.children = registry.children
        self.roots = registry.roots
        self.pulse = registry.pulse
        self.beats = registry.beats
        self.changes = registry.changes
        self.pushed_to = registry.pushed_to
        self.tasks_changed_since = registry.tasks_changed_since
        self.heard_after = registry.heard_after

    def view(self, workspace: Workspace) -> WorkspaceView:
        """A workspace as persons and peers see it, with its last heartbeat."""
        return view(workspace, self.pulse(workspace.id))

    def lives_in(self, workspace_id: str, org_id: str) -> bool:
        """Whether it is a workspace of this organisation that was not removed."""
        found = self.workspace(workspace_id)
        return found is not None and found.org_id == org_id and not found.removed

    def page_list(self, org_id: str, after: str | None, count: int) -> bytes:
        """At most so many living workspaces of an organisation behind one of them, oldest first, as a list in JSON;
        LookupError: it has, and had, no such workspace."""
        return self._registry.page_list(org_id, after, count, self._encoded)

    def whole_list(self, org_id: str | None) -> bytes:
        """All living workspaces of one organisation or of all, oldest first, as a list in JSON."""
        return self._registry.whole_list(org_id, self._encoded)

    def _encoded(self, workspace: Workspace) -> bytes:
        return msgspec.json.encode(self.view(workspace))


async def load_registry(store: Store, registry: Registry) -> None:
    """Fills the registry from the store, at start."""
    orgs = [_org(row) for row in await store.rows("all_orgs", {})]
    workspaces = [_workspace(row) for row in await store.rows("all_workspaces", {})]
    pulses = [(row[0], Pulse(*row[1:])) for row in await store.rows("all_heartbeats", {})]
    registry.load(orgs, workspaces, pulses)
    points.reached("registry.loaded")


class OrgMirror(Mirror):
    """Keeps the registry current where other processes change the store too."""

    KINDS = ("org", "workspace", "pulses")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def load(self, read: Reads, kind: str, keys: list[str]) -> Iterable[str]:
        """What another process has changed; returns who may wait for it."""
        if kind == "org":
            for rows in await read("org_by_id", [{"id": key} for key in keys]):
                for row in rows:
                    self._registry.put_org(_org(row))
            return ()
        if kind == "workspace":
            every = await read("workspace_by_id", [{"id": key} for key in keys])
            found = [_workspace(row) for rows in every for row in rows]
            self._registry.renew(found)
            return {key for each in found for key in (org_key(each.org_id), log_key(each.id))}
        saves = await read("heartbeats_of_save", [{"saved": key} for key in keys])
        return self._learn(row for rows in saves for row in rows)

    def _learn(self, rows: Iterable[Row]) -> set[str]:
        orgs = set()
        for row in rows:
            self._registry.learn(row[0], Pulse(*row[1:]))
            workspace = self._registry.workspace(row[0])
            if workspace is not None:
                orgs.add(workspace.org_id)
        return {pulse_key(org_id) for org_id in orgs}

    async def load_all(self, read: Reads) -> None:
        """Everything: more has changed than is noted."""
        for row in (await read("all_orgs", [{}]))[0]:
            self._registry.put_org(_org(row))
        self._registry.renew(_workspace(row) for row in (await read("all_workspaces", [{}]))[0])
        self._learn((await read("all_heartbeats", [{}]))[0])


def _org(row: Row) -> Org:
    id_, name, skip, at = row
    return Org(id_, name, bool(skip), at)


def _workspace(row: Row) -> Workspace:
    """`all_workspaces` selects the columns in the order of the struct's fields."""
    columns: dict[str, Any] = dict(zip(Workspace.__struct_fields__, row, strict=True))
    columns["status"] = Status(columns["status"])
    for name in _SWITCHES:
        columns[name] = bool(columns[name])
    return Workspace(**columns)


def view(workspace: Workspace, pulse: Pulse) -> WorkspaceView:
    """A workspace as persons and peers see it."""
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
        active_tasks=pulse.active_tasks,
        max_concurrent_tasks=workspace.max_concurrent_tasks,
        last_error_rate=pulse.error_rate,
        uptime_seconds=pulse.uptime_seconds,
        agent_card=None if workspace.agent_card is None else Raw(workspace.agent_card.encode()),
        instruction_template_id=workspace.instruction_template_id,
        instruction_compact=workspace.instruction_compact,
        broadcast_enabled=workspace.broadcast_enabled,
        talk_to_user_enabled=workspace.talk_to_user_enabled,
        collapsed=workspace.collapsed,
        x=workspace.x,
        y=workspace.y,
        rev=workspace.rev,
        created_at=rfc3339(workspace.created_at),
        updated_at=rfc3339(workspace.updated_at),
        removed_at=None if workspace.removed_at is None else rfc3339(workspace.removed_at),
        key=workspace.key,
        instruction_shape=workspace.instruction_shape,
        reply_seconds=workspace.reply_seconds,
        send_drafts=workspace.send_drafts,
    )
