"""The only hand that changes organisations and workspaces."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from molecule_core.access.writer import AccessWriter
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InvalidField, OrgExists, ServerBusy, StatusForbids, StoreUnavailable
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line, clean_name
from molecule_core.org import rules
from molecule_core.org.model import PUSH, Act, Heard, NewWorkspace, Org, Pulse, Status, Workspace
from molecule_core.org.registry import Registry
from molecule_core.org.seats import Seats, event, insert_of, seat_of, status_event
from molecule_core.org.tree import TreeWriter
from molecule_core.store.database import Command, Decision, Event, Read, Store, WriteSet
from molecule_core.store.journal import PUSHES, org_key, pulse_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.events import CardUpdated, Online

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
        self._seats = Seats(store, registry, clock=clock, limits=limits)
        self._tree = TreeWriter(self._seats, access, ids)
        self.expand = self._tree.expand
        self.collapse = self._tree.collapse
        self.remove = self._tree.remove

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
        clean = self._seats.clean(new)
        workspace_id, now = self._ids.new(), self._clock.now()
        token, token_writes = self._access.issue_for_workspace(org_id, workspace_id)

        def decide() -> Decision[tuple[Workspace, str]]:
            yield from ()
            self._seats.check_key_is_free(org_id, clean.key)
            name = self._seats.free_name(clean.name, self._seats.level(org_id, clean.parent_id))
            workspace = seat_of(clean, org_id, workspace_id, name, now, clean.parent_id)
            return WriteSet(
                (workspace, token),
                [insert_of(workspace), *token_writes],
                [self._seats.shown("WORKSPACE_PROVISIONING", workspace)],
                rings=(org_key(org_id),),
                then=lambda: self._registry.put(workspace),
            )

        return await self._store.run(Command(org_id, (("tree", org_id),), decide))

    async def change(self, workspace_id: str, fields: dict[str, Any]) -> Workspace:
        """Changes what people set about a seat: name, role, runtime, tier and the like; `parent_id` moves it, with all
        that is below it.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        fields = self._clean_fields(fields)

        def decide() -> Decision[Workspace]:
            yield from ()
            old = new = self._registry.living(workspace_id)
            wanted, events, facts = dict(fields), list[Event](), list[object]()
            self._seats.check_key_is_free(old.org_id, fields.get("key"), old.id)
            if wanted.pop("parent_id", old.parent_id) != old.parent_id:
                new, told, moved = self._tree.moved(old, fields["parent_id"], wanted.pop("name", old.name))
                events.append(told)
                facts.append(moved)
            elif wanted.get("name", old.name) != old.name:
                level = self._seats.level(old.org_id, old.parent_id)
                wanted["name"] = self._seats.free_name(wanted["name"], level, old.id)
            if "delivery_mode" in wanted or "url" in wanted:
                said = wanted.get("delivery_mode"), wanted.get("url")
                wanted["delivery_mode"], wanted["url"] = rules.delivery(*said, (old.delivery_mode, old.url))
            if wanted or not events:
                new = self._seats.next(new, **wanted)
                events.append(self._seats.shown("WORKSPACE_UPDATED", new))  # control: workspace-event
            written = self._seats.changed(new, events, new)
            written.facts += facts
            return written

        return await self._store.run(self._seats.in_tree(workspace_id, decide))

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        clean = dict(fields)
        if "name" in clean:
            clean["name"] = clean_name(clean["name"], self._limits.name_length)
        for each in ("role", "runtime"):
            if clean.get(each) is not None:
                clean[each] = clean_line(clean[each], self._limits.short_text_length, each)
        if "key" in clean:
            clean["key"] = self._seats.clean_key(clean["key"])
        return clean

    async def act(self, workspace_id: str, act: Act) -> Workspace:
        """Pauses, resumes or hibernates a seat; no harm if it stands so already.

        Raises StatusForbids, NotFound, WorkspaceRemoved."""

        def decide() -> Decision[Workspace]:
            yield from ()
            old = self._registry.living(workspace_id)
            pulse = self._registry.pulse(workspace_id)
            status = rules.AFTER_ACT[old.status, act]
            if status is None:
                raise StatusForbids(name=old.name, status=old.status.value, reason=rules.why_not(old.status, act))
            if status is old.status:
                return WriteSet(old)
            if act is Act.RESUME:
                silent = pulse.heard_at + self._limits.silence_seconds * SECOND <= self._clock.now()
                status = rules.status_of_resumed(old, pulse, silent=silent)
            new = self._seats.next(old, status=status)
            return self._seats.changed(new, [status_event(new, old, pulse)], new)

        return await self._store.run(self._seats.of_one(workspace_id, decide))

    # -- agents --------------------------------------------------------------------------------------------------------

    async def register(
        self, workspace_id: str, card: Any, mode: str | None = None, url: str | None = None, *, card_stays: bool = False
    ) -> Workspace:
        """An agent takes its seat, and says how its messages reach it. `card_stays`: it may not change its card. Raises
        InvalidField, UrlMissing, NotFound, WorkspaceRemoved."""

        def decide() -> Decision[Workspace]:
            yield from ()
            old = self._registry.living(workspace_id)
            text = self._card_text(old, rules.standing_card(old.agent_card, card) if card_stays else card)
            status = rules.status_of_seated(old)
            same_card = rules.same_json(old.agent_card, text)
            place = rules.delivery(mode, url, (old.delivery_mode, old.url))
            moved = place != (old.delivery_mode, old.url)
            if same_card and status is old.status and not moved:
                return WriteSet(old)
            new = self._seats.next(old, agent_card=text, status=status, delivery_mode=place[0], url=place[1])
            events = []
            if moved:
                events.append(self._seats.shown("WORKSPACE_UPDATED", new))
            if status is not old.status:
                known = msgspec.Raw(text.encode())
                events.append(event("WORKSPACE_ONLINE", new, Online(new.delivery_mode, old.status.value, known)))
            if not same_card:
                events.append(event("AGENT_CARD_UPDATED", new, CardUpdated(msgspec.Raw(text.encode()))))
            return self._seats.changed(new, events, new)

        workspace = await self._store.run(self._seats.of_one(workspace_id, decide))
        self._hear(workspace_id, self._heard_now(workspace_id))
        return workspace

    async def update_card(self, workspace_id: str, card: Any, *, card_stays: bool = False) -> None:
        """What the agent says of itself now. `card_stays`: it may not change its card. Raises InvalidField, NotFound,
        WorkspaceRemoved."""
        await self._revise_card(workspace_id, lambda old: rules.standing_card(old, card) if card_stays else card)

    async def update_tools(self, workspace_id: str, listed: list[Any]) -> None:
        """Which tools the agent has now. Raises as `update_card` does."""
        await self._revise_card(workspace_id, lambda old: rules.card_with_tools(old, listed))

    async def _revise_card(self, workspace_id: str, revised: Callable[[str | None], Any]) -> None:
        """`revised` is given the card that stands when this is written: others may write one at the same time."""

        def decide() -> Decision[None]:
            yield from ()
            old = self._registry.living(workspace_id)
            text = self._card_text(old, revised(old.agent_card))
            if rules.same_json(old.agent_card, text):
                return WriteSet(None)
            new = self._seats.next(old, agent_card=text)
            return self._seats.changed(
                new, [event("AGENT_CARD_UPDATED", new, CardUpdated(msgspec.Raw(text.encode())))], None
            )

        await self._store.run(self._seats.of_one(workspace_id, decide))

    async def heartbeat(self, workspace_id: str, pulse: Pulse, *, runtime_state: str | None) -> None:
        """An agent says that it is there. Writes only if that changes its status. Raises NotFound, WorkspaceRemoved."""
        workspace = self._registry.living(workspace_id)
        self._hear(workspace_id, pulse)
        heard = rules.heard(pulse, wedged=runtime_state == "wedged")
        if rules.next_status(workspace, heard) is not workspace.status:
            await self._store.run(
                self._seats.of_one(workspace_id, partial(self._status_after, workspace_id, heard, pulse))
            )

    def _status_after(self, workspace_id: str, heard: Heard, pulse: Pulse) -> Decision[None]:
        yield from ()
        old = self._registry.living(workspace_id)
        status = rules.next_status(old, heard)
        if status is old.status:
            return WriteSet(None)
        new = self._seats.next(old, status=status)
        return self._seats.changed(new, [status_event(new, old, pulse)], None)

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
        falling = [self._seats.of_one(each, partial(self._falling_silent, each)) for each in quiet]
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
        workspace = self._registry.living(workspace_id)
        drains = (PUSHES,) if workspace.delivery_mode == PUSH else ()
        self._ring((pulse_key(workspace.org_id), *((PULSES,) if other_task else ()), *drains))

    def _card_text(self, workspace: Workspace, card: Any) -> str:
        text = msgspec.json.encode(rules.complete_card(card, workspace.name)).decode()
        if len(text.encode()) > self._limits.card_bytes:
            raise InvalidField(reason=f"the agent card is larger than {self._limits.card_bytes} bytes; shorten it")
        return text

    def _heard_now(self, workspace_id: str) -> Pulse:
        return msgspec.structs.replace(self._registry.pulse(workspace_id), heard_at=self._clock.now())
