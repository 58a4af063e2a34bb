"""Who reads which memory: the whole matrix of scopes and relations, and that nothing crosses an organisation."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.ground.errors import CursorGone, MemoryOfAnother, NotFound, ScopeForbidden, WorkspaceRemoved
from molecule_core.memory.model import Draft, Scope, Wish
from molecule_core.memory.rules import shelf_of, shelves_of
from molecule_core.org.rules import peers
from tests.memory.world import World
from tests.requirements import requirement
from tests.rules.effort import examples
from tests.rules.forests import Forest, forests

# The tree of these tests: two roots; lead has own and sibling below it, own has child, child has grandchild.
BELOW = {
    "lead": None,
    "other root": None,
    "own": "lead",
    "sibling": "lead",
    "child": "own",
    "grandchild": "child",
    "nephew": "sibling",
}
# Who reads what `own` and `lead` have written, beside themselves. (Only roots write GLOBAL.)
READ_BY = {
    ("own", Scope.LOCAL): set(),
    ("own", Scope.TEAM): {"lead", "sibling", "child"},
    ("lead", Scope.LOCAL): set(),
    ("lead", Scope.TEAM): {"other root", "own", "sibling"},
    ("lead", Scope.GLOBAL): set(BELOW) - {"lead"},
}


def people(world: World, *, skip: bool = False) -> dict[str, str]:
    """The tree in an organisation of its own, and a stranger in another one."""
    org_id, found = world.org(skip=skip), dict[str, str]()
    for name, parent in BELOW.items():
        found[name] = world.seat(org_id, found[parent] if parent else None)
    return {**found, "stranger": world.seat(world.org())}


@requirement("M36", "M3")
@pytest.mark.parametrize("skip", [False, True])
def test_each_scope_is_read_by_whom_the_table_names_and_by_nobody_else(world: World, skip: bool) -> None:
    ids = people(world, skip=skip)
    for (author, scope), readers in READ_BY.items():
        world.commit(ids[author], f"kiwi {author} {scope.value}", scope)
        for name, id_ in ids.items():
            expected = [f"kiwi {author} {scope.value}"] if name in readers | {author} else []
            for found in (
                world.recall(id_, f"kiwi {author} {scope.value}"),
                [each for each in world.recall(id_) if each.startswith(f"kiwi {author} {scope.value}")],
                [each for each in world.recall(id_, scope=scope) if each.startswith(f"kiwi {author}")],
            ):
                assert found == expected, (author, scope, name)
        for scope_of_others in set(Scope) - {scope}:
            assert world.recall(ids[author], f"kiwi {author} {scope.value}", scope=scope_of_others) == []


@requirement("M36")
def test_only_a_workspace_at_the_top_writes_for_all_and_leaves_it_when_it_moves(world: World) -> None:
    ids, draft = people(world), Draft("for all", Scope.GLOBAL, "", "workspace:x")
    for name, parent in BELOW.items():
        draft = Draft("for all", Scope.GLOBAL, name, "workspace:x")
        found = world.refusal_or(world.writer.commit(ids[name], draft))
        assert (found is ScopeForbidden) == (parent is not None), name
    moved = world.registry.living(ids["other root"])
    world.registry.put(msgspec.structs.replace(moved, parent_id=ids["lead"], rev=2))
    assert world.refusal_or(world.writer.commit(ids["other root"], draft)) is ScopeForbidden
    assert world.recall(ids["nephew"], scope=Scope.GLOBAL) == ["for all", "for all"]


@requirement("M36")
def test_a_move_changes_at_once_who_reads_what_a_team_knows(world: World) -> None:
    ids = people(world)
    world.commit(ids["own"], "ours", Scope.TEAM)
    assert world.recall(ids["nephew"]) == []
    nephew = world.registry.living(ids["nephew"])
    world.registry.put(msgspec.structs.replace(nephew, parent_id=ids["own"], rev=2))
    assert world.recall(ids["nephew"]) == world.recall(ids["nephew"], "ours") == ["ours"]
    world.registry.put(msgspec.structs.replace(nephew, rev=3))
    assert world.recall(ids["nephew"]) == world.recall(ids["nephew"], "ours") == []


@requirement("M36")
@pytest.mark.parametrize("scope", Scope)
def test_what_a_removed_workspace_remembered_goes_with_it(world: World, scope: Scope) -> None:
    ids = people(world)
    author = ids["other root"]
    kept = [world.commit(ids["lead"], f"kept {number}", Scope.TEAM).content for number in range(2)]
    memory = [world.commit(author, f"gone {number}", scope) for number in range(5)][-1]
    seat = world.registry.living(author)
    world.registry.put(msgspec.structs.replace(seat, removed_at=1, rev=2))
    reader = ids["lead"]
    for most in (1, 2, 3, 50):  # whole pages of what is gone do not hide what is behind them
        assert world.recall(reader, most=most) == world.recall(reader, "kept", most=most) == kept[::-1][:most]
    assert world.recall(reader, "gone") == world.recall(reader, scope=Scope.GLOBAL) == []
    assert world.refusal_or(world.reader.find(reader, memory.id)) is NotFound
    assert world.refusal_or(world.writer.forget(reader, memory.id)) is NotFound
    assert world.refusal_or(world.writer.forget(author, memory.id)) is WorkspaceRemoved
    assert world.refusal_or(world.writer.commit(author, Draft("x", scope, "", ""))) is WorkspaceRemoved


@requirement("M36", "S8", "S13")
def test_only_its_author_forgets_a_memory_and_who_cannot_read_it_learns_nothing(world: World) -> None:
    ids = people(world)
    memory = world.commit(ids["own"], "ours", Scope.TEAM)
    for name, id_ in ids.items():
        if name == "own":
            continue
        reads = name in READ_BY["own", Scope.TEAM]
        assert world.refusal_or(world.writer.forget(id_, memory.id)) is (MemoryOfAnother if reads else NotFound)
        cursor = world.refusal_or(world.reader.recall(id_, Wish(None, None, None, memory.id, 5)))
        assert cursor == [] if reads else cursor is CursorGone
    assert world.recall(ids["own"]) == ["ours"]
    world.run(world.writer.forget(ids["own"], memory.id))
    assert world.recall(ids["own"]) == world.recall(ids["own"], "ours") == []
    assert world.refusal_or(world.writer.forget(ids["own"], memory.id)) is NotFound


@requirement("M36")
def test_pages_go_back_without_a_gap_and_without_a_double_whatever_comes_meanwhile(world: World) -> None:
    ids = people(world)
    said = []
    for number in range(23):
        author = ("own", "lead", "sibling", "child")[number % 4]
        said.append(world.commit(ids[author], f"plum {number}", Scope.TEAM).content)
    for text in (None, "plum"):
        read, before = list[str](), None
        while True:
            wish = Wish(text, None, None, before, 4)
            page = world.run(world.reader.recall(ids["own"], wish))
            read += [each.content for each in page]
            if not page:
                break
            before = page[-1].id
            world.commit(ids["own"], f"plum later {len(read)} {text}", Scope.LOCAL)
        assert read[-23:] == said[::-1]
        assert len(read) == len(set(read))


@requirement("M36", "M3")
@given(forest=forests(subtrees=True), data=st.data())
@examples(200)
def test_in_every_tree_a_shelf_is_readable_as_its_scope_says(forest: Forest, data: st.DataObject) -> None:
    reader, author = (data.draw(st.sampled_from(forest.seats)) for _ in range(2))
    readable = set(shelves_of(forest.tree, reader.id, None))
    expected = {
        Scope.LOCAL: reader.id == author.id,
        Scope.TEAM: reader.id == author.id or author.id in {each.id for each in peers(forest.tree, reader)},
        Scope.GLOBAL: reader.org_id == author.org_id,
    }
    for scope in Scope:
        shelf = shelf_of(scope, author.id, author.org_id)
        gone = author.removed and reader.id != author.id and scope is Scope.TEAM
        assert (shelf in readable) == (expected[scope] and not gone)
        assert (shelf in shelves_of(forest.tree, reader.id, scope)) == (shelf in readable)
    assert shelves_of(forest.tree, "nobody", None) == []
