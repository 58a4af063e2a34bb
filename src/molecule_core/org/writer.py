"""Writes organisations and workspaces. No other module changes their tables."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from molecule_core.access.writer import AccessWriter
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import InvalidField, OrgExists, ServerBusy, StatusConflict, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_line, validate_name
from molecule_core.org import rules
from molecule_core.org.model import (
    PUSH,
    AgentSignal,
    Heartbeat,
    LifecycleAction,
    NewWorkspace,
    Org,
    Workspace,
    WorkspaceStatus,
)
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.tree_writer import TreeWriter
from molecule_core.org.workspace_changes import (
    WorkspaceChanges,
    build_workspace,
    insert_statement,
    status_event,
    workspace_event,
)
from molecule_core.store.database import Command, CommandSteps, JournalEvent, ReadQuery, Store, WriteSet
from molecule_core.store.journal import PUSHES_KEY, heartbeat_key, org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.events import AgentOnlinePayload, CardUpdatedPayload

SWEEP = "liveness"
"""Kind of the timer that looks for silent agents."""
HEARTBEATS = "pulses"
"""Wake-up key for heartbeats that other processes should see soon."""


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
        self._changes = WorkspaceChanges(store, registry, clock=clock, limits=limits)
        self._tree = TreeWriter(self._changes, access, ids)
        self.expand = self._tree.expand
        self.collapse = self._tree.collapse
        self.remove_workspace = self._tree.remove_workspace

    # -- organisations -------------------------------------------------------------------------------------------------

    async def create_org(self, name: str, *, allow_skip_level: bool = False) -> Org:
        """Create an organisation. Raises InvalidName, OrgExists."""
        org = Org(self._ids.new(), validate_name(name, self._limits.name_length), allow_skip_level, self._clock.now())

        def decide() -> CommandSteps[Org]:
            yield from ()
            if any(other.name == org.name for other in self._registry.orgs()):
                raise OrgExists(name=org.name)
            row = {**msgspec.structs.asdict(org), "allow_skip_level": int(allow_skip_level)}
            return WriteSet(org, [("insert_org", row)], after_commit=lambda: self._registry.put_org(org))

        return await self._store.run(Command("", (("orgs",),), decide))

    async def get_or_create_org(self, name: str) -> Org:
        """Return the first organisation; create one if there is none. Safe if several processes start at once."""
        org = Org(self._ids.new(), validate_name(name, self._limits.name_length), False, self._clock.now())

        def decide() -> CommandSteps[Org]:
            yield from ()
            if existing := self._registry.orgs():
                return WriteSet(existing[0])
            row = {**msgspec.structs.asdict(org), "allow_skip_level": 0}
            return WriteSet(org, [("insert_org", row)], after_commit=lambda: self._registry.put_org(org))

        return await self._store.run(Command("", (("orgs",),), decide))

    # -- workspaces ----------------------------------------------------------------------------------------------------

    async def create_workspace(self, org_id: str, new: NewWorkspace) -> tuple[Workspace, str]:
        """Create a workspace and return it with its token. A number is appended to a name that a sibling has.

        Raises InvalidName, InvalidParent, InvalidField."""
        clean = self._changes.clean_workspace(new)
        workspace_id, now = self._ids.new(), self._clock.now()
        token, token_writes = self._access.prepare_workspace_token(org_id, workspace_id)

        def decide() -> CommandSteps[tuple[Workspace, str]]:
            yield from ()
            self._changes.check_key_unused(org_id, clean.key)
            name = self._changes.unused_name(clean.name, self._changes.future_siblings(org_id, clean.parent_id))
            workspace = build_workspace(clean, org_id, workspace_id, name, now, clean.parent_id)
            return WriteSet(
                (workspace, token),
                [insert_statement(workspace), *token_writes],
                [self._changes.workspace_view_event("WORKSPACE_PROVISIONING", workspace)],
                notify=(org_key(org_id),),
                after_commit=lambda: self._registry.put_workspace(workspace),
            )

        return await self._store.run(Command(org_id, (("tree", org_id),), decide))

    async def update_workspace(self, workspace_id: str, fields: dict[str, Any]) -> Workspace:
        """Update name, role, runtime, tier and other settings; `parent_id` moves the workspace with its descendants.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        fields = self._clean_fields(fields)

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old = new = self._registry.active_workspace(workspace_id)
            updates, events, domain_events = dict(fields), list[JournalEvent](), list[object]()
            self._changes.check_key_unused(old.org_id, fields.get("key"), old.id)
            if updates.pop("parent_id", old.parent_id) != old.parent_id:
                new, move_event, moved = self._tree.prepare_move(
                    old, fields["parent_id"], updates.pop("name", old.name)
                )
                events.append(move_event)
                domain_events.append(moved)
            elif updates.get("name", old.name) != old.name:
                level = self._changes.future_siblings(old.org_id, old.parent_id)
                updates["name"] = self._changes.unused_name(updates["name"], level, old.id)
            if "delivery_mode" in updates or "url" in updates:
                requested = updates.get("delivery_mode"), updates.get("url")
                updates["delivery_mode"], updates["url"] = rules.resolve_delivery(
                    *requested, (old.delivery_mode, old.url)
                )
            if updates or not events:
                new = self._changes.next_revision(new, **updates)
                events.append(self._changes.workspace_view_event("WORKSPACE_UPDATED", new))  # control: workspace-event
            write_set = self._changes.update_write_set(new, events, new)
            write_set.domain_events += domain_events
            return write_set

        return await self._store.run(self._changes.tree_command(workspace_id, decide))

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        clean = dict(fields)
        if "name" in clean:
            clean["name"] = validate_name(clean["name"], self._limits.name_length)
        for each in ("role", "runtime"):
            if clean.get(each) is not None:
                clean[each] = validate_line(clean[each], self._limits.short_text_length, each)
        if "key" in clean:
            clean["key"] = self._changes.clean_key(clean["key"])
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
            new = self._changes.next_revision(old, status=status)
            return self._changes.update_write_set(new, [status_event(new, old, heartbeat)], new)

        return await self._store.run(self._changes.workspace_command(workspace_id, decide))

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
        """Register an agent with its card and delivery mode. `card_locked`: the agent may not change its card.

        Raises InvalidField, UrlRequired, NotFound, WorkspaceRemoved."""
        # Taken before the commit: a heartbeat later than the event of the registration would look like a further one.
        heard_at = self._clock.now()

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old = self._registry.active_workspace(workspace_id)
            text = self._encode_card(old, rules.locked_card(old.agent_card, card) if card_locked else card)
            status = rules.status_after_register(old)
            same_card = rules.is_same_json(old.agent_card, text)
            delivery = rules.resolve_delivery(mode, url, (old.delivery_mode, old.url))
            moved = delivery != (old.delivery_mode, old.url)
            if same_card and status is old.status and not moved:
                return WriteSet(old)
            new = self._changes.next_revision(
                old, agent_card=text, status=status, delivery_mode=delivery[0], url=delivery[1]
            )
            events = []
            if moved:
                events.append(self._changes.workspace_view_event("WORKSPACE_UPDATED", new))
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
            return self._changes.update_write_set(new, events, new)

        workspace = await self._store.run(self._changes.workspace_command(workspace_id, decide))
        last = self._registry.last_heartbeat(workspace_id)
        self._record_heartbeat(workspace_id, msgspec.structs.replace(last, heard_at=max(last.heard_at, heard_at)))
        return workspace

    async def update_card(self, workspace_id: str, card: Any, *, card_locked: bool = False) -> None:
        """Update the agent card. `card_locked`: the agent may not change its card.

        Raises InvalidField, NotFound, WorkspaceRemoved."""
        await self._revise_card(workspace_id, lambda old: rules.locked_card(old, card) if card_locked else card)

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
            new = self._changes.next_revision(old, agent_card=text)
            return self._changes.update_write_set(
                new, [workspace_event("AGENT_CARD_UPDATED", new, CardUpdatedPayload(msgspec.Raw(text.encode())))], None
            )

        await self._store.run(self._changes.workspace_command(workspace_id, decide))

    async def handle_heartbeat(self, workspace_id: str, heartbeat: Heartbeat, *, runtime_state: str | None) -> None:
        """Record a heartbeat; write only if the status changes. Raises NotFound, WorkspaceRemoved."""
        workspace = self._registry.active_workspace(workspace_id)
        self._record_heartbeat(workspace_id, heartbeat)
        signal = rules.classify_heartbeat(heartbeat, wedged=runtime_state == "wedged")
        if rules.next_status(workspace, signal) is not workspace.status:
            await self._store.run(
                self._changes.workspace_command(
                    workspace_id, partial(self._decide_status, workspace_id, signal, heartbeat)
                )
            )

    def _decide_status(self, workspace_id: str, signal: AgentSignal, heartbeat: Heartbeat) -> CommandSteps[None]:
        yield from ()
        old = self._registry.active_workspace(workspace_id)
        status = rules.next_status(old, signal)
        if status is old.status:
            return WriteSet(None)
        new = self._changes.next_revision(old, status=status)
        return self._changes.update_write_set(new, [status_event(new, old, heartbeat)], None)

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
        commands = [self._changes.workspace_command(each, partial(self._decide_silent, each)) for each in silent_ids]
        await asyncio.gather(*(self._store.run(command) for command in commands))
        await self._save_heartbeats([set_timer(SWEEP, "", now + self._limits.sweep_seconds * SECOND)])

    async def save_heartbeats(self) -> bool:
        """Save the heartbeats that this process received. Return whether there were any.

        Of several processes each saves its own; one of them sweeps."""
        return await self._save_heartbeats([])

    async def _save_heartbeats(self, extra_writes: list[tuple[str, Params]]) -> bool:
        heartbeats, saved = self._registry.take_unsaved_heartbeats(), self._ids.new()
        writes: list[tuple[str, Params]] = [
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
        push_keys = (PUSHES_KEY,) if workspace.delivery_mode == PUSH else ()
        self._notify((heartbeat_key(workspace.org_id), *((HEARTBEATS,) if task_changed else ()), *push_keys))

    def _encode_card(self, workspace: Workspace, card: Any) -> str:
        text = msgspec.json.encode(rules.with_readable_name(card, workspace.name)).decode()
        if len(text.encode()) > self._limits.card_bytes:
            raise InvalidField(reason=f"the agent card is larger than {self._limits.card_bytes} bytes; shorten it")
        return text
