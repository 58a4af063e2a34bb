"""Random changes of an org tree, each compared with a model of ten lines."""

from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.writer import AccessWriter
from molecule_core.common.errors import ConfirmationRequired, InvalidParent, WorkspaceRemoved
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.org.model import NewWorkspace, Org, TeamSpec
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.rules import may_talk, peers
from molecule_core.org.writer import OrgWriter
from molecule_core.store.database import Command
from testing.clocks import FakeClock, SeededRandomness

T = TypeVar("T")
LEVELS = 4


class AtOnce:
    """A store that decides each command when it comes, and keeps nothing."""

    async def run(self, command: Command[T]) -> T:
        decision = command.steps()
        try:
            decision.send(None)
        except StopIteration as stop:
            if stop.value.after_commit is not None:
                stop.value.after_commit()
            answer: T = stop.value.result
            return answer
        raise AssertionError("the tree is in memory: nothing has to be read")


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of something that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waits")


class TreeMachine(RuleBasedStateMachine):
    """The model is one dict: whose parent is whom."""

    seats = Bundle("seats")
    met: ClassVar[set[str]] = set()

    @initialize()
    def begin(self) -> None:
        clock, limits = FakeClock(), Limits(tree_depth=LEVELS)
        chance = SeededRandomness()
        ids = IdGenerator(clock, chance)
        self.registry = OrgRegistry()
        self.registry.put_org(Org("org", "Org", False, 0))
        store: Any = AtOnce()
        access = AccessWriter(store, CredentialCache(), clock=clock, ids=ids, randomness=chance, limits=limits)
        self.writer = OrgWriter(store, self.registry, access, lambda _: None, clock=clock, ids=ids, limits=limits)
        self.parents: dict[str, str | None] = {}

    # -- the model -----------------------------------------------------------------------------------------------------

    def above(self, id_: str | None) -> list[str]:
        found = []
        while id_ is not None:
            found.append(id_)
            id_ = self.parents[id_]
        return found

    def below(self, id_: str) -> set[str]:
        return {each for each in self.parents if id_ in self.above(each)[1:]}

    def height(self, id_: str) -> int:
        return max(len(self.above(each)) for each in (id_, *self.below(id_))) - len(self.above(id_)) + 1

    # -- the verbs -----------------------------------------------------------------------------------------------------

    @rule(target=seats)
    def make_a_root(self) -> str:
        workspace, *_ = now(self.writer.create_workspace("org", NewWorkspace(name="Seat")))
        self.parents[workspace.id] = None
        return workspace.id

    @rule(target=seats, above=seats)
    def make_below(self, above: str) -> Any:
        gone, deep = above not in self.parents, len(self.above(above)) >= LEVELS if above in self.parents else False
        try:
            workspace, *_ = now(self.writer.create_workspace("org", NewWorkspace(name="Seat", parent_id=above)))
        except InvalidParent:
            assert gone or deep
            return multiple()
        assert not (gone or deep)
        self.parents[workspace.id] = above
        return workspace.id

    @rule(one=seats, parent=st.none() | seats)
    def move(self, one: str, parent: str | None) -> None:
        gone = one not in self.parents
        lost = parent is not None and parent not in self.parents
        circle = not gone and not lost and one in self.above(parent)
        deep = not (gone or lost or circle) and len(self.above(parent)) + self.height(one) > LEVELS
        same = not gone and self.parents[one] == parent
        try:
            now(self.writer.update_workspace(one, {"parent_id": parent}))
        except WorkspaceRemoved:
            assert gone
        except InvalidParent as refusal:
            assert lost or circle or deep
            assert (("circle" in refusal.text) or ("below itself" in refusal.text)) == circle
            self.met.add("circle" if circle else "deep" if deep else "lost")
        else:
            assert same or not (gone or lost or circle or deep)
            self.parents[one] = parent
            self.met.add("moved")

    @rule(target=seats, above=seats, width=st.integers(1, 3), levels=st.integers(1, 3))
    def expand(self, above: str, width: int, levels: int) -> Any:
        team: tuple[TeamSpec, ...] = ()
        for _ in range(levels):
            team = tuple(TeamSpec(NewWorkspace(name="Seat"), team) for _ in range(width))
        gone = above not in self.parents
        deep = not gone and len(self.above(above)) + levels > LEVELS
        try:
            made = now(self.writer.expand(above, team))
        except WorkspaceRemoved:
            assert gone
            return multiple()
        except InvalidParent:
            assert deep
            return multiple()
        assert len(made) == sum(width ** (level + 1) for level in range(levels))
        self.parents.update({each.id: each.parent_id for each, *_ in made})
        return multiple(*(each.id for each, *_ in made))

    @rule(one=seats, confirmed=st.booleans())
    def collapse(self, one: str, confirmed: bool) -> None:
        try:
            gone = now(self.writer.collapse(one, confirmed=confirmed))
        except WorkspaceRemoved:
            assert one not in self.parents
        except ConfirmationRequired as refusal:
            assert not confirmed
            assert {each["id"] for each in refusal.extras["children"]} == self.below(one)
        else:
            assert {each.id for each in gone} == self.below(one)
            for each in gone:
                del self.parents[each.id]
            self.met.add("collapsed" if gone else "nothing below")

    @rule(one=consumes(seats))
    def remove(self, one: str) -> None:
        try:
            gone = now(self.writer.remove_workspace(one, confirmed=True))
        except WorkspaceRemoved:
            assert one not in self.parents
        else:
            assert {each.id for each in gone} == {one, *self.below(one)}
            for each in gone:
                del self.parents[each.id]

    # -- what always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def the_tree_is_the_models(self) -> None:
        living = self.registry.workspaces("org")
        assert {each.id: each.parent_id for each in living} == self.parents
        for each in living:
            assert len(self.above(each.id)) <= LEVELS
            level = [other.name for other in living if other.parent_id == each.parent_id]
            assert len(level) == len(set(level))

    @invariant()
    def peers_are_mutual_and_exactly_those_one_may_talk_to(self) -> None:
        living = list(self.registry.workspaces("org"))
        listed = {each.id: {peer.id for peer in peers(self.registry, each)} for each in living}
        for one in living:
            assert all(one.id in listed[peer] for peer in listed[one.id])
            assert listed[one.id] == {
                other.id for other in living if other is not one and may_talk(self.registry, one, other)
            }

    @invariant()
    def everybody_stands_where_a_restart_would_put_them(self) -> None:
        again = OrgRegistry()
        again.load([self.registry.org("org")], list(self.registry.all_with_removed("org")), [])
        assert again.roots("org") == self.registry.roots("org")
        for each in self.registry.workspaces("org"):
            assert again.children(each) == self.registry.children(each)
