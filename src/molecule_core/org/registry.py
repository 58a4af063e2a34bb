"""The org tree in memory: every decision about who may talk reads it, so none costs a query.

Rebuilt from the store at start, changed only by the org writer after its commit, and kept current from the store where
several processes share one (`reader.OrgMirror`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import islice

from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import NotFound, WorkspaceRemoved
from molecule_core.org.model import NOTHING_HEARD, PUSH, Org, Pulse, Workspace
from molecule_core.org.roll import Roll, Show


class Registry:
    """All organisations and workspaces, removed ones too. Implements `rules.Tree`."""

    def __init__(self) -> None:
        self._orgs: dict[str, Org] = {}
        self._workspaces: dict[str, Workspace] = {}
        self._parents: dict[str, str | None] = {}
        # Keyed by the parent's id, or by the organisation's for its roots; dicts keep the order of creation.
        self._below: dict[str, dict[str, Workspace]] = {}
        # All that ever were, by organisation; and where in its roll each stands.
        self._rolls: defaultdict[str, Roll] = defaultdict(Roll)
        self._living: dict[str, dict[str, Workspace]] = {}
        self._places: dict[str, int] = {}
        self._pulses: dict[str, Pulse] = {}
        self._unsaved: set[str] = set()
        # Whose last heartbeat came to another process, which saves it only now and then.
        self._heard_elsewhere: set[str] = set()
        # Which workspaces were heard, by organisation, in the order of their last heartbeat; a number for each.
        self._heard: dict[str, dict[str, int]] = {}
        self._beats = 0
        self._changes = 0
        self._pushed_to: set[str] = set()
        # When an agent last said that it works on something else.
        self._busy_since: dict[str, int] = {}

    def load(self, orgs: Iterable[Org], workspaces: Iterable[Workspace], pulses: Iterable[tuple[str, Pulse]]) -> None:
        """Takes over what the store knows; workspaces oldest first."""
        for org in orgs:
            self.put_org(org)
        self.put_all(workspaces)
        self._pulses.update(pulses)

    def put_org(self, org: Org) -> None:
        """A new or changed organisation."""
        self._orgs[org.id] = org

    def put(self, workspace: Workspace) -> None:
        """A new or changed workspace."""
        self._changes += 1
        if workspace.delivery_mode == PUSH and not workspace.removed:
            self._pushed_to.add(workspace.id)
        else:
            self._pushed_to.discard(workspace.id)
        old = self._workspaces.get(workspace.id)
        moved = old is not None and _place(old) != _place(workspace)
        if old is not None and moved:
            self._below[_place(old)].pop(workspace.id, None)
        self._enroll(workspace)
        self._workspaces[workspace.id] = workspace
        self._parents[workspace.id] = workspace.parent_id
        level = self._below.setdefault(_place(workspace), {})
        living = self._living.setdefault(workspace.org_id, {})
        for place in (level, living):
            if workspace.removed:
                place.pop(workspace.id, None)
            else:
                place[workspace.id] = workspace
        if moved:  # oldest first, as after a restart
            self._below[_place(workspace)] = dict(sorted(level.items(), key=lambda item: self._places[item[0]]))

    def _enroll(self, workspace: Workspace) -> None:
        roll = self._rolls[workspace.org_id]
        place = self._places.get(workspace.id)
        if place is None:
            self._places[workspace.id] = roll.add(workspace)
        else:
            roll.replace(place, workspace)

    def put_all(self, workspaces: Iterable[Workspace]) -> None:
        """Several at once."""
        for workspace in workspaces:
            self.put(workspace)

    def renew(self, workspaces: Iterable[Workspace]) -> None:
        """Takes over what another process has changed; what is newer here stays."""
        for workspace in workspaces:
            known = self._workspaces.get(workspace.id)
            if known is None or known.rev < workspace.rev:
                self.put(workspace)

    def org(self, org_id: str) -> Org:
        """An organisation; KeyError if there is none."""
        return self._orgs[org_id]

    def find_org(self, org_id: str) -> Org | None:
        """An organisation, if there is one."""
        return self._orgs.get(org_id)

    def orgs(self) -> list[Org]:
        """All organisations, oldest first."""
        return list(self._orgs.values())

    def workspace(self, workspace_id: str) -> Workspace | None:
        """A workspace by its id, also a removed one."""
        return self._workspaces.get(workspace_id)

    def parents(self) -> Mapping[str, str | None]:
        """The id of each workspace's parent, also of removed ones."""
        return self._parents

    def living(self, workspace_id: str) -> Workspace:
        """A workspace that is not removed. Raises NotFound, WorkspaceRemoved."""
        workspace = self._workspaces.get(workspace_id)
        if workspace is None:
            raise NotFound(what="workspace")
        if workspace.removed_at is not None:
            raise WorkspaceRemoved(id=workspace.id, removed_at=rfc3339(workspace.removed_at))
        return workspace

    def workspaces(self, org_id: str | None = None) -> Collection[Workspace]:
        """The live workspaces of one organisation or of all, oldest first."""
        if org_id is not None:
            return self._living.get(org_id, {}).values()
        return [workspace for living in self._living.values() for workspace in living.values()]

    def all_ever(self, org_id: str) -> Iterator[Workspace]:
        """The workspaces of an organisation, removed ones too, oldest first."""
        return iter(self._ever(org_id))

    def _ever(self, org_id: str) -> list[Workspace]:
        roll = self._rolls.get(org_id)
        return [] if roll is None else roll.seats

    def page(self, org_id: str, after: str | None, count: int) -> list[Workspace]:
        """At most so many living workspaces of an organisation behind one of them, oldest first; LookupError: it has,
        and had, no such workspace."""
        ever = self._ever(org_id)
        first = 0
        if after is not None:
            if after not in self._places or self._workspaces[after].org_id != org_id:
                raise LookupError(after)
            first = self._places[after] + 1
        behind = (ever[place] for place in range(first, len(ever)))
        return list(islice((workspace for workspace in behind if not workspace.removed), count))

    def page_list(self, org_id: str, after: str | None, count: int, show: Show) -> bytes:
        """A page as a list in JSON, each workspace as `show` makes it; what was made for an earlier list and still
        holds is taken from there. Raises LookupError."""
        found = self.page(org_id, after, count)
        if not found:
            return b"[]"
        return _list(self._rolls[org_id].texts(self._places[found[0].id], self._places[found[-1].id], show))

    def whole_list(self, org_id: str | None, show: Show) -> bytes:
        """The same of all living workspaces of one organisation or of all."""
        rolls = [roll for id_, roll in self._rolls.items() if org_id in (None, id_)]
        return _list(text for roll in rolls for text in roll.texts(0, len(roll.seats) - 1, show))

    def children(self, workspace: Workspace) -> list[Workspace]:
        """The live workspaces right below, oldest first."""
        return list(self._below.get(workspace.id, {}).values())

    def roots(self, org_id: str) -> list[Workspace]:
        """The live workspaces at the top of an organisation, oldest first."""
        return list(self._below.get(org_id, {}).values())

    def pulse(self, workspace_id: str) -> Pulse:
        """What its agent said last."""
        return self._pulses.get(workspace_id, NOTHING_HEARD)

    def hear(self, workspace_id: str, pulse: Pulse) -> bool:
        """A heartbeat came. It is saved with the next sweep. Returns whether its agent works on something else now."""
        self._unsaved.add(workspace_id)
        self._heard_elsewhere.discard(workspace_id)
        return self._note(workspace_id, pulse)

    def learn(self, workspace_id: str, pulse: Pulse) -> None:
        """A heartbeat came to another process, which has saved it."""
        if workspace_id in self._workspaces and pulse.heard_at > self.pulse(workspace_id).heard_at:
            self._heard_elsewhere.add(workspace_id)
            self._note(workspace_id, pulse)

    def heard_elsewhere(self, workspace_id: str) -> bool:
        """Whether another process has heard it last: there may be a heartbeat that is not saved yet."""
        return workspace_id in self._heard_elsewhere

    def _note(self, workspace_id: str, pulse: Pulse) -> bool:
        before = self.pulse(workspace_id)
        other_task = (before.current_task, before.active_tasks) != (pulse.current_task, pulse.active_tasks)
        if other_task:
            self._busy_since[workspace_id] = pulse.heard_at
        self._pulses[workspace_id] = pulse
        self._beats += 1
        org_id = self._workspaces[workspace_id].org_id
        self._rolls[org_id].forget(self._places[workspace_id])
        heard = self._heard.setdefault(org_id, {})
        heard.pop(workspace_id, None)
        heard[workspace_id] = self._beats
        return other_task

    def tasks_changed_since(self, org_id: str, at: int) -> list[Workspace]:
        """The workspaces of an organisation whose agents have begun something else since a time (microseconds)."""
        found = []
        for workspace_id in reversed(self._heard.get(org_id, {})):
            if self._pulses[workspace_id].heard_at < at:
                break
            if self._busy_since.get(workspace_id, 0) >= at:
                found.append(self._workspaces[workspace_id])
        return found

    def changes(self) -> int:
        """How often a workspace was new or changed: another number means that something about one is other."""
        return self._changes

    def pushed_to(self) -> Set[str]:
        """The ids of the living workspaces whose agents do not poll."""
        return self._pushed_to

    def beats(self) -> int:
        """The number of the last heartbeat."""
        return self._beats

    def heard_after(self, org_id: str, beat: int) -> list[Workspace]:
        """The workspaces of an organisation that were heard behind a heartbeat, the last one first."""
        found = []
        for workspace_id in reversed(self._heard.get(org_id, {})):
            if self._heard[org_id][workspace_id] <= beat:
                break
            found.append(self._workspaces[workspace_id])
        return found

    def take_unsaved(self) -> list[tuple[str, Pulse]]:
        """The heartbeats that came since the last call."""
        unsaved, self._unsaved = self._unsaved, set()
        return [(workspace_id, self._pulses[workspace_id]) for workspace_id in unsaved]

    def not_saved(self, workspace_ids: Iterable[str]) -> None:
        """The store did not take these: they go with the next."""
        self._unsaved.update(workspace_ids)


def _place(workspace: Workspace) -> str:
    return workspace.parent_id or workspace.org_id


def _list(texts: Iterable[bytes]) -> bytes:
    """Rows that each end with a comma, as a list. (Tens of megabytes perhaps: they are copied once.)"""
    rows = [text for text in texts if text]
    if rows:
        rows[-1] = rows[-1][:-1]
    return b"".join((b"[", *rows, b"]"))
