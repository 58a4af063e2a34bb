"""What the org writer's files share: a seat's next revision, its place among others, its statements and events."""

from collections.abc import Callable
from typing import Any

import msgspec

from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.errors import InvalidField, InvalidParent
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line, clean_name, with_suffix
from molecule_core.org import rules
from molecule_core.org.model import POLL, NewWorkspace, Pulse, Status, Workspace
from molecule_core.org.reader import view
from molecule_core.org.registry import Registry
from molecule_core.store.database import Command, Decision, Event, Store, T, WriteSet
from molecule_core.store.journal import PUSHES, log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.wire.events import Degraded, Online, PutAside, Silent


class Seats:
    """The tools of the org writer's files."""

    def __init__(self, store: Store, registry: Registry, *, clock: Clock, limits: Limits) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self.limits = limits

    # -- commands ------------------------------------------------------------------------------------------------------

    def in_tree(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        """A command that reads or changes places in the tree: one at a time in each organisation."""
        org_id = self.registry.living(workspace_id).org_id
        return Command(org_id, (("tree", org_id), ("workspace", workspace_id)), decide)

    def of_one(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        """A command about one seat alone."""
        return Command(self.registry.living(workspace_id).org_id, (("workspace", workspace_id),), decide)

    # -- what it decides on --------------------------------------------------------------------------------------------

    def level(self, org_id: str, parent_id: str | None) -> list[Workspace]:
        """The seats that a new one would stand beside. Raises InvalidParent."""
        if parent_id is None:
            return self.registry.roots(org_id)
        parent = self.parent(org_id, parent_id)
        if rules.depth(self.registry, parent) + 1 > self.limits.tree_depth:
            raise InvalidParent(reason=rules.too_deep(self.limits.tree_depth))
        return self.registry.children(parent)

    def parent(self, org_id: str, parent_id: str) -> Workspace:
        """A living seat of an organisation, below which others may stand. Raises InvalidParent."""
        parent = self.registry.workspace(parent_id)
        if parent is None or parent.org_id != org_id or parent.removed:
            raise InvalidParent(reason="there is no such workspace in this organisation")
        return parent

    def free_name(self, name: str, level: list[Workspace], own_id: str = "") -> str:
        """A name that no other of a level has: the wanted one, or with a number behind it."""
        return with_suffix(name, {each.name for each in level if each.id != own_id}, self.limits.name_length)

    def clean(self, new: NewWorkspace) -> NewWorkspace:
        """What was said of a new seat, fit to be kept. Raises InvalidName, InvalidField, UrlMissing."""
        short = self.limits.short_text_length
        mode, url = rules.delivery(new.delivery_mode, new.url, (POLL, None))
        return msgspec.structs.replace(
            new,
            name=clean_name(new.name, self.limits.name_length),
            role=None if new.role is None else clean_line(new.role, short, "role"),
            runtime=clean_line(new.runtime, short, "runtime") or "generic-mcp",
            key=self.clean_key(new.key),
            delivery_mode=mode,
            url=url,
        )

    def clean_key(self, key: str | None) -> str | None:
        """What an org file knows a seat by. Raises InvalidField."""
        return None if key is None else clean_line(key, self.limits.name_length, "key") or None

    def check_key_is_free(self, org_id: str, key: str | None, own_id: str = "") -> None:
        """Two seats with one key could not be told apart by an org file. Raises InvalidField."""
        for each in self.registry.workspaces(org_id) if key is not None else ():
            if each.key == key and each.id != own_id:
                raise InvalidField(reason=f"the key {key!r} is taken by {each.name!r}; choose another")

    # -- what it writes ------------------------------------------------------------------------------------------------

    def next(self, old: Workspace, **fields: Any) -> Workspace:
        """The next revision of a workspace."""
        return msgspec.structs.replace(old, rev=old.rev + 1, updated_at=self.clock.now(), **fields)

    def changed(self, new: Workspace, events: list[Event], answer: T) -> WriteSet[T]:
        """The write set of one seat's change."""
        return WriteSet(
            answer,
            [update_of(new)],
            events,
            rings=(org_key(new.org_id), log_key(new.id), PUSHES),
            then=lambda: self.registry.put(new),
        )

    def shown(self, name: str, workspace: Workspace) -> Event:
        """An event that tells all about a seat."""
        return event(name, workspace, view(workspace, self.registry.pulse(workspace.id)))


def insert_of(workspace: Workspace) -> tuple[str, Params]:
    """The statement that makes a seat."""
    return "insert_workspace", _row(workspace)


def update_of(workspace: Workspace) -> tuple[str, Params]:
    """The statement that keeps what has changed about a seat."""
    return "update_workspace", _row(workspace)


def _row(workspace: Workspace) -> Params:
    """A workspace as parameters: both engines keep switches as 0 and 1."""
    columns = msgspec.structs.asdict(workspace)
    return {name: int(value) if isinstance(value, bool) else value for name, value in columns.items()}


def event(name: str, workspace: Workspace, payload: msgspec.Struct) -> Event:
    """A fact about a seat, at its revision."""
    return Event(name, workspace.id, "workspace", workspace.id, workspace.rev, msgspec.json.encode(payload))


def status_event(new: Workspace, old: Workspace, pulse: Pulse) -> Event:
    """The fact that a seat stands otherwise than before."""
    match new.status:
        case Status.ONLINE:
            return event("WORKSPACE_ONLINE", new, Online(new.delivery_mode, old.status.value))
        case Status.DEGRADED:
            return event("WORKSPACE_DEGRADED", new, Degraded(pulse.error_rate, pulse.sample_error))
        case Status.PAUSED | Status.HIBERNATED:
            return event(f"WORKSPACE_{new.status.name}", new, PutAside(old.status.value))
        case _:
            name = "WORKSPACE_OFFLINE" if new.status is Status.OFFLINE else "WORKSPACE_AWAITING_AGENT"
            return event(name, new, Silent(rfc3339(pulse.heard_at) if pulse.heard_at else None))


def seat_of(new: NewWorkspace, org_id: str, id_: str, name: str, now: int, parent_id: str | None) -> Workspace:
    """A new seat, before anybody sits there."""
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
        key=new.key,
        instruction_shape=new.instruction_shape,
        reply_seconds=new.reply_seconds,
        send_drafts=new.send_drafts,
    )
