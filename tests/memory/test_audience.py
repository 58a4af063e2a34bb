"""Who reads which memory: the whole matrix of scopes and relations, and that nothing crosses an organisation."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import CursorNotFound, MemoryNotOwned, NotFound, ScopeForbidden, WorkspaceRemoved
from molecule_core.memory.model import MemoryDraft, MemoryScope, RecallQuery
from molecule_core.memory.rules import partition_of, readable_partitions
from molecule_core.org.rules import peers
from testing.machines.memory_store import World
from testing.org_trees import Forest, forests
from testing.step_counts import examples
from tests.requirements import requirement

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
    ("own", MemoryScope.LOCAL): set(),
    ("own", MemoryScope.TEAM): {"lead", "sibling", "child"},
    ("lead", MemoryScope.LOCAL): set(),
    ("lead", MemoryScope.TEAM): {"other root", "own", "sibling"},
    ("lead", MemoryScope.GLOBAL): set(BELOW) - {"lead"},
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
        for scope_of_others in set(MemoryScope) - {scope}:
            assert world.recall(ids[author], f"kiwi {author} {scope.value}", scope=scope_of_others) == []


@requirement("M36")
def test_only_a_workspace_at_the_top_writes_for_all_and_leaves_it_when_it_moves(world: World) -> None:
    ids, draft = people(world), MemoryDraft("for all", MemoryScope.GLOBAL, "", "workspace:x")
    for name, parent in BELOW.items():
        draft = MemoryDraft("for all", MemoryScope.GLOBAL, name, "workspace:x")
        found = world.refusal_or(world.writer.save_memory(ids[name], draft))
        assert (found is ScopeForbidden) == (parent is not None), name
    moved = world.registry.active_workspace(ids["other root"])
    world.registry.put_workspace(msgspec.structs.replace(moved, parent_id=ids["lead"], rev=2))
    assert world.refusal_or(world.writer.save_memory(ids["other root"], draft)) is ScopeForbidden
    assert world.recall(ids["nephew"], scope=MemoryScope.GLOBAL) == ["for all", "for all"]


@requirement("M36")
def test_a_move_changes_at_once_who_reads_what_a_team_knows(world: World) -> None:
    ids = people(world)
    world.commit(ids["own"], "ours", MemoryScope.TEAM)
    assert world.recall(ids["nephew"]) == []
    nephew = world.registry.active_workspace(ids["nephew"])
    world.registry.put_workspace(msgspec.structs.replace(nephew, parent_id=ids["own"], rev=2))
    assert world.recall(ids["nephew"]) == world.recall(ids["nephew"], "ours") == ["ours"]
    world.registry.put_workspace(msgspec.structs.replace(nephew, rev=3))
    assert world.recall(ids["nephew"]) == world.recall(ids["nephew"], "ours") == []


@requirement("M36")
@pytest.mark.parametrize("scope", MemoryScope)
def test_what_a_removed_workspace_remembered_goes_with_it(world: World, scope: MemoryScope) -> None:
    ids = people(world)
    author = ids["other root"]
    kept = [world.commit(ids["lead"], f"kept {number}", MemoryScope.TEAM).content for number in range(2)]
    memory = [world.commit(author, f"gone {number}", scope) for number in range(5)][-1]
    seat = world.registry.active_workspace(author)
    world.registry.put_workspace(msgspec.structs.replace(seat, removed_at=1, rev=2))
    reader = ids["lead"]
    for most in (1, 2, 3, 50):  # whole pages of what is gone do not hide what is behind them
        assert world.recall(reader, most=most) == world.recall(reader, "kept", most=most) == kept[::-1][:most]
    assert world.recall(reader, "gone") == world.recall(reader, scope=MemoryScope.GLOBAL) == []
    assert world.refusal_or(world.reader.find(reader, memory.id)) is NotFound
    assert world.refusal_or(world.writer.delete_memory(reader, memory.id)) is NotFound
    assert world.refusal_or(world.writer.delete_memory(author, memory.id)) is WorkspaceRemoved
    assert world.refusal_or(world.writer.save_memory(author, MemoryDraft("x", scope, "", ""))) is WorkspaceRemoved


@requirement("M36", "S8", "S13")
def test_only_its_author_forgets_a_memory_and_who_cannot_read_it_learns_nothing(world: World) -> None:
    ids = people(world)
    memory = world.commit(ids["own"], "ours", MemoryScope.TEAM)
    for name, id_ in ids.items():
        if name == "own":
            continue
        reads = name in READ_BY["own", MemoryScope.TEAM]
        assert world.refusal_or(world.writer.delete_memory(id_, memory.id)) is (MemoryNotOwned if reads else NotFound)
        cursor = world.refusal_or(world.reader.recall(id_, RecallQuery(None, None, None, memory.id, 5)))
        assert cursor == [] if reads else cursor is CursorNotFound
    assert world.recall(ids["own"]) == ["ours"]
    world.run(world.writer.delete_memory(ids["own"], memory.id))
    assert world.recall(ids["own"]) == world.recall(ids["own"], "ours") == []
    assert world.refusal_or(world.writer.delete_memory(ids["own"], memory.id)) is NotFound


@requirement("M36")
def test_pages_go_back_without_a_gap_and_without_a_double_whatever_comes_meanwhile(world: World) -> None:
    ids = people(world)
    said = []
    for number in range(23):
        author = ("own", "lead", "sibling", "child")[number % 4]
        said.append(world.commit(ids[author], f"plum {number}", MemoryScope.TEAM).content)
    for text in (None, "plum"):
        read, before = list[str](), None
        while True:
            wish = RecallQuery(text, None, None, before, 4)
            page = world.run(world.reader.recall(ids["own"], wish))
            read += [each.content for each in page]
            if not page:
                break
            before = page[-1].id
            world.commit(ids["own"], f"plum later {len(read)} {text}", MemoryScope.LOCAL)
        assert read[-23:] == said[::-1]
        assert len(read) == len(set(read))


@requirement("M36", "M3")
@given(forest=forests(subtrees=True), data=st.data())
@examples(200)
def test_in_every_tree_a_shelf_is_readable_as_its_scope_says(forest: Forest, data: st.DataObject) -> None:
    reader, author = (data.draw(st.sampled_from(forest.seats)) for _ in range(2))
    readable = set(readable_partitions(forest.tree, reader.id, None))
    expected = {
        MemoryScope.LOCAL: reader.id == author.id,
        MemoryScope.TEAM: reader.id == author.id or author.id in {each.id for each in peers(forest.tree, reader)},
        MemoryScope.GLOBAL: reader.org_id == author.org_id,
    }
    for scope in MemoryScope:
        shelf = partition_of(scope, author.id, author.org_id)
        gone = author.removed and reader.id != author.id and scope is MemoryScope.TEAM
        assert (shelf in readable) == (expected[scope] and not gone)
        assert (shelf in readable_partitions(forest.tree, reader.id, scope)) == (shelf in readable)
    assert readable_partitions(forest.tree, "nobody", None) == []
