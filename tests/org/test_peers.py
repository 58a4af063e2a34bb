"""Whom a workspace sees as its peers: those it may talk to, nearest first."""

from hypothesis import given

from molecule_core.org.rules import may_talk, peers
from testing.org_trees import Forest, forest, forests, seat
from testing.step_counts import examples
from tests.requirements import requirement


def _alive(found: Forest) -> list[str]:
    return [each.id for each in found.seats if not each.removed]


@requirement("M3")
@examples(200)
@given(forests(may_skip=False, subtrees=True))
def test_peers_are_exactly_those_one_may_talk_to(found: Forest) -> None:
    for one in found.seats:
        if not one.removed:
            ids = [each.id for each in peers(found.tree, one)]
            assert len(ids) == len(set(ids))
            assert sorted(ids) == sorted(
                other.id for other in found.seats if other.id != one.id and may_talk(found.tree, one, other)
            )


@examples(100)
@given(forests(subtrees=True))
def test_everybody_in_the_list_may_be_written_to_whatever_the_organisation_allows(found: Forest) -> None:
    for one in found.seats:
        if not one.removed:
            assert all(may_talk(found.tree, one, other) for other in peers(found.tree, one))
            assert one.id not in {other.id for other in peers(found.tree, one)}


def test_siblings_come_first_then_children_then_the_parent_each_oldest_first() -> None:
    found = forest(
        [
            seat("ceo"),
            seat("lead a", parent_id="ceo"),
            seat("me", parent_id="ceo"),
            seat("lead b", parent_id="ceo"),
            seat("gone", parent_id="ceo", removed_at=1),
            seat("worker 1", parent_id="me"),
            seat("worker 2", parent_id="me"),
            seat("gone too", parent_id="me", removed_at=1),
            seat("stranger", "blue"),
        ]
    )
    me = found.seats[2]
    assert [each.id for each in peers(found.tree, me)] == ["lead a", "lead b", "worker 1", "worker 2", "ceo"]


def test_the_peers_of_a_root_are_the_other_roots_of_its_organisation_and_its_children() -> None:
    found = forest([seat("one"), seat("two"), seat("below", parent_id="one"), seat("foreign", "blue")])
    assert [each.id for each in peers(found.tree, found.seats[0])] == ["two", "below"]
    assert [each.id for each in peers(found.tree, found.seats[3])] == []


def test_a_seat_that_moves_or_goes_changes_the_peers_of_others() -> None:
    found = forest([seat("one"), seat("two"), seat("below", parent_id="one")])
    tree, one = found.tree, found.seats[0]
    tree.put_workspace(seat("below", parent_id="two"))
    assert [each.id for each in peers(tree, one)] == ["two"]
    tree.put_workspace(seat("two", removed_at=1))
    assert peers(tree, one) == []
    assert _alive(found) == ["one", "two", "below"]
