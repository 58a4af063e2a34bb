"""The only hand that changes organisations and workspaces."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from molecule_core.access.writer import AccessWriter
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.errors import (
    ConfirmationRequired,
    InvalidField,
    InvalidParent,
    OrgExists,
    ServerBusy,
    StoreUnavailable,
)
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line, clean_name, with_suffix
from molecule_core.org import rules
from molecule_core.org.model import Heard, NewWorkspace, Org, Pulse, Status, Workspace
from molecule_core.org.reader import view
from molecule_core.org.registry import Registry
from molecule_core.store.database import Command, Decision, Event, Read, Store, T, WriteSet
from molecule_core.store.journal import log_key, org_key, pulse_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.events import CardUpdated, Degraded, Online, Removed, Silent

SWEEP = "liveness"
"""The kind of the timer that looks for silent agents."""
PULSES = "pulses"
"""The wake-up key of what agents say to this process and other processes should know soon."""


class OrgWriter:
    """Makes, changes and removes seats; hears their agents."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        access: AccessWriter,
        ring: Callable[[Iterable[str]], None],
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self._store = store
        self._registry = registry
        self._access = access
        self._ring = ring
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._started_at = clock.now()

    # -- organisations -------------------------------------------------------------------------------------------------

    async def create_org(self, name: str, *, allow_skip_level: bool = False) -> Org:
        """A new tenant. Raises InvalidName, OrgExists."""
        org = Org(self._ids.new(), clean_name(name, self._limits.name_length), allow_skip_level, self._clock.now())

        def decide() -> Decision[Org]:
            yield from ()
            if any(other.name == org.name for other in self._registry.orgs()):
                raise OrgExists(name=org.name)
            row = {**msgspec.structs.asdict(org), "allow_skip_level": int(allow_skip_level)}
            return WriteSet(org, [("insert_org", row)], then=lambda: self._registry.put_org(org))

        return await self._store.run(Command("", (("orgs",),), decide))

    async def first_org(self, name: str) -> Org:
        """The first organisation; a new one of that name if there is none. However many processes start at once."""
        org = Org(self._ids.new(), clean_name(name, self._limits.name_length), False, self._clock.now())

        def decide() -> Decision[Org]:
            yield from ()
            if there := self._registry.orgs():
                return WriteSet(there[0])
            row = {**msgspec.structs.asdict(org), "allow_skip_level": 0}
            return WriteSet(org, [("insert_org", row)], then=lambda: self._registry.put_org(org))

        return await self._store.run(Command("", (("orgs",),), decide))

    # -- seats ---------------------------------------------------------------------------------------------------------

    async def create(self, org_id: str, new: NewWorkspace) -> tuple[Workspace, str]:
        """A new seat and its token. A name that is taken under the same parent gets a number behind it.

        Raises InvalidName, InvalidParent, InvalidField."""
        name = clean_name(new.name, self._limits.name_length)
        role = None if new.role is None else clean_line(new.role, self._limits.short_text_length, "role")
        runtime = clean_line(new.runtime, self._limits.short_text_length, "runtime")
        workspace_id, now = self._ids.new(), self._clock.now()
        token, token_writes = self._access.issue_for_workspace(org_id, workspace_id)

        def decide() -> Decision[tuple[Workspace, str]]:
            yield from ()
            taken = {sibling.name for sibling in self._level(org_id, new.parent_id)}
            workspace = Workspace(
                id=workspace_id,
                org_id=org_id,
                parent_id=new.parent_id,
                name=with_suffix(name, taken, self._limits.name_length),
                role=role,
                runtime=runtime or "generic-mcp",
                delivery_mode="poll",
                url=None,
                agent_card=None,
                status=Status.AWAITING_AGENT,
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
            )
            created = _event("WORKSPACE_PROVISIONING", workspace, view(workspace, self._registry.pulse(workspace.id)))
            return WriteSet(
                (workspace, token),
                [("insert_workspace", _row(workspace)), *token_writes],
                [created],
                rings=(org_key(org_id),),
                then=lambda: self._registry.put(workspace),
            )

        return await self._store.run(Command(org_id, (("tree", org_id),), decide))

    def _level(self, org_id: str, parent_id: str | None) -> list[Workspace]:
        """The seats that a new one would stand beside. Raises InvalidParent."""
        if parent_id is None:
            return self._registry.roots(org_id)
        parent = self._registry.workspace(parent_id)
        if parent is None or parent.org_id != org_id or parent.removed:
            raise InvalidParent(reason="there is no such workspace in this organisation")
        if len(list(rules.ancestors(self._registry, parent))) + 2 > self._limits.tree_depth:
            raise InvalidParent(reason=f"the tree would be deeper than {self._limits.tree_depth} levels")
        return self._registry.children(parent)

    async def change(self, workspace_id: str, fields: dict[str, Any]) -> Workspace:
        """Changes what people set about a seat: name, role, runtime, tier and the like.

        Raises InvalidName, InvalidField, NotFound, WorkspaceRemoved."""
        if "name" in fields:
            fields["name"] = clean_name(fields["name"], self._limits.name_length)
        for each in ("role", "runtime"):
            if fields.get(each) is not None:
                fields[each] = clean_line(fields[each], self._limits.short_text_length, each)

        def decide() -> Decision[Workspace]:
            yield from ()
            old = self._registry.living(workspace_id)
            wanted = dict(fields)
            if "name" in wanted and wanted["name"] != old.name:
                taken = {other.name for other in self._level(old.org_id, old.parent_id) if other.id != old.id}
                wanted["name"] = with_suffix(wanted["name"], taken, self._limits.name_length)
            new = self._next(old, **wanted)
            return self._changed(new, [_event("WORKSPACE_UPDATED", new, view(new, self._registry.pulse(new.id)))], new)

        org_id = self._registry.living(workspace_id).org_id
        return await self._store.run(Command(org_id, (("tree", org_id), ("workspace", workspace_id)), decide))

    async def remove(self, workspace_id: str, *, confirmed: bool) -> list[Workspace]:
        """Removes a seat and all below it; returns them. Raises ConfirmationRequired, NotFound, WorkspaceRemoved."""

        def decide() -> Decision[list[Workspace]]:
            yield from ()
            now = self._clock.now()
            going = rules.subtree(self._registry, self._registry.living(workspace_id))
            if not confirmed:
                below = [{"id": each.id, "name": each.name} for each in going[1:]]
                raise ConfirmationRequired(children=below, children_count=len(below))
            gone = [self._next(each, status=Status.REMOVED, removed_at=now) for each in going]
            return WriteSet(
                gone,
                [("update_workspace", _row(each)) for each in gone],
                [_event("WORKSPACE_REMOVED", each, Removed(rfc3339(now))) for each in reversed(gone)],
                rings=(org_key(gone[0].org_id), *(log_key(each.id) for each in gone)),
                then=lambda: self._registry.put_all(gone),
            )

        return await self._store.run(Command(self._registry.living(workspace_id).org_id, (), decide, alone=True))

    # -- agents --------------------------------------------------------------------------------------------------------

    async def register(self, workspace_id: str, card: Any) -> Workspace:
        """An agent takes its seat and polls. Raises InvalidField, NotFound, WorkspaceRemoved."""
        text = self._card_text(workspace_id, card)

        def decide() -> Decision[Workspace]:
            yield from ()
            old = self._registry.living(workspace_id)
            status = rules.next_status(old, Heard.WELL)
            same_card = rules.same_json(old.agent_card, text)
            if same_card and status is old.status:
                return WriteSet(old)
            new = self._next(old, agent_card=text, status=status)
            events = []
            if status is not old.status:
                known = msgspec.Raw(text.encode())
                events.append(_event("WORKSPACE_ONLINE", new, Online(new.delivery_mode, old.status.value, known)))
            if not same_card:
                events.append(_event("AGENT_CARD_UPDATED", new, CardUpdated(msgspec.Raw(text.encode()))))
            return self._changed(new, events, new)

        workspace = await self._store.run(self._for_agent(workspace_id, decide))
        self._hear(workspace_id, self._heard_now(workspace_id))
        return workspace

    async def update_card(self, workspace_id: str, card: Any) -> None:
        """What the agent says of itself now. Raises InvalidField, NotFound, WorkspaceRemoved."""
        text = self._card_text(workspace_id, card)

        def decide() -> Decision[None]:
            yield from ()
            old = self._registry.living(workspace_id)
            if rules.same_json(old.agent_card, text):
                return WriteSet(None)
            new = self._next(old, agent_card=text)
            return self._changed(
                new, [_event("AGENT_CARD_UPDATED", new, CardUpdated(msgspec.Raw(text.encode())))], None
            )

        await self._store.run(self._for_agent(workspace_id, decide))

    async def heartbeat(self, workspace_id: str, pulse: Pulse, *, runtime_state: str | None) -> None:
        """An agent says that it is there. Writes only if that changes its status. Raises NotFound, WorkspaceRemoved."""
        workspace = self._registry.living(workspace_id)
        self._hear(workspace_id, pulse)
        heard = rules.heard(pulse, wedged=runtime_state == "wedged")
        if rules.next_status(workspace, heard) is not workspace.status:
            await self._store.run(
                self._for_agent(workspace_id, partial(self._status_after, workspace_id, heard, pulse))
            )

    def _status_after(self, workspace_id: str, heard: Heard, pulse: Pulse) -> Decision[None]:
        yield from ()
        old = self._registry.living(workspace_id)
        status = rules.next_status(old, heard)
        if status is old.status:
            return WriteSet(None)
        new = self._next(old, status=status)
        return self._changed(new, [_status_event(new, old, pulse)], None)

    async def sweep(self, _key: str) -> None:
        """Finds the agents that fell silent, and saves the heartbeats. Asks to be called again.

        After a start, everybody has the full time to be heard again."""
        now = self._clock.now()
        listening = (Status.ONLINE, Status.DEGRADED)
        quiet = [
            workspace.id
            for workspace in self._registry.workspaces()
            if workspace.status in listening and self._is_silent(workspace.id, now)
        ]
        falling = [self._for_agent(each, partial(self._falling_silent, each)) for each in quiet]
        await asyncio.gather(*(self._store.run(command) for command in falling))
        await self._save([timer(SWEEP, "", now + self._limits.sweep_seconds * SECOND)])

    async def save_pulses(self) -> bool:
        """Saves what agents have said to this process; whether they have. With several, each saves its own; one of
        them sweeps."""
        return await self._save([])

    async def _save(self, more: list[tuple[str, Params]]) -> bool:
        heartbeats, saved = self._registry.take_unsaved(), self._ids.new()
        writes: list[tuple[str, Params]] = [
            ("save_heartbeat", {"workspace_id": workspace_id, **msgspec.structs.asdict(pulse), "saved": saved})
            for workspace_id, pulse in heartbeats
        ]

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, [*writes, *more], rings=(TIMERS,) if more else ())

        if not writes and not more:
            return False
        try:
            await self._store.run(Command("", (("sweep",),), decide))
        except (StoreUnavailable, ServerBusy):
            self._registry.not_saved(workspace_id for workspace_id, _ in heartbeats)
            raise
        return bool(heartbeats)

    def _is_silent(self, workspace_id: str, now: int) -> bool:
        """Whom another process hears may have said something that is not saved yet."""
        heard_at = max(self._registry.pulse(workspace_id).heard_at, self._started_at)
        patience = self._limits.silence_seconds
        if self._registry.heard_elsewhere(workspace_id):
            patience += self._limits.sweep_seconds
        return heard_at + patience * SECOND <= now

    def _falling_silent(self, workspace_id: str) -> Decision[None]:
        """A heartbeat may have come while the command waited, here or elsewhere."""
        for row in (yield Read("heartbeat", {"workspace_id": workspace_id})):
            self._registry.learn(row[0], Pulse(*row[1:]))
        if not self._is_silent(workspace_id, self._clock.now()):
            return WriteSet(None)
        return (yield from self._status_after(workspace_id, Heard.SILENT, self._registry.pulse(workspace_id)))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _hear(self, workspace_id: str, pulse: Pulse) -> None:
        other_task = self._registry.hear(workspace_id, pulse)
        self._ring((pulse_key(self._registry.living(workspace_id).org_id), *((PULSES,) if other_task else ())))

    def _next(self, old: Workspace, **fields: Any) -> Workspace:
        """The next revision of a workspace."""
        return msgspec.structs.replace(old, rev=old.rev + 1, updated_at=self._clock.now(), **fields)

    def _changed(self, new: Workspace, events: list[Event], answer: T) -> WriteSet[T]:
        return WriteSet(
            answer,
            [("update_workspace", _row(new))],
            events,
            rings=(org_key(new.org_id),),
            then=lambda: self._registry.put(new),
        )

    def _for_agent(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        return Command(self._registry.living(workspace_id).org_id, (("workspace", workspace_id),), decide)

    def _card_text(self, workspace_id: str, card: Any) -> str:
        text = msgspec.json.encode(rules.complete_card(card, self._registry.living(workspace_id).name)).decode()
        if len(text.encode()) > self._limits.card_bytes:
            raise InvalidField(reason=f"the agent card is larger than {self._limits.card_bytes} bytes; shorten it")
        return text

    def _heard_now(self, workspace_id: str) -> Pulse:
        return msgspec.structs.replace(self._registry.pulse(workspace_id), heard_at=self._clock.now())


def _row(workspace: Workspace) -> Params:
    """A workspace as parameters: both engines keep switches as 0 and 1."""
    columns = msgspec.structs.asdict(workspace)
    return {name: int(value) if isinstance(value, bool) else value for name, value in columns.items()}


def _event(name: str, workspace: Workspace, payload: msgspec.Struct) -> Event:
    return Event(name, workspace.id, "workspace", workspace.id, workspace.rev, msgspec.json.encode(payload))


def _status_event(new: Workspace, old: Workspace, pulse: Pulse) -> Event:
    if new.status is Status.ONLINE:
        return _event("WORKSPACE_ONLINE", new, Online(new.delivery_mode, old.status.value))
    if new.status is Status.DEGRADED:
        return _event("WORKSPACE_DEGRADED", new, Degraded(pulse.error_rate, pulse.sample_error))
    name = "WORKSPACE_OFFLINE" if new.status is Status.OFFLINE else "WORKSPACE_AWAITING_AGENT"
    return _event(name, new, Silent(rfc3339(pulse.heard_at)))
