"""Moves, expands, collapses and removes parts of the tree. A part of `OrgWriter`."""

from collections.abc import Callable
from typing import NamedTuple

from molecule_core.access.writer import AccessWriter
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import ConfirmationRequired, InvalidField, InvalidParent
from molecule_core.common.ids import IdGenerator
from molecule_core.org import rules
from molecule_core.org.model import TeamSpec, Workspace, WorkspacesMoved, WorkspacesRemoved, WorkspaceStatus
from molecule_core.org.workspace_changes import (
    WorkspaceChanges,
    build_workspace,
    insert_statement,
    update_statement,
    workspace_event,
)
from molecule_core.store.database import Command, CommandSteps, JournalEvent, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.events import (
    CollapsedWorkspace,
    ExpandedWorkspace,
    WorkspaceCollapsedPayload,
    WorkspaceExpandedPayload,
    WorkspaceMovedPayload,
    WorkspaceRemovedPayload,
)


class CreatedWorkspace(NamedTuple):
    """A created workspace and its token, which is shown only here."""

    workspace: Workspace
    token: str


class TreeWriter:
    """Creates, moves and removes subtrees, each in one transaction."""

    def __init__(self, changes: WorkspaceChanges, access: AccessWriter, ids: IdGenerator) -> None:
        self._changes = changes
        self._registry = changes.registry
        self._access = access
        self._ids = ids

    # -- move ----------------------------------------------------------------------------------------------------------

    def prepare_move(
        self, old: Workspace, parent_id: str | None, name: str
    ) -> tuple[Workspace, JournalEvent, WorkspacesMoved]:
        """Return the revision, event and domain event that move a workspace and its descendants below a parent.

        `parent_id` None moves it to the top. Raises InvalidParent."""
        level = self._registry.roots(old.org_id)
        if parent_id is not None:
            parent = self._changes.valid_parent(old.org_id, parent_id)
            if reason := rules.move_error(self._registry, old, parent, self._changes.limits.tree_depth):
                raise InvalidParent(reason=reason)
            level = self._registry.children(parent)
        new = self._changes.next_revision(old, parent_id=parent_id, name=self._changes.unused_name(name, level, old.id))
        emitted = WorkspaceMovedPayload(parent_id, old.parent_id, new.name if new.name != old.name else None)
        ids = tuple(each.id for each in rules.subtree(self._registry, old))
        return new, workspace_event("WORKSPACE_MOVED", new, emitted), WorkspacesMoved(ids, self._changes.clock.now())

    # -- expand --------------------------------------------------------------------------------------------------------

    async def expand(self, workspace_id: str, team: tuple[TeamSpec, ...]) -> list[CreatedWorkspace]:
        """Create a team below a workspace, all or nothing; parents come before children in the result.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        clean = self._clean_team(team)
        level_by_level = _team_levels(clean)
        levels, count = len(level_by_level), sum(map(len, level_by_level))
        if not 1 <= count <= self._changes.limits.expand_most:
            raise InvalidField(reason=f"a team has 1 to {self._changes.limits.expand_most} members, this one {count}")
        keys = [each.workspace.key for level in level_by_level for each in level if each.workspace.key is not None]
        if len(keys) != len(set(keys)):
            raise InvalidField(reason="two members of the team have the same key; choose another for one of them")

        def decide() -> CommandSteps[list[CreatedWorkspace]]:
            yield from ()
            parent = self._registry.active_workspace(workspace_id)
            if rules.depth(self._registry, parent) + levels > self._changes.limits.tree_depth:
                raise InvalidParent(reason=rules.depth_error(self._changes.limits.tree_depth))
            for key in keys:
                self._changes.check_key_unused(parent.org_id, key)
            writes: list[tuple[str, Params]] = []
            created = self._create_members(parent, clean, self._registry.children(parent), writes)
            members = [ExpandedWorkspace(each.id, each.name, each.role) for each, _ in created]
            emitted = [self._changes.workspace_view_event("WORKSPACE_PROVISIONING", each) for each, _ in created]
            return WriteSet(
                created,
                writes,
                [*emitted, workspace_event("WORKSPACE_EXPANDED", parent, WorkspaceExpandedPayload(members))],
                notify=(org_key(parent.org_id),),
                after_commit=lambda: self._registry.put_workspaces(each for each, _ in created),
            )

        return await self._changes.store.run(self._changes.tree_command(workspace_id, decide))

    def _clean_team(self, team: tuple[TeamSpec, ...]) -> tuple[TeamSpec, ...]:
        return tuple(
            TeamSpec(self._changes.clean_workspace(each.workspace), self._clean_team(each.children)) for each in team
        )

    def _create_members(
        self, parent: Workspace, team: tuple[TeamSpec, ...], siblings: list[Workspace], writes: list[tuple[str, Params]]
    ) -> list[CreatedWorkspace]:
        """Create the workspaces of a team below `parent`. `siblings`: the children that `parent` has already."""
        created: list[CreatedWorkspace] = []
        level = list(siblings)
        for each in team:
            name = self._changes.unused_name(each.workspace.name, level)
            id_, now = self._ids.new(), self._changes.clock.now()
            workspace = build_workspace(each.workspace, parent.org_id, id_, name, now, parent.id)
            level.append(workspace)
            token, token_writes = self._access.prepare_workspace_token(parent.org_id, workspace.id)
            writes += [insert_statement(workspace), *token_writes]
            created += [CreatedWorkspace(workspace, token), *self._create_members(workspace, each.children, [], writes)]
        return created

    # -- collapse and remove -------------------------------------------------------------------------------------------

    async def collapse(self, workspace_id: str, *, confirmed: bool, typed_name: str | None = None) -> list[Workspace]:
        """Remove all descendants of a workspace and return them.

        Raises ConfirmationRequired, NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[list[Workspace]]:
            yield from ()
            parent = self._registry.active_workspace(workspace_id)
            branch = rules.subtree(self._registry, parent)[1:]
            if not branch:
                return WriteSet([])
            _check_confirmed("collapsing", parent, branch, confirmed=confirmed, typed_name=typed_name)
            emitted = workspace_event(
                "WORKSPACE_COLLAPSED",
                parent,
                WorkspaceCollapsedPayload([CollapsedWorkspace(each.id, each.name) for each in branch]),
            )
            return self._removal_write_set(branch, [emitted])

        return await self._changes.store.run(self._exclusive_command(workspace_id, decide))

    async def remove_workspace(
        self, workspace_id: str, *, confirmed: bool, typed_name: str | None = None
    ) -> list[Workspace]:
        """Remove a workspace and its descendants and return them.

        `typed_name`: the name that a person typed to confirm. Raises ConfirmationRequired, NotFound, WorkspaceRemoved.
        """

        def decide() -> CommandSteps[list[Workspace]]:
            yield from ()
            branch = rules.subtree(self._registry, self._registry.active_workspace(workspace_id))
            _check_confirmed("removing", branch[0], branch[1:], confirmed=confirmed, typed_name=typed_name)
            return self._removal_write_set(branch, [])

        return await self._changes.store.run(self._exclusive_command(workspace_id, decide))

    def _exclusive_command(
        self, workspace_id: str, decide: Callable[[], CommandSteps[list[Workspace]]]
    ) -> Command[list[Workspace]]:
        return Command(self._registry.active_workspace(workspace_id).org_id, (), decide, exclusive=True)

    def _removal_write_set(self, branch: list[Workspace], more_events: list[JournalEvent]) -> WriteSet[list[Workspace]]:
        now = self._changes.clock.now()
        removed = [self._changes.next_revision(each, status=WorkspaceStatus.REMOVED, removed_at=now) for each in branch]
        emitted = [
            workspace_event("WORKSPACE_REMOVED", each, WorkspaceRemovedPayload(to_rfc3339(now)))
            for each in reversed(removed)
        ]
        return WriteSet(
            removed,
            [update_statement(each) for each in removed],
            [*emitted, *more_events],
            notify=(org_key(removed[0].org_id), *(log_key(each.id) for each in removed)),
            after_commit=lambda: self._registry.put_workspaces(removed),
            domain_events=[WorkspacesRemoved(tuple(each.id for each in removed), now)],
        )


def _team_levels(team: tuple[TeamSpec, ...]) -> list[tuple[TeamSpec, ...]]:
    """Return the members of a team, level by level."""
    found, level = [], team
    while level:
        found.append(level)
        level = tuple(below for each in level for below in each.children)
    return found


def _check_confirmed(
    verb: str, workspace: Workspace, descendants: list[Workspace], *, confirmed: bool, typed_name: str | None
) -> None:
    """Raise ConfirmationRequired with the affected workspaces, unless confirmed.

    A typed name must be the current name of the workspace."""
    if confirmed and typed_name in (None, workspace.name):
        return
    children = [{"id": each.id, "name": each.name} for each in descendants]
    raise ConfirmationRequired(verb=verb, name=workspace.name, children=children, children_count=len(children))
