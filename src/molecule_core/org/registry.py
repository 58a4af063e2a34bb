"""In-memory cache of the org tree, so that permission checks need no query.

Loaded at start and changed only by the org writer after its commit. Where several processes share a store,
`reader.OrgRegistrySync` keeps it current."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import islice

from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import NotFound, WorkspaceRemoved
from molecule_core.org.list_cache import OrgListCache, WorkspaceEncoder
from molecule_core.org.model import NO_HEARTBEAT, Heartbeat, Org, Workspace


class OrgRegistry:
    """All organisations and workspaces, removed ones included. Implements `rules.OrgTree`."""

    def __init__(self) -> None:
        self._orgs: dict[str, Org] = {}
        self._workspaces: dict[str, Workspace] = {}
        self._parents: dict[str, str | None] = {}
        # Keyed by the parent's id, for roots by the organisation's; dicts keep the order of creation.
        self._children: dict[str, dict[str, Workspace]] = {}
        # By organisation, with removed workspaces; `_positions` has the index of each in its list.
        self._list_caches: defaultdict[str, OrgListCache] = defaultdict(OrgListCache)
        self._active: dict[str, dict[str, Workspace]] = {}
        self._positions: dict[str, int] = {}
        self._heartbeats: dict[str, Heartbeat] = {}
        self._unsaved: set[str] = set()
        # Workspaces whose last heartbeat reached another process, which saves heartbeats only with each sweep.
        self._remote_heartbeats: set[str] = set()
        # Heartbeat number of each workspace, by organisation, in the order of the last heartbeat.
        self._heartbeat_numbers: dict[str, dict[str, int]] = {}
        self._heartbeat_count = 0
        self._change_count = 0
        self._push_workspace_ids: set[str] = set()
        # When a heartbeat last reported another task.
        self._task_changed_at: dict[str, int] = {}

    def load(
        self, orgs: Iterable[Org], workspaces: Iterable[Workspace], heartbeats: Iterable[tuple[str, Heartbeat]]
    ) -> None:
        """Load the store's content. Workspaces must be sorted oldest first."""
        for org in orgs:
            self.put_org(org)
        self.put_workspaces(workspaces)
        self._heartbeats.update(heartbeats)

    def put_org(self, org: Org) -> None:
        """Add or replace an organisation."""
        self._orgs[org.id] = org

    def put_workspace(self, workspace: Workspace) -> None:
        """Add or replace a workspace."""
        self._change_count += 1
        if workspace.uses_push and not workspace.removed:
            self._push_workspace_ids.add(workspace.id)
        else:
            self._push_workspace_ids.discard(workspace.id)
        old = self._workspaces.get(workspace.id)
        moved = old is not None and _parent_key(old) != _parent_key(workspace)
        if old is not None and moved:
            self._children[_parent_key(old)].pop(workspace.id, None)
        self._update_list_cache(workspace)
        self._workspaces[workspace.id] = workspace
        self._parents[workspace.id] = workspace.parent_id
        level = self._children.setdefault(_parent_key(workspace), {})
        active = self._active.setdefault(workspace.org_id, {})
        for by_id in (level, active):
            if workspace.removed:
                by_id.pop(workspace.id, None)
            else:
                by_id[workspace.id] = workspace
        if moved:  # keeps children oldest first, as after a restart
            self._children[_parent_key(workspace)] = dict(
                sorted(level.items(), key=lambda item: self._positions[item[0]])
            )

    def _update_list_cache(self, workspace: Workspace) -> None:
        list_cache = self._list_caches[workspace.org_id]
        position = self._positions.get(workspace.id)
        if position is None:
            self._positions[workspace.id] = list_cache.add(workspace)
        else:
            list_cache.replace(position, workspace)

    def put_workspaces(self, workspaces: Iterable[Workspace]) -> None:
        """Add or replace several workspaces."""
        for workspace in workspaces:
            self.put_workspace(workspace)

    def merge_workspaces(self, workspaces: Iterable[Workspace]) -> None:
        """Add or replace workspaces that another process changed, unless the known revision is as new."""
        for workspace in workspaces:
            known = self._workspaces.get(workspace.id)
            if known is None or known.rev < workspace.rev:
                self.put_workspace(workspace)

    def org(self, org_id: str) -> Org:
        """Return an organisation. Raises KeyError."""
        return self._orgs[org_id]

    def find_org(self, org_id: str) -> Org | None:
        """Return an organisation, or None."""
        return self._orgs.get(org_id)

    def orgs(self) -> list[Org]:
        """Return all organisations, oldest first."""
        return list(self._orgs.values())

    def workspace(self, workspace_id: str) -> Workspace | None:
        """Return a workspace by its id, removed ones included, or None."""
        return self._workspaces.get(workspace_id)

    def parents(self) -> Mapping[str, str | None]:
        """Return the parent id of each workspace, removed ones included."""
        return self._parents

    def active_workspace(self, workspace_id: str) -> Workspace:
        """Return a workspace that is not removed. Raises NotFound, WorkspaceRemoved."""
        workspace = self._workspaces.get(workspace_id)
        if workspace is None:
            raise NotFound(what="workspace")
        if workspace.removed_at is not None:
            raise WorkspaceRemoved(id=workspace.id, removed_at=to_rfc3339(workspace.removed_at))
        return workspace

    def workspaces(self, org_id: str | None = None) -> Collection[Workspace]:
        """Return the active workspaces of one organisation, or of all, oldest first."""
        if org_id is not None:
            return self._active.get(org_id, {}).values()
        return [workspace for active in self._active.values() for workspace in active.values()]

    def all_with_removed(self, org_id: str) -> Iterator[Workspace]:
        """Return the workspaces of an organisation, removed ones included, oldest first."""
        return iter(self._list_with_removed(org_id))

    def _list_with_removed(self, org_id: str) -> list[Workspace]:
        list_cache = self._list_caches.get(org_id)
        return [] if list_cache is None else list_cache.workspaces

    def workspace_page(self, org_id: str, after: str | None, count: int) -> list[Workspace]:
        """Return up to `count` active workspaces after one of them, oldest first.

        Raises LookupError if the organisation never had the workspace `after`."""
        with_removed = self._list_with_removed(org_id)
        first = 0
        if after is not None:
            if after not in self._positions or self._workspaces[after].org_id != org_id:
                raise LookupError(after)
            first = self._positions[after] + 1
        later = (with_removed[position] for position in range(first, len(with_removed)))
        return list(islice((workspace for workspace in later if not workspace.removed), count))

    def encoded_page(self, org_id: str, after: str | None, count: int, encode: WorkspaceEncoder) -> bytes:
        """Return a page as a JSON list, using cached JSON where it is still valid. Raises LookupError."""
        found = self.workspace_page(org_id, after, count)
        if not found:
            return b"[]"
        return _json_list(
            self._list_caches[org_id].encoded_segments(
                self._positions[found[0].id], self._positions[found[-1].id], encode
            )
        )

    def encoded_list(self, org_id: str | None, encode: WorkspaceEncoder) -> bytes:
        """Return all active workspaces of one organisation, or of all, as a JSON list."""
        list_caches = [list_cache for id_, list_cache in self._list_caches.items() if org_id in (None, id_)]
        return _json_list(
            text
            for list_cache in list_caches
            for text in list_cache.encoded_segments(0, len(list_cache.workspaces) - 1, encode)
        )

    def children(self, workspace: Workspace) -> list[Workspace]:
        """Return the active children of a workspace, oldest first."""
        return list(self._children.get(workspace.id, {}).values())

    def roots(self, org_id: str) -> list[Workspace]:
        """Return the active root workspaces of an organisation, oldest first."""
        return list(self._children.get(org_id, {}).values())

    def last_heartbeat(self, workspace_id: str) -> Heartbeat:
        """Return the last heartbeat of a workspace's agent."""
        return self._heartbeats.get(workspace_id, NO_HEARTBEAT)

    def record_heartbeat(self, workspace_id: str, heartbeat: Heartbeat) -> bool:
        """Record a heartbeat, to be saved with the next sweep. Return whether the agent's task changed."""
        self._unsaved.add(workspace_id)
        self._remote_heartbeats.discard(workspace_id)
        return self._store_heartbeat(workspace_id, heartbeat)

    def merge_heartbeat(self, workspace_id: str, heartbeat: Heartbeat) -> None:
        """Record a heartbeat that another process received and saved."""
        if workspace_id in self._workspaces and heartbeat.heard_at > self.last_heartbeat(workspace_id).heard_at:
            self._remote_heartbeats.add(workspace_id)
            self._store_heartbeat(workspace_id, heartbeat)

    def has_remote_heartbeat(self, workspace_id: str) -> bool:
        """Return whether another process received the last heartbeat, so that a later one may not be saved yet."""
        return workspace_id in self._remote_heartbeats

    def _store_heartbeat(self, workspace_id: str, heartbeat: Heartbeat) -> bool:
        before = self.last_heartbeat(workspace_id)
        task_changed = (before.current_task, before.active_tasks) != (heartbeat.current_task, heartbeat.active_tasks)
        if task_changed:
            self._task_changed_at[workspace_id] = heartbeat.heard_at
        self._heartbeats[workspace_id] = heartbeat
        self._heartbeat_count += 1
        org_id = self._workspaces[workspace_id].org_id
        self._list_caches[org_id].invalidate(self._positions[workspace_id])
        numbers = self._heartbeat_numbers.setdefault(org_id, {})
        numbers.pop(workspace_id, None)
        numbers[workspace_id] = self._heartbeat_count
        return task_changed

    def tasks_changed_since(self, org_id: str, at: int) -> list[Workspace]:
        """Return the workspaces of an organisation whose task changed at or after a time (microseconds)."""
        found = []
        for workspace_id in reversed(self._heartbeat_numbers.get(org_id, {})):
            if self._heartbeats[workspace_id].heard_at < at:
                break
            if self._task_changed_at.get(workspace_id, 0) >= at:
                found.append(self._workspaces[workspace_id])
        return found

    def change_count(self) -> int:
        """Return a counter that changes with every new or changed workspace."""
        return self._change_count

    def push_workspace_ids(self) -> Set[str]:
        """Return the ids of the active workspaces in push mode."""
        return self._push_workspace_ids

    def last_heartbeat_number(self) -> int:
        """Return the number of the last heartbeat."""
        return self._heartbeat_count

    def workspaces_after_heartbeat(self, org_id: str, heartbeat_number: int) -> list[Workspace]:
        """Return the workspaces of an organisation that sent a heartbeat after the given number, latest first."""
        found = []
        for workspace_id in reversed(self._heartbeat_numbers.get(org_id, {})):
            if self._heartbeat_numbers[org_id][workspace_id] <= heartbeat_number:
                break
            found.append(self._workspaces[workspace_id])
        return found

    def take_unsaved_heartbeats(self) -> list[tuple[str, Heartbeat]]:
        """Return the heartbeats recorded since the last call."""
        unsaved, self._unsaved = self._unsaved, set()
        return [(workspace_id, self._heartbeats[workspace_id]) for workspace_id in unsaved]

    def mark_unsaved(self, workspace_ids: Iterable[str]) -> None:
        """Mark heartbeats that could not be saved as unsaved, for the next attempt."""
        self._unsaved.update(workspace_ids)


def _parent_key(workspace: Workspace) -> str:
    return workspace.parent_id or workspace.org_id


def _json_list(texts: Iterable[bytes]) -> bytes:
    """Join rows that end with a comma to a JSON list.

    The result can have tens of megabytes, so it is copied only once."""
    rows = [text for text in texts if text]
    if rows:
        rows[-1] = rows[-1][:-1]
    return b"".join((b"[", *rows, b"]"))
