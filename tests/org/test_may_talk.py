"""Who may talk to whom: one rule, compared with a model of ten lines on random forests."""

import pytest
from hypothesis import given

from molecule_core.org.model import Workspace
from molecule_core.org.rules import ancestors, are_related, may_talk, neighbours, subtree
from testing.org_trees import Forest, forest, forests, seat
from testing.step_counts import examples
from tests.requirements import requirement


def model(found: Forest, one: Workspace, other: Workspace) -> bool:
    """The rule of `are_related`, over the roads to the root."""
    if one.removed or other.removed or one.org_id != other.org_id:
        return False
    up, other_up = _road(found, one), _road(found, other)
    itself = up[0] == other_up[0]
    parent_or_child = up[0] in other_up[1:2] or other_up[0] in up[1:2]
    siblings = up[1:] == other_up[1:]
    above_or_below = up[0] in other_up or other_up[0] in up
    return itself or parent_or_child or siblings or (found.skip[one.org_id] and above_or_below)


def _road(found: Forest, workspace: Workspace) -> list[str]:
    """The ids from a workspace up to its root."""
    by_id = {each.id: each for each in found.seats}
    road = [workspace.id]
    while (above := by_id[road[-1]].parent_id) is not None:
        road.append(above)
    return road


@requirement("M3")
@examples(300)
@given(forests())
def test_the_rule_says_what_its_model_says(found: Forest) -> None:
    for one in found.seats:
        for other in found.seats:
            assert may_talk(found.tree, one, other) == model(found, one, other), (one.id, other.id)


@requirement("M3", "M32")
@examples(300)
@given(forests(subtrees=True))
def test_the_neighbours_are_all_whom_the_rule_lets_a_seat_talk_to(found: Forest) -> None:
    """What live channels ask instead of the rule, where many listen. The way up may hold removed seats."""
    for one in (each for each in found.seats if not each.removed):
        listed = [each for each in neighbours(found.tree, one) if not each.removed]
        assert len({each.id for each in listed}) == len(listed)
        assert {each.id for each in listed} | {one.id} == {
            other.id for other in found.seats if may_talk(found.tree, one, other)
        }


@examples(100)
@given(forests())
def test_the_rule_is_the_same_in_both_directions_and_everybody_may_write_to_oneself(found: Forest) -> None:
    for one in found.seats:
        assert may_talk(found.tree, one, one) is not one.removed
        for other in found.seats:
            assert may_talk(found.tree, one, other) is may_talk(found.tree, other, one)


@requirement("M3", "S8")
@examples(100)
@given(forests())
def test_nothing_crosses_an_organisation_and_nobody_talks_to_the_removed(found: Forest) -> None:
    for one in found.seats:
        for other in found.seats:
            if may_talk(found.tree, one, other):
                assert one.org_id == other.org_id
                assert not one.removed
                assert not other.removed


@examples(100)
@given(forests(may_skip=False))
def test_skipping_a_level_only_ever_adds_ancestors_and_descendants(found: Forest) -> None:
    open_doors = forest(found.seats, red=True, blue=True)
    for one in found.seats:
        for other in found.seats:
            if may_talk(found.tree, one, other):
                assert may_talk(open_doors.tree, one, other)
            elif may_talk(open_doors.tree, one, other):
                roads = [{each.id for each in ancestors(found.tree, seat)} for seat in (one, other)]
                assert other.id in roads[0] or one.id in roads[1]


COMPANY = [
    seat("ceo"),
    seat("lead a", parent_id="ceo"),
    seat("lead b", parent_id="ceo"),
    seat("worker a", parent_id="lead a"),
    seat("worker b", parent_id="lead b"),
    seat("other root"),
    seat("gone", parent_id="ceo", removed_at=1),
    seat("stranger", "blue"),
]
# (one, other, whether they may talk, whether they may if levels may be skipped)
CASES = [
    ("ceo", "ceo", True, True),
    ("ceo", "lead a", True, True),
    ("lead a", "lead b", True, True),
    ("ceo", "other root", True, True),
    ("ceo", "worker a", False, True),
    ("worker a", "worker b", False, False),
    ("lead a", "worker b", False, False),
    ("lead a", "other root", False, False),
    ("worker a", "other root", False, False),
    ("ceo", "gone", False, False),
    ("lead a", "gone", False, False),
    ("gone", "gone", False, False),
    ("ceo", "stranger", False, False),
    ("other root", "stranger", False, False),
]


@requirement("M3")
@pytest.mark.parametrize(("one", "other", "usually", "skipping"), CASES)
def test_a_company_talks_along_its_lines(one: str, other: str, usually: bool, skipping: bool) -> None:
    by_id = {each.id: each for each in COMPANY}
    for red, expected in ((False, usually), (True, skipping)):
        tree = forest(COMPANY, red=red, blue=True).tree
        assert may_talk(tree, by_id[one], by_id[other]) is expected
        assert may_talk(tree, by_id[other], by_id[one]) is expected


def test_the_switch_of_one_organisation_does_not_open_another() -> None:
    chain = [seat("r"), seat("r1", parent_id="r"), seat("r2", parent_id="r1")]
    chain += [seat("b", "blue"), seat("b1", "blue", "b"), seat("b2", "blue", "b1")]
    tree = forest(chain, red=True).tree
    assert may_talk(tree, chain[0], chain[2])
    assert not may_talk(tree, chain[3], chain[5])


def test_the_removed_stay_related_so_that_their_peers_may_be_told() -> None:
    by_id = {each.id: each for each in COMPANY}
    tree = forest(COMPANY).tree
    assert are_related(tree, by_id["lead a"], by_id["gone"])
    assert not are_related(tree, by_id["worker a"], by_id["gone"])


@examples(100)
@given(forests(subtrees=True))
def test_a_subtree_is_a_seat_and_all_alive_below_it_parents_first(found: Forest) -> None:
    for top in found.seats:
        if top.removed:
            continue
        ids = [each.id for each in subtree(found.tree, top)]
        assert sorted(ids) == sorted(
            each.id for each in found.seats if not each.removed and top.id in _road(found, each)
        )
        places = {id_: place for place, id_ in enumerate(ids)}
        assert all(
            places[each.parent_id] < places[each.id]
            for each in found.seats
            if each.id in places and each.id != top.id and each.parent_id is not None
        )
