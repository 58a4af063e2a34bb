"""Writes organisations and workspaces. No other module changes their tables."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from molecule_core.access.writer import AccessWriter
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import (
    InvalidField,
    InvalidParent,
    OrgExists,
    ServerBusy,
    StatusConflict,
    StoreUnavailable,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import unique_name, validate_line, validate_name
from molecule_core.org import rules
from molecule_core.org.model import (
    AgentSignal,
    DeliveryMode,
    Heartbeat,
    LifecycleAction,
    NewWorkspace,
    Org,
    TeamSpec,
    Workspace,
    WorkspacesMoved,
    WorkspacesRemoved,
    WorkspaceStatus,
)
from molecule_core.org.reader import workspace_view
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.transitions import (
    build_workspace,
    insert_statement,
    status_event,
    update_statement,
    workspace_event,
)
from molecule_core.store.database import Command, CommandSteps, JournalEvent, ReadQuery, Statement, Store, T, WriteSet
from molecule_core.store.journal import PUSHES_KEY, heartbeat_key, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.events import (
    AgentOnlinePayload,
    CardUpdatedPayload,
    CollapsedWorkspace,
    ExpandedWorkspace,
    OrgUpdatedPayload,
    WorkspaceCollapsedPayload,
    WorkspaceExpandedPayload,
    WorkspaceMovedPayload,
    WorkspaceRemovedPayload,
)

SWEEP = "liveness"
"""Kind of the timer that looks for silent agents."""
HEARTBEATS = "pulses"
"""Wake-up key for heartbeats that other processes should see soon."""
_log = logging.getLogger("molecule.org")


class CreatedWorkspace(NamedTuple):
    """A created workspace with its token and, if it is pushed to, the secret that signs. They are shown only here."""

    workspace: Workspace
    token: str
    push_secret: str | None = None


class OrgWriter:
    """Creates, changes and removes workspaces, and handles heartbeats."""

    def __init__(
        self,
        store: Store,
        registry: OrgRegistry,
        access: AccessWriter,
        notify: Callable[[Iterable[str]], None],
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._registry = registry
        self._access = access
        self._notify = notify
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._started_at = clock.now()
        self._marking_silent: set[str] = set()
        self._created_at = 0
        self._reported_at: dict[str, int] = {}
        """When a runtime last reported the state of an agent here. Presence reports no state."""

    # -- organisations -------------------------------------------------------------------------------------------------

    async def create_org(self, name: str, *, allow_skip_level: bool = False) -> Org:
        """Create an organisation. Raises InvalidName, OrgExists."""
        name = validate_name(name, self._limits.name_length)

        def decide() -> CommandSteps[Org]:
            yield from ()
            self._check_org_name(name)
            return self._insert_org(name, allow_skip_level=allow_skip_level)

        return await self._store.run(Command("", (("orgs",),), decide))

    async def get_or_create_org(self, name: str) -> Org:
        """Return the first organisation; create one if there is none. Safe if several processes start at once."""
        name = validate_name(name, self._limits.name_length)

        def decide() -> CommandSteps[Org]:
            yield from ()
            existing = self._registry.orgs()
            return WriteSet(existing[0]) if existing else self._insert_org(name, allow_skip_level=False)

        return await self._store.run(Command("", (("orgs",),), decide))

    def _insert_org(self, name: str, *, allow_skip_level: bool) -> WriteSet[Org]:
        org = Org(self._ids.new(), name, allow_skip_level, self._clock.now())
        row = {**msgspec.structs.asdict(org), "allow_skip_level": int(allow_skip_level)}
        return WriteSet(org, [("insert_org", row)], after_commit=lambda: self._registry.put_org(org))

    def _check_org_name(self, name: str) -> None:
        if any(other.name == name for other in self._registry.orgs()):
            raise OrgExists(name=name)

    async def rename_org(self, org_id: str, name: str) -> Org:
        """Rename an organisation. Raises InvalidName, OrgExists."""
        clean = validate_name(name, self._limits.name_length)

        def decide() -> CommandSteps[Org]:
            yield from ()
            old = self._registry.org(org_id)
            if old.name == clean:
                return WriteSet(old)
            self._check_org_name(clean)
            new = msgspec.structs.replace(old, name=clean)
            event = JournalEvent("ORG_UPDATED", "", "org", org_id, 0, msgspec.json.encode(OrgUpdatedPayload(clean)))
            renamed = WriteSet(new, [("rename_org", {"id": org_id, "name": clean})], [event], (org_key(org_id),))
            return renamed + WriteSet(None, after_commit=lambda: self._registry.put_org(new))

        return await self._store.run(Command(org_id, (("orgs",),), decide))

    # -- workspaces ----------------------------------------------------------------------------------------------------

    async def create_workspace(
        self, org_id: str, new: NewWorkspace, more: Callable[[Workspace], WriteSet[None]] | None = None
    ) -> CreatedWorkspace:
        """Create a workspace and return it with its secrets. A number is appended to a name that a sibling has.

        `more`: what another package writes about it in the same transaction.

        Raises InvalidName, InvalidParent, InvalidField."""
        clean = self._clean_workspace(new)
        workspace_id, now = self._ids.new_random(), self._next_creation_time()
        issued = self._access.new_workspace_token(org_id, workspace_id)
        signing = WriteSet[str | None](None)
        if clean.delivery_mode == DeliveryMode.PUSH:
            secret = self._access.push_secrets.new_secret(org_id, workspace_id)
            signing = secret.returning(secret.result)

        def decide() -> CommandSteps[CreatedWorkspace]:
            yield from ()
            self._check_key_unused(org_id, clean.key)
            name = self._unused_name(clean.name, self._future_siblings(org_id, clean.parent_id))
            workspace = build_workspace(clean, org_id, workspace_id, name, now, clean.parent_id)
            inserted = WriteSet(
                CreatedWorkspace(workspace, issued.result.token, signing.result),
                [insert_statement(workspace)],
                [self._workspace_view_event("WORKSPACE_PROVISIONING", workspace)],
                notify=(org_key(org_id),),
                after_commit=lambda: self._registry.put_workspace(workspace),
            )
            return inserted + issued + signing + (WriteSet(None) if more is None else more(workspace))

        return await self._store.run(Command(org_id, (("tree", org_id),), decide))

    async def update_workspace(
        self, workspace_id: str, fields: dict[str, Any], more: Callable[[Workspace], WriteSet[None]] | None = None
    ) -> Workspace:
        """Update name, role, runtime, tier and other settings; `parent_id` moves the workspace with its descendants.

        `more`: what another package writes about it in the same transaction.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        fields = self._clean_fields(fields)

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old = self._registry.active_workspace(workspace_id)
            updates, moved = dict(fields), WriteSet(old)
            self._check_key_unused(old.org_id, fields.get("key"), old.id)
            if updates.pop("parent_id", old.parent_id) != old.parent_id:
                moved = self._prepare_move(old, fields["parent_id"], updates.pop("name", old.name))
            elif updates.get("name", old.name) != old.name:
                level = self._future_siblings(old.org_id, old.parent_id)
                updates["name"] = self._unused_name(updates["name"], level, old.id)
            if updates.get("a2a_card_url") is not None:
                updates["delivery_mode"], updates["url"] = DeliveryMode.PUSH, updates["a2a_card_url"]
            elif "delivery_mode" in updates or "url" in updates or "a2a_card_url" in updates:
                updates["a2a_card_url"] = None
                requested = rules.requested_delivery(old, updates.get("delivery_mode"), updates.get("url"))
                updates["delivery_mode"], updates["url"] = rules.resolve_delivery(
                    *requested, (old.delivery_mode, old.url)
                )
            new, events = moved.result, [*moved.events]
            if updates or not events:
                new = self._next_revision(new, **updates)
                events.append(self._workspace_view_event("WORKSPACE_UPDATED", new))  # control: workspace-event
            written = self._update_write_set(new, events) + WriteSet(None, domain_events=moved.domain_events)
            return written + (WriteSet(None) if more is None else more(new))

        return await self._store.run(self._tree_command(workspace_id, decide))

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        clean = dict(fields)
        if "name" in clean:
            clean["name"] = validate_name(clean["name"], self._limits.name_length)
        for each in ("role", "runtime"):
            if clean.get(each) is not None:
                clean[each] = validate_line(clean[each], self._limits.short_text_length, each)
        if "key" in clean:
            clean["key"] = self._clean_key(clean["key"])
        return clean

    async def apply_lifecycle_action(self, workspace_id: str, action: LifecycleAction) -> Workspace:
        """Pause, resume or hibernate a workspace. Does nothing if it has that status already.

        Raises StatusConflict, NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old = self._registry.active_workspace(workspace_id)
            heartbeat = self._registry.last_heartbeat(workspace_id)
            status = rules.LIFECYCLE_TRANSITIONS[old.status, action]
            if status is None:
                raise StatusConflict(
                    name=old.name, status=old.status.value, reason=rules.lifecycle_error(old.status, action)
                )
            if status is old.status:
                return WriteSet(old)
            if action is LifecycleAction.RESUME:
                silent = heartbeat.heard_at + self._limits.silence_seconds * SECOND <= self._clock.now()
                status = rules.status_after_resume(old, heartbeat, silent=silent)
            new = self._next_revision(old, status=status)
            return self._update_write_set(new, [status_event(new, old, heartbeat)])

        return await self._store.run(self._workspace_command(workspace_id, decide))

    # -- move ----------------------------------------------------------------------------------------------------------

    def _prepare_move(self, old: Workspace, parent_id: str | None, name: str) -> WriteSet[Workspace]:
        """Return the revision and the events that move a workspace, with its descendants, below a parent.

        `parent_id` None moves it to the top. Raises InvalidParent."""
        level = self._registry.roots(old.org_id)
        if parent_id is not None:
            parent = self._valid_parent(old.org_id, parent_id)
            if reason := rules.move_error(self._registry, old, parent, self._limits.tree_depth):
                raise InvalidParent(reason=reason)
            level = self._registry.children(parent)
        new = self._next_revision(old, parent_id=parent_id, name=self._unused_name(name, level, old.id))
        emitted = WorkspaceMovedPayload(parent_id, old.parent_id, new.name if new.name != old.name else None)
        ids = tuple(each.id for each in rules.subtree(self._registry, old))
        domain_event = WorkspacesMoved(ids, self._clock.now())
        return WriteSet(new, [], [workspace_event("WORKSPACE_MOVED", new, emitted)], domain_events=[domain_event])

    # -- expand --------------------------------------------------------------------------------------------------------

    async def expand(self, workspace_id: str, team: tuple[TeamSpec, ...]) -> list[CreatedWorkspace]:
        """Create a team below a workspace, all or nothing; parents come before children in the result.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        clean = self._clean_team(team)
        level_by_level = rules.team_levels(clean)
        levels, count = len(level_by_level), sum(map(len, level_by_level))
        if not 1 <= count <= self._limits.expand_most:
            raise InvalidField(reason=f"a team cannot have {count} members. Use 1 to {self._limits.expand_most}.")
        keys = [each.workspace.key for level in level_by_level for each in level if each.workspace.key is not None]
        if len(keys) != len(set(keys)):
            raise InvalidField(
                reason="two members of a team cannot have the same key. Choose another key for one of them."
            )

        def decide() -> CommandSteps[list[CreatedWorkspace]]:
            yield from ()
            parent = self._registry.active_workspace(workspace_id)
            if rules.depth(self._registry, parent) + levels > self._limits.tree_depth:
                raise InvalidParent(reason=rules.depth_error(self._limits.tree_depth))
            for key in keys:
                self._check_key_unused(parent.org_id, key)
            created = self._create_members(parent, clean, self._registry.children(parent))
            new = [each.workspace for each in created.result]
            members = [ExpandedWorkspace(each.id, each.name, each.role) for each in new]
            emitted = [self._workspace_view_event("WORKSPACE_PROVISIONING", each) for each in new]
            return created + WriteSet(
                None,
                events=[*emitted, workspace_event("WORKSPACE_EXPANDED", parent, WorkspaceExpandedPayload(members))],
                notify=(org_key(parent.org_id),),
                after_commit=lambda: self._registry.put_workspaces(new),
            )

        return await self._store.run(self._tree_command(workspace_id, decide))

    def _next_creation_time(self) -> int:
        """Return the time of a new workspace, later than the one before: workspaces are listed in this order."""
        self._created_at = max(self._clock.now(), self._created_at + 1)
        return self._created_at

    def _clean_team(self, team: tuple[TeamSpec, ...]) -> tuple[TeamSpec, ...]:
        return tuple(TeamSpec(self._clean_workspace(each.workspace), self._clean_team(each.children)) for each in team)

    def _create_members(
        self, parent: Workspace, team: tuple[TeamSpec, ...], siblings: list[Workspace]
    ) -> WriteSet[list[CreatedWorkspace]]:
        """Create the workspaces of a team below `parent`. `siblings`: the children that `parent` has already."""
        created, level = WriteSet(list[CreatedWorkspace]()), list(siblings)
        for each in team:
            name = self._unused_name(each.workspace.name, level)
            id_, now = self._ids.new_random(), self._next_creation_time()
            workspace = build_workspace(each.workspace, parent.org_id, id_, name, now, parent.id)
            level.append(workspace)
            issued = self._access.new_workspace_token(parent.org_id, workspace.id)
            below = self._create_members(workspace, each.children, [])
            members = [*created.result, CreatedWorkspace(workspace, issued.result.token), *below.result]
            created = created.returning(members) + WriteSet(None, [insert_statement(workspace)]) + issued + below
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
            rules.check_confirmed("collapsing", parent, branch, confirmed=confirmed, typed_name=typed_name)
            emitted = workspace_event(
                "WORKSPACE_COLLAPSED",
                parent,
                WorkspaceCollapsedPayload([CollapsedWorkspace(each.id, each.name) for each in branch]),
            )
            return self._removal_write_set(branch, [emitted])

        return await self._store.run(self._exclusive_command(workspace_id, decide))

    async def remove_workspace(
        self, workspace_id: str, *, confirmed: bool, typed_name: str | None = None
    ) -> list[Workspace]:
        """Remove a workspace and its descendants and return them.

        `typed_name`: the name that a person typed to confirm. Raises ConfirmationRequired, NotFound, WorkspaceRemoved.
        """

        def decide() -> CommandSteps[list[Workspace]]:
            yield from ()
            branch = rules.subtree(self._registry, self._registry.active_workspace(workspace_id))
            rules.check_confirmed("removing", branch[0], branch[1:], confirmed=confirmed, typed_name=typed_name)
            return self._removal_write_set(branch, [])

        return await self._store.run(self._exclusive_command(workspace_id, decide))

    def _exclusive_command(
        self, workspace_id: str, decide: Callable[[], CommandSteps[list[Workspace]]]
    ) -> Command[list[Workspace]]:
        return Command(self._registry.active_workspace(workspace_id).org_id, (), decide, exclusive=True)

    def _removal_write_set(self, branch: list[Workspace], more_events: list[JournalEvent]) -> WriteSet[list[Workspace]]:
        now = self._clock.now()
        removed = [self._next_revision(each, status=WorkspaceStatus.REMOVED, removed_at=now) for each in branch]
        emitted = [
            workspace_event("WORKSPACE_REMOVED", each, WorkspaceRemovedPayload(to_rfc3339(now)))
            for each in reversed(removed)
        ]
        removal = WriteSet(
            removed,
            [update_statement(each) for each in removed],
            [*emitted, *more_events],
            notify=(org_key(removed[0].org_id), *(log_key(each.id) for each in removed)),
            after_commit=lambda: self._registry.put_workspaces(removed),
            domain_events=[WorkspacesRemoved(tuple(each.id for each in removed), now)],
        )
        for each in removed:
            removal = removal + self._access.push_secrets.forget(each.id)
            removal = removal + self._access.oauth.end_grants_of_workspace(each.id)
        return removal

    # -- agents --------------------------------------------------------------------------------------------------------

    async def register_agent(
        self,
        workspace_id: str,
        card: Any,
        mode: str | None = None,
        url: str | None = None,
        *,
        card_locked: bool = False,
    ) -> Workspace:
        """Register an agent with its delivery mode and what its card says now; other members of the card stay.

        `card_locked`: the agent may not change its card.

        Raises InvalidField, UrlRequired, NotFound, WorkspaceRemoved."""
        # Taken before the commit: a heartbeat later than the event of the registration would look like a further one.
        heard_at = self._clock.now()

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old = self._registry.active_workspace(workspace_id)
            merge = rules.locked_card if card_locked else rules.merged_card
            text = self._encode_card(old, merge(old.agent_card, card))
            status = rules.status_after_register(old)
            same_card = rules.is_same_json(old.agent_card, text)
            delivery = stored = (old.delivery_mode, old.url)
            if old.a2a_card_url is None:  # else the server calls its agent, and no agent of ours registers
                delivery = rules.resolve_delivery(mode, url, stored)
            moved = delivery != (old.delivery_mode, old.url)
            if same_card and status is old.status and not moved:
                return WriteSet(old)
            new = self._next_revision(old, agent_card=text, status=status, delivery_mode=delivery[0], url=delivery[1])
            events = []
            if moved:
                events.append(self._workspace_view_event("WORKSPACE_UPDATED", new))
            if status is not old.status:
                known = msgspec.Raw(text.encode())
                events.append(
                    workspace_event(
                        "WORKSPACE_ONLINE", new, AgentOnlinePayload(new.delivery_mode, old.status.value, known)
                    )
                )
            if not same_card:
                events.append(
                    workspace_event("AGENT_CARD_UPDATED", new, CardUpdatedPayload(msgspec.Raw(text.encode())))
                )
            return self._update_write_set(new, events)

        workspace = await self._store.run(self._workspace_command(workspace_id, decide))
        last = self._registry.last_heartbeat(workspace_id)
        self._reported_at[workspace_id] = heard_at
        self._record_heartbeat(workspace_id, msgspec.structs.replace(last, heard_at=max(last.heard_at, heard_at)))
        return workspace

    async def update_card(self, workspace_id: str, card: Any) -> None:
        """Replace the agent card. Raises InvalidField, NotFound, WorkspaceRemoved."""
        await self._revise_card(workspace_id, lambda _old: card)

    async def merge_card(self, workspace_id: str, card: Any, *, card_locked: bool = False) -> None:
        """Update the members of the card that the agent names; others stay. Raises the errors of `update_card`."""
        merge = rules.locked_card if card_locked else rules.merged_card
        await self._revise_card(workspace_id, lambda old: merge(old, card))

    async def update_tools(self, workspace_id: str, listed: list[Any]) -> None:
        """Update the tools in the agent card. Raises the errors of `update_card`."""
        await self._revise_card(workspace_id, lambda old: rules.card_with_tools(old, listed))

    async def _revise_card(self, workspace_id: str, revise: Callable[[str | None], Any]) -> None:
        """Update the card.

        `revise` gets the card at the time of the write, since other writers may change it meanwhile."""

        def decide() -> CommandSteps[None]:
            yield from ()
            old = self._registry.active_workspace(workspace_id)
            text = self._encode_card(old, revise(old.agent_card))
            if rules.is_same_json(old.agent_card, text):
                return WriteSet(None)
            new = self._next_revision(old, agent_card=text)
            event = workspace_event("AGENT_CARD_UPDATED", new, CardUpdatedPayload(msgspec.Raw(text.encode())))
            return self._update_write_set(new, [event]).returning(None)

        await self._store.run(self._workspace_command(workspace_id, decide))

    async def handle_heartbeat(self, workspace_id: str, heartbeat: Heartbeat, *, runtime_state: str | None) -> None:
        """Record a heartbeat; write only if the status changes. Raises NotFound, WorkspaceRemoved."""
        self._registry.active_workspace(workspace_id)
        self._reported_at[workspace_id] = heartbeat.heard_at
        await self._apply_heartbeat(
            workspace_id, heartbeat, rules.classify_heartbeat(heartbeat, wedged=runtime_state == "wedged")
        )

    async def record_presence(self, workspace_id: str, tools: list[Any] | None = None) -> None:
        """Record that an agent uses its workspace. What a runtime of the workspace reports stays.

        `tools`: those that the agent has loaded. Written only if the status or the tools change. Raises NotFound,
        WorkspaceRemoved."""
        workspace, now = self._registry.active_workspace(workspace_id), self._clock.now()
        last, silence = self._registry.last_heartbeat(workspace_id), self._limits.silence_seconds * SECOND
        # After a start, what an earlier process stored counts as reported.
        reported_at = self._reported_at.setdefault(workspace_id, min(last.heard_at, self._started_at))
        if self._registry.has_remote_heartbeat(workspace_id):
            reported_at = max(reported_at, last.heard_at)
        is_reporting = reported_at + silence > now
        # A heartbeat that is recent enough needs no further one: presence is frequent.
        is_due = last.heard_at + silence // rules.PRESENCES_PER_SILENCE <= now
        if is_due or rules.next_status(workspace, AgentSignal.FAIR) is not workspace.status:
            heartbeat = msgspec.structs.replace(last, heard_at=now) if is_reporting else Heartbeat(heard_at=now)
            await self._apply_heartbeat(workspace_id, heartbeat, AgentSignal.FAIR)
        if tools is not None and not (is_reporting and rules.lists_tools(workspace.agent_card)):
            await self.update_tools(workspace_id, tools)

    async def _apply_heartbeat(self, workspace_id: str, heartbeat: Heartbeat, signal: AgentSignal) -> None:
        workspace = self._registry.active_workspace(workspace_id)
        self._record_heartbeat(workspace_id, heartbeat)
        # A sweep may have decided before this heartbeat, so that its commit changes the status after this line.
        is_doubtful = workspace_id in self._marking_silent
        if is_doubtful or rules.next_status(workspace, signal) is not workspace.status:
            await self._store.run(
                self._workspace_command(workspace_id, partial(self._decide_status, workspace_id, signal, heartbeat))
            )

    def _decide_status(self, workspace_id: str, signal: AgentSignal, heartbeat: Heartbeat) -> CommandSteps[None]:
        yield from ()
        old = self._registry.active_workspace(workspace_id)
        status = rules.next_status(old, signal)
        if status is old.status:
            return WriteSet(None)
        new = self._next_revision(old, status=status)
        return self._update_write_set(new, [status_event(new, old, heartbeat)]).returning(None)

    async def sweep_silent_agents(self, _key: str) -> None:
        """Mark silent agents, save the heartbeats and schedule the next sweep.

        After a start, every agent has the full silence time again."""
        now = self._clock.now()
        listening = (WorkspaceStatus.ONLINE, WorkspaceStatus.DEGRADED)
        silent_ids = [
            workspace.id
            for workspace in self._registry.workspaces()
            if workspace.status in listening and self._is_silent(workspace.id, now)
        ]
        commands = [self._workspace_command(each, partial(self._decide_silent, each)) for each in silent_ids]
        self._marking_silent.update(silent_ids)
        try:
            await asyncio.gather(*(self._store.run(command) for command in commands))
        finally:
            self._marking_silent.difference_update(silent_ids)
        if silent_ids:
            seconds = self._limits.silence_seconds
            _log.info("%d agents are offline: no heartbeat for %d s", len(silent_ids), seconds)
        await self._save_heartbeats([set_timer(SWEEP, "", now + self._limits.sweep_seconds * SECOND)])

    async def save_heartbeats(self) -> bool:
        """Save the heartbeats that this process received. Return whether there were any.

        Of several processes each saves its own; one of them sweeps."""
        return await self._save_heartbeats([])

    async def _save_heartbeats(self, extra_writes: list[Statement]) -> bool:
        heartbeats, saved = self._registry.take_unsaved_heartbeats(), self._ids.new()
        writes: list[Statement] = [
            ("save_heartbeat", {"workspace_id": workspace_id, **msgspec.structs.asdict(heartbeat), "saved": saved})
            for workspace_id, heartbeat in heartbeats
        ]

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, [*writes, *extra_writes], notify=(TIMERS_KEY,) if extra_writes else ())

        if not writes and not extra_writes:
            return False
        try:
            await self._store.run(Command("", (("sweep",),), decide))
        except (StoreUnavailable, ServerBusy):
            self._registry.mark_unsaved(workspace_id for workspace_id, _ in heartbeats)
            raise
        return bool(heartbeats)

    def _is_silent(self, workspace_id: str, now: int) -> bool:
        """Return whether an agent is silent. A last heartbeat at another process may not be saved yet."""
        heard_at = max(self._registry.last_heartbeat(workspace_id).heard_at, self._started_at)
        silence_seconds = self._limits.silence_seconds
        if self._registry.has_remote_heartbeat(workspace_id):
            silence_seconds += self._limits.sweep_seconds
        return heard_at + silence_seconds * SECOND <= now

    def _decide_silent(self, workspace_id: str) -> CommandSteps[None]:
        """Mark an agent as silent, unless a heartbeat arrived here or elsewhere while the command waited."""
        for row in (yield ReadQuery("heartbeat", {"workspace_id": workspace_id})):
            self._registry.merge_heartbeat(row[0], Heartbeat(*row[1:]))
        if not self._is_silent(workspace_id, self._clock.now()):
            return WriteSet(None)
        return (
            yield from self._decide_status(
                workspace_id, AgentSignal.SILENT, self._registry.last_heartbeat(workspace_id)
            )
        )

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _record_heartbeat(self, workspace_id: str, heartbeat: Heartbeat) -> None:
        task_changed = self._registry.record_heartbeat(workspace_id, heartbeat)
        workspace = self._registry.active_workspace(workspace_id)
        push_keys = (PUSHES_KEY,) if workspace.uses_push else ()
        self._notify((heartbeat_key(workspace.org_id), *((HEARTBEATS,) if task_changed else ()), *push_keys))

    def _encode_card(self, workspace: Workspace, card: Any) -> str:
        text = msgspec.json.encode(rules.with_readable_name(card, workspace.name)).decode()
        if len(text.encode()) > self._limits.card_bytes:
            raise InvalidField(
                reason=f"the agent card is larger than the limit of {self._limits.card_bytes} bytes. Shorten it."
            )
        return text

    # -- commands ------------------------------------------------------------------------------------------------------

    def _tree_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        """Return a command that reads or changes positions in the tree. They run one at a time in each organisation."""
        org_id = self._registry.active_workspace(workspace_id).org_id
        return Command(org_id, (("tree", org_id), ("workspace", workspace_id)), decide)

    def _workspace_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        """Return a command on one workspace alone."""
        return Command(self._registry.active_workspace(workspace_id).org_id, (("workspace", workspace_id),), decide)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _future_siblings(self, org_id: str, parent_id: str | None) -> list[Workspace]:
        """Return the siblings that a new workspace would have. Raises InvalidParent."""
        if parent_id is None:
            return self._registry.roots(org_id)
        parent = self._valid_parent(org_id, parent_id)
        if rules.depth(self._registry, parent) + 1 > self._limits.tree_depth:
            raise InvalidParent(reason=rules.depth_error(self._limits.tree_depth))
        return self._registry.children(parent)

    def _valid_parent(self, org_id: str, parent_id: str) -> Workspace:
        """Return an active workspace of an organisation that can be a parent. Raises InvalidParent."""
        parent = self._registry.workspace(parent_id)
        if parent is None or parent.org_id != org_id or parent.removed:
            raise InvalidParent(reason="it was not found in this organisation")
        return parent

    def _unused_name(self, name: str, level: list[Workspace], own_id: str = "") -> str:
        """Return the name, with a number appended if another workspace of the level has it."""
        return unique_name(name, {each.name for each in level if each.id != own_id}, self._limits.name_length)

    def _clean_workspace(self, new: NewWorkspace) -> NewWorkspace:
        """Validate and normalise a new workspace. Raises InvalidName, InvalidField, UrlRequired."""
        short = self._limits.short_text_length
        requested = (new.delivery_mode, new.url) if new.a2a_card_url is None else (DeliveryMode.PUSH, new.a2a_card_url)
        mode, url = rules.resolve_delivery(*requested, (DeliveryMode.POLL, None))
        return msgspec.structs.replace(
            new,
            name=validate_name(new.name, self._limits.name_length),
            role=None if new.role is None else validate_line(new.role, short, "role"),
            runtime=validate_line(new.runtime, short, "runtime") or "generic-mcp",
            key=self._clean_key(new.key),
            delivery_mode=mode,
            url=url,
        )

    def _clean_key(self, key: str | None) -> str | None:
        """Validate the key of a workspace in an org file. Raises InvalidField."""
        return None if key is None else validate_line(key, self._limits.name_length, "key") or None

    def _check_key_unused(self, org_id: str, key: str | None, own_id: str = "") -> None:
        """Raise InvalidField if an active workspace has the key: an org file could not distinguish the two."""
        for each in self._registry.workspaces(org_id) if key is not None else ():
            if each.key == key and each.id != own_id:
                raise InvalidField(
                    reason=f"the workspace {each.name!r} already has the key {key!r}. Choose another key."
                )

    # -- writes --------------------------------------------------------------------------------------------------------

    def _next_revision(self, old: Workspace, **fields: Any) -> Workspace:
        """Return the next revision of a workspace."""
        return msgspec.structs.replace(old, rev=old.rev + 1, updated_at=self._clock.now(), **fields)

    def _update_write_set(self, new: Workspace, events: Sequence[JournalEvent]) -> WriteSet[Workspace]:
        """Return the write set for the change of one workspace."""
        return WriteSet(
            new,
            [update_statement(new)],
            events,
            notify=(org_key(new.org_id), log_key(new.id), PUSHES_KEY),
            after_commit=lambda: self._registry.put_workspace(new),
        )

    def _workspace_view_event(self, name: str, workspace: Workspace) -> JournalEvent:
        """Return an event with the full view of a workspace."""
        return workspace_event(name, workspace, workspace_view(workspace, self._registry.last_heartbeat(workspace.id)))
