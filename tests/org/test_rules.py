"""Promises about the org that hold for every tree: order of peers, what skipping adds, names, health, cards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import InvalidName
from molecule_core.common.text import unique_name, validate_name
from molecule_core.org.model import AgentSignal, Heartbeat, Workspace, WorkspaceStatus
from molecule_core.org.rules import (
    DEGRADED_ERROR_RATE,
    HEALTHY_ERROR_RATE,
    ancestors,
    classify_heartbeat,
    is_same_json,
    may_talk,
    next_status,
    peers,
    with_readable_name,
)
from testing.org_trees import Forest, forest, forests, seat
from testing.step_counts import examples
from tests.requirements import requirement

RESTING = (WorkspaceStatus.PAUSED, WorkspaceStatus.HIBERNATED, WorkspaceStatus.REMOVED)
BADLY_HIDDEN = ["\x00", "\x1b", "\u200b", "\u200f", "\u202e", "\u2066", "\u2028", "\ufeff", "\U000e0041", "\ud800"]


def talkers(found: Forest) -> set[tuple[str, str]]:
    """All pairs that may talk."""
    return {(one.id, other.id) for one in found.seats for other in found.seats if may_talk(found.tree, one, other)}


def line_of(found: Forest, below: Workspace) -> list[str]:
    """The ids above a seat, nearest first, read from the seats themselves."""
    by_id = {each.id: each for each in found.seats}
    line: list[str] = []
    parent_id = below.parent_id
    while parent_id is not None:
        line.append(parent_id)
        parent_id = by_id[parent_id].parent_id
    return line


@requirement("M3")
@examples(150)
@given(forests(subtrees=True))
def test_siblings_come_before_children_and_the_parent_last_in_every_tree(found: Forest) -> None:
    alive = [each for each in found.seats if not each.removed]
    for one in alive:
        siblings = [
            each.id for each in alive if (each.org_id, each.parent_id) == (one.org_id, one.parent_id) and each != one
        ]
        children = [each.id for each in alive if each.parent_id == one.id]
        parent = [one.parent_id] if one.parent_id is not None else []
        assert [each.id for each in peers(found.tree, one)] == siblings + children + parent


@requirement("M3", "S8")
@examples(150)
@given(forests(may_skip=False))
def test_skipping_levels_adds_exactly_all_that_are_further_up_or_down(found: Forest) -> None:
    switched_on = forest(found.seats, red=True, blue=True)
    alive = [each for each in found.seats if not each.removed]
    further = {(one.id, above) for one in alive for above in line_of(found, one)[1:]}
    living = {each.id for each in alive}
    wanted = {pair for one, above in further if above in living for pair in ((one, above), (above, one))}
    assert talkers(switched_on) - talkers(found) == wanted
    assert talkers(found) <= talkers(switched_on)
    org_of = {each.id: each.org_id for each in found.seats}
    assert all(org_of[one] == org_of[other] for one, other in talkers(switched_on))


@requirement("M3")
@examples(100)
@given(forests())
def test_the_ancestors_lead_from_the_parent_up_to_the_root(found: Forest) -> None:
    for one in found.seats:
        assert [each.id for each in ancestors(found.tree, one)] == line_of(found, one)


@requirement("M2")
@pytest.mark.parametrize("status", [WorkspaceStatus.ONLINE, WorkspaceStatus.DEGRADED])
def test_a_silent_external_agent_is_awaited_and_a_silent_own_one_offline(status: WorkspaceStatus) -> None:
    assert next_status(seat("w", status=status), AgentSignal.SILENT) is WorkspaceStatus.OFFLINE
    assert next_status(seat("w", status=status, external=True), AgentSignal.SILENT) is WorkspaceStatus.AWAITING_AGENT


@requirement("M2")
@pytest.mark.parametrize("status", [each for each in WorkspaceStatus if each not in RESTING])
@pytest.mark.parametrize("external", [False, True])
def test_one_good_heartbeat_heals_whatever_was_before(status: WorkspaceStatus, external: bool) -> None:
    assert next_status(seat("w", status=status, external=external), AgentSignal.HEALTHY) is WorkspaceStatus.ONLINE


@requirement("M2")
@pytest.mark.parametrize("status", RESTING)
@pytest.mark.parametrize("what", AgentSignal)
def test_nothing_heard_moves_what_somebody_put_to_rest(status: WorkspaceStatus, what: AgentSignal) -> None:
    for external in (False, True):
        assert next_status(seat("w", status=status, external=external), what) is status


@requirement("M2")
@examples(100)
@given(st.floats(0, 1), st.booleans())
def test_between_the_two_thresholds_online_and_degraded_stay_as_they_are(error_rate: float, wedged: bool) -> None:
    what = classify_heartbeat(Heartbeat(heard_at=1, error_rate=error_rate), wedged=wedged)
    after = {
        status: next_status(seat("w", status=status), what)
        for status in (WorkspaceStatus.ONLINE, WorkspaceStatus.DEGRADED)
    }
    if wedged or error_rate >= DEGRADED_ERROR_RATE:
        assert set(after.values()) == {WorkspaceStatus.DEGRADED}
    elif error_rate < HEALTHY_ERROR_RATE:
        assert set(after.values()) == {WorkspaceStatus.ONLINE}
    else:
        assert after == {
            WorkspaceStatus.ONLINE: WorkspaceStatus.ONLINE,
            WorkspaceStatus.DEGRADED: WorkspaceStatus.DEGRADED,
        }
    assert (DEGRADED_ERROR_RATE, HEALTHY_ERROR_RATE) == (0.5, 0.1)


@requirement("M5")
@examples(200)
@given(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=2, max_size=20),
    st.sampled_from(BADLY_HIDDEN),
    st.data(),
)
def test_a_hidden_character_is_found_at_any_place_within_a_name(name: str, bad: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(name) - 1))
    assert validate_name(name, 120) == name
    with pytest.raises(InvalidName, match=rf"U\+{ord(bad):04X}. Remove it"):
        validate_name(name[:place] + bad + name[place:], 120)


@requirement("M5")
@examples(100)
@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=130), st.integers(1, 15))
def test_every_clash_is_numbered_within_one_hundred_and_twenty_characters(name: str, clashes: int) -> None:
    name, taken = name[:120], set[str]()
    for number in range(1, clashes + 1):
        suffix = f" {number}" if number > 1 else ""
        found = unique_name(name, taken, 120)
        assert found == name[: 120 - len(suffix)] + suffix
        taken.add(found)


@requirement("M1")
@pytest.mark.parametrize(
    ("card", "shown"),
    [
        ({"name": "Scout"}, {"name": "Scout"}),
        (
            {"name": "agent 019c1f0e-0000-7000-8000-00000000000a"},
            {"name": "agent 019c1f0e-0000-7000-8000-00000000000a"},
        ),
        ({}, {"name": "Desk"}),
        ({"name": "  "}, {"name": "Desk"}),
        ({"name": None, "x": 1}, {"name": "Desk", "x": 1}),
        ({"name": 7}, {"name": "Desk"}),
        ({"name": "019C1F0E-0000-7000-8000-00000000000A"}, {"name": "Desk"}),
        ({"name": " 019c1f0e00007000800000000000000a "}, {"name": "Desk"}),
        ([1], [1]),
        (None, None),
    ],
)
def test_a_card_gets_the_name_of_its_seat_only_without_one(card: object, shown: object) -> None:
    before = repr(card)
    assert with_readable_name(card, "Desk") == shown
    assert repr(card) == before


@requirement("M1")
@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }', True),
        ('"\\u0061"', '"a"', True),
        ('{"a":1}', '{"a":2}', False),
        ("[1,2]", "[2,1]", False),
        (None, "null", False),
    ],
)
def test_two_texts_say_the_same_whatever_their_spelling(one: str | None, other: str, equal: bool) -> None:
    assert is_same_json(one, other) is equal
