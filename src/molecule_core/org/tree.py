"""Changes of the tree: move, expand, collapse, remove. A part of the org writer, which hands these verbs on."""

from collections.abc import Callable
from typing import NamedTuple

from molecule_core.access.writer import AccessWriter
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import ConfirmationRequired, InvalidField, InvalidParent
from molecule_core.ground.ids import Ids
from molecule_core.org import rules
from molecule_core.org.model import SeatsGone, SeatsMoved, Status, Team, Workspace
from molecule_core.org.seats import Seats, event, insert_of, seat_of, update_of
from molecule_core.store.database import Command, Decision, Event, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.wire.events import Collapsed, Expanded, Gone, Member, Moved, Removed


class Made(NamedTuple):
    """A seat that was made, and its token, shown this once."""

    workspace: Workspace
    token: str


class TreeWriter:
    """Makes, moves and removes whole branches, each in one transaction."""

    def __init__(self, seats: Seats, access: AccessWriter, ids: Ids) -> None:
        self._seats = seats
        self._registry = seats.registry
        self._access = access
        self._ids = ids

    # -- move ----------------------------------------------------------------------------------------------------------

    def moved(self, old: Workspace, parent_id: str | None, name: str) -> tuple[Workspace, Event, SeatsMoved]:
        """A seat below another parent (None: at the top), with all that is below it. Raises InvalidParent."""
        level = self._registry.roots(old.org_id)
        if parent_id is not None:
            parent = self._seats.parent(old.org_id, parent_id)
            if reason := rules.why_not_below(self._registry, old, parent, self._seats.limits.tree_depth):
                raise InvalidParent(reason=reason)
            level = self._registry.children(parent)
        new = self._seats.next(old, parent_id=parent_id, name=self._seats.free_name(name, level, old.id))
        told = Moved(parent_id, old.parent_id, new.name if new.name != old.name else None)
        ids = tuple(each.id for each in rules.subtree(self._registry, old))
        return new, event("WORKSPACE_MOVED", new, told), SeatsMoved(ids, self._seats.clock.now())

    # -- expand --------------------------------------------------------------------------------------------------------

    async def expand(self, workspace_id: str, team: tuple[Team, ...]) -> list[Made]:
        """Makes a team below a seat: all its members or none, those above before those below.

        Raises InvalidName, InvalidField, InvalidParent, NotFound, WorkspaceRemoved."""
        clean = self._clean(team)
        level_by_level = _levels(clean)
        levels, count = len(level_by_level), sum(map(len, level_by_level))
        if not 1 <= count <= self._seats.limits.expand_most:
            raise InvalidField(reason=f"a team has 1 to {self._seats.limits.expand_most} members, this one {count}")
        keys = [each.seat.key for level in level_by_level for each in level if each.seat.key is not None]
        if len(keys) != len(set(keys)):
            raise InvalidField(reason="two members of the team have the same key; choose another for one of them")

        def decide() -> Decision[list[Made]]:
            yield from ()
            above = self._registry.living(workspace_id)
            if rules.depth(self._registry, above) + levels > self._seats.limits.tree_depth:
                raise InvalidParent(reason=rules.too_deep(self._seats.limits.tree_depth))
            for key in keys:
                self._seats.check_key_is_free(above.org_id, key)
            writes: list[tuple[str, Params]] = []
            made = self._made(above, clean, self._registry.children(above), writes)
            members = [Member(each.id, each.name, each.role) for each, _ in made]
            told = [self._seats.shown("WORKSPACE_PROVISIONING", each) for each, _ in made]
            return WriteSet(
                made,
                writes,
                [*told, event("WORKSPACE_EXPANDED", above, Expanded(members))],
                rings=(org_key(above.org_id),),
                then=lambda: self._registry.put_all(each for each, _ in made),
            )

        return await self._seats.store.run(self._seats.in_tree(workspace_id, decide))

    def _clean(self, team: tuple[Team, ...]) -> tuple[Team, ...]:
        return tuple(Team(self._seats.clean(each.seat), self._clean(each.below)) for each in team)

    def _made(
        self, above: Workspace, team: tuple[Team, ...], beside: list[Workspace], writes: list[tuple[str, Params]]
    ) -> list[Made]:
        """The seats of a team below another seat; `beside`: who stands there already."""
        made: list[Made] = []
        level = list(beside)
        for each in team:
            name = self._seats.free_name(each.seat.name, level)
            id_, now = self._ids.new(), self._seats.clock.now()
            workspace = seat_of(each.seat, above.org_id, id_, name, now, above.id)
            level.append(workspace)
            token, token_writes = self._access.issue_for_workspace(above.org_id, workspace.id)
            writes += [insert_of(workspace), *token_writes]
            made += [Made(workspace, token), *self._made(workspace, each.below, [], writes)]
        return made

    # -- collapse and remove -------------------------------------------------------------------------------------------

    async def collapse(self, workspace_id: str, *, confirmed: bool, typed: str | None = None) -> list[Workspace]:
        """Removes all below a seat, but not the seat itself; returns them.

        Raises ConfirmationRequired, NotFound, WorkspaceRemoved."""

        def decide() -> Decision[list[Workspace]]:
            yield from ()
            above = self._registry.living(workspace_id)
            going = rules.subtree(self._registry, above)[1:]
            if not going:
                return WriteSet([])
            _check_meant("collapsing", above, going, confirmed=confirmed, typed=typed)
            told = event("WORKSPACE_COLLAPSED", above, Collapsed([Gone(each.id, each.name) for each in going]))
            return self._gone(going, [told])

        return await self._seats.store.run(self._alone(workspace_id, decide))

    async def remove(self, workspace_id: str, *, confirmed: bool, typed: str | None = None) -> list[Workspace]:
        """Removes a seat and all below it; returns them. `typed`: the name that a person typed to be sure.

        Raises ConfirmationRequired, NotFound, WorkspaceRemoved."""

        def decide() -> Decision[list[Workspace]]:
            yield from ()
            going = rules.subtree(self._registry, self._registry.living(workspace_id))
            _check_meant("removing", going[0], going[1:], confirmed=confirmed, typed=typed)
            return self._gone(going, [])

        return await self._seats.store.run(self._alone(workspace_id, decide))

    def _alone(self, workspace_id: str, decide: Callable[[], Decision[list[Workspace]]]) -> Command[list[Workspace]]:
        return Command(self._registry.living(workspace_id).org_id, (), decide, alone=True)

    def _gone(self, going: list[Workspace], more: list[Event]) -> WriteSet[list[Workspace]]:
        now = self._seats.clock.now()
        gone = [self._seats.next(each, status=Status.REMOVED, removed_at=now) for each in going]
        told = [event("WORKSPACE_REMOVED", each, Removed(rfc3339(now))) for each in reversed(gone)]
        return WriteSet(
            gone,
            [update_of(each) for each in gone],
            [*told, *more],
            rings=(org_key(gone[0].org_id), *(log_key(each.id) for each in gone)),
            then=lambda: self._registry.put_all(gone),
            facts=[SeatsGone(tuple(each.id for each in gone), now)],
        )


def _levels(team: tuple[Team, ...]) -> list[tuple[Team, ...]]:
    """The members of a team, level by level."""
    found, level = [], team
    while level:
        found.append(level)
        level = tuple(below for each in level for below in each.below)
    return found


def _check_meant(
    verb: str, workspace: Workspace, below: list[Workspace], *, confirmed: bool, typed: str | None
) -> None:
    """Raises ConfirmationRequired, which says what would go. A typed name must be the one that the seat has now."""
    if confirmed and typed in (None, workspace.name):
        return
    children = [{"id": each.id, "name": each.name} for each in below]
    raise ConfirmationRequired(verb=verb, name=workspace.name, children=children, children_count=len(children))
