"""What happens to a delegation, who stops one, and what is due: by the table, and against models of a few lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.model import (
    Ancestor,
    Delegation,
    DelegationPhase,
    DelegationState,
    DelegationTransition,
    DelegationTrigger,
    FailureReason,
    GuardRejection,
)
from molecule_core.org.model import NO_HEARTBEAT, Heartbeat
from molecule_core.org.model import WorkspaceStatus as Standing
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.step_counts import examples
from tests.architecture.repository import REPO
from tests.requirements import requirement

LIMITS = Limits()
NOW = 1_000_000 * SECOND
BEGUN = DelegationState(DelegationStatus.PENDING, DelegationPhase.WAITING)
ENDED = [status for status in DelegationStatus if status.is_ended]
HAPPENED = st.tuples(st.sampled_from(DelegationTrigger), st.integers(0, 4))
STORIES = st.lists(HAPPENED, max_size=25)
TELLING_THE_END = (rules.COMPLETE, rules.FAILED)


def row(**fields: object) -> Delegation:
    """A delegation that has just begun, but for these fields."""
    usual = Delegation(
        org_id="o",
        id="d",
        source_id="s",
        target_id="t",
        status=DelegationStatus.PENDING,
        phase=DelegationPhase.WAITING,
        rev=1,
        open=1,
        reason=None,
        error=None,
        task="sort the mail",
        task_hash="h",
        result=None,
        via=None,
        seq=1,
        activity_id="a",
        message_seq=1,
        result_id=None,
        result_seq=None,
        parent_id=None,
        root_id="d",
        root_no=1,
        depth=1,
        hop=0,
        chain_id="d",
        cause_id=None,
        context_id=None,
        recorded=0,
        begun_by="workspace:s",
        retry_of=None,
        attempt=0,
        created_at=NOW,
        updated_at=NOW,
        taken_at=None,
        life_at=NOW,
        settled_at=None,
        deadline_at=NOW + LIMITS.delegation_seconds * SECOND,
        unsure_at=None,
        wait_until=0,
    )
    return replace(usual, **fields)


def told(story: Sequence[tuple[DelegationTrigger, int]]) -> list[DelegationTransition]:
    """All that a story does, in order."""
    stands, deeds = BEGUN, list[DelegationTransition]()
    for fact, attempt in story:
        for deed in rules.transitions_for(stands, fact, attempt=attempt, reason=FailureReason.REFUSED):
            deeds.append(deed)
            stands = DelegationState(deed.status, deed.phase, deed.attempt)
    return deeds


# -- the table ---------------------------------------------------------------------------------------------------------


@requirement("D1")
def test_every_fact_stands_in_the_table_for_every_status() -> None:
    assert len(rules.TRANSITIONS) == len(DelegationTrigger) * len(DelegationStatus) == 168
    assert set(rules.TRANSITIONS) == {(fact, status) for fact in DelegationTrigger for status in DelegationStatus}


@requirement("D1")
@pytest.mark.parametrize("fact", DelegationTrigger)
@pytest.mark.parametrize("status", DelegationStatus)
def test_a_cell_never_leads_back_and_tells_what_it_changes(fact: DelegationTrigger, status: DelegationStatus) -> None:
    cell = rules.TRANSITIONS[fact, status]
    after = cell.status or status
    assert rules.STATUS_RANK[after] >= rules.STATUS_RANK[status]
    if status.is_ended:
        assert cell in (rules.NO_CHANGE, rules.LATE_RULE)
    elif cell != rules.NO_CHANGE:
        assert cell.phase is not None
        assert (cell.phase is DelegationPhase.ENDED) == after.is_ended == (cell.event in TELLING_THE_END)
        assert (cell.event == rules.COMPLETE) == (after is DelegationStatus.COMPLETED)
        assert (cell.event == rules.STATUS) == (not after.is_ended)
        has_a_reason = (
            after in (DelegationStatus.FAILED, DelegationStatus.CANCELLED)
            and fact is not DelegationTrigger.DELIVERY_FAILED
        )
        assert (cell.reason is not None) == has_a_reason


@requirement("D1")
def test_the_page_prints_the_table_and_the_reasons() -> None:
    page = (REPO / "docs" / "explanation" / "delegations.md").read_text(encoding="utf-8")
    assert rules.render_table() in page
    for reason, advice in rules.ADVICE.items():
        assert f"| `{reason}` | {advice} |" in page


@requirement("D1")
def test_every_reason_has_its_advice() -> None:
    assert set(rules.ADVICE) == set(FailureReason)
    assert rules.failure_text(FailureReason.REJECTED, "no time", "answer") == (
        "no time (rejected). The target declined. Read its reason, then delegate again or to another workspace."
    )


@requirement("D5")
@pytest.mark.parametrize(
    "fact",
    [
        DelegationTrigger.STORED,
        DelegationTrigger.PARKED,
        DelegationTrigger.BUSY,
        DelegationTrigger.ACCEPTED,
        DelegationTrigger.CLAIMED,
        DelegationTrigger.PROGRESS,
    ],
)
def test_what_is_queued_taken_or_worked_on_is_no_completion(fact: DelegationTrigger) -> None:
    for status in DelegationStatus:
        if not status.is_ended:
            assert all(
                not deed.status.is_ended
                for deed in rules.transitions_for(DelegationState(status, DelegationPhase.WAITING), fact)
            )


@requirement("D4", "D5")
def test_a_polling_target_is_told_as_dispatched_and_then_as_queued() -> None:
    assert rules.transitions_for(BEGUN, DelegationTrigger.STORED) == (
        DelegationTransition(DelegationStatus.DISPATCHED, DelegationPhase.WAITING, 0, rules.STATUS),
        DelegationTransition(DelegationStatus.QUEUED, DelegationPhase.WAITING, 0, rules.STATUS),
    )


@requirement("D8")
def test_a_busy_target_counts_as_no_attempt_and_the_next_send_does() -> None:
    story = [
        (DelegationTrigger.SENT, 1),
        (DelegationTrigger.BUSY, 1),
        (DelegationTrigger.SENT, 2),
        (DelegationTrigger.RETRY, 2),
        (DelegationTrigger.SENT, 3),
        (DelegationTrigger.ACCEPTED, 3),
    ]
    assert [(deed.status, deed.phase, deed.attempt, deed.is_claimed) for deed in told(story)] == [
        (DelegationStatus.DISPATCHED, DelegationPhase.SENDING, 1, False),
        (DelegationStatus.QUEUED, DelegationPhase.WAITING, 1, False),
        (DelegationStatus.QUEUED, DelegationPhase.SENDING, 2, False),
        (DelegationStatus.QUEUED, DelegationPhase.RETRYING, 2, False),
        (DelegationStatus.QUEUED, DelegationPhase.SENDING, 3, False),
        (DelegationStatus.QUEUED, DelegationPhase.CLAIMED, 3, True),
    ]


@requirement("D1")
def test_a_hand_over_that_is_told_twice_leads_no_work_back() -> None:
    story = [(DelegationTrigger.STORED, 0), (DelegationTrigger.CLAIMED, 1), (DelegationTrigger.PROGRESS, 0)]
    assert told([*story, (DelegationTrigger.CLAIMED, 1), (DelegationTrigger.SENT, 1)]) == told(story)
    assert told([*story, (DelegationTrigger.CLAIMED, 2)])[-1].phase is DelegationPhase.CLAIMED


@requirement("D1")
def test_what_was_given_back_and_comes_under_the_attempt_that_it_had_is_in_hand_again() -> None:
    """A reader by cursor gets it so. Told twice it changes nothing more."""
    story = [
        (DelegationTrigger.STORED, 0),
        (DelegationTrigger.CLAIMED, 2),
        (DelegationTrigger.RELEASED, 0),
        (DelegationTrigger.CLAIMED, 1),
    ]
    assert [(deed.phase, deed.attempt) for deed in told(story)][-2:] == [
        (DelegationPhase.WAITING, 2),
        (DelegationPhase.CLAIMED, 2),
    ]
    assert told([*story, (DelegationTrigger.CLAIMED, 1)]) == told(story)


@requirement("D8")
def test_what_is_unknown_after_the_send_is_resolved_by_an_answer_or_by_time() -> None:
    unsure = [(DelegationTrigger.SENT, 1), (DelegationTrigger.OUTCOME_UNKNOWN, 1)]
    assert told(
        [*unsure, (DelegationTrigger.SENT, 2), (DelegationTrigger.RETRY, 1), (DelegationTrigger.BUSY, 1)]
    ) == told(unsure)
    assert told([*unsure, (DelegationTrigger.ANSWERED, 0)])[-1].event == rules.COMPLETE
    assert told([*unsure, (DelegationTrigger.OUTCOME_UNKNOWN_TOO_LONG, 0)])[-1].reason is FailureReason.UNKNOWN_OUTCOME
    assert told([(DelegationTrigger.SENT, 1), (DelegationTrigger.OUTCOME_UNKNOWN_TOO_LONG, 0)]) == told(
        [(DelegationTrigger.SENT, 1)]
    )


@requirement("D1", "D7")
@examples(400)
@given(STORIES)
def test_whatever_happens_goes_forward_and_ends_once(story: list[tuple[DelegationTrigger, int]]) -> None:
    deeds = told(story)
    ends = [place for place, deed in enumerate(deeds) if deed.event in TELLING_THE_END]
    assert len(ends) <= 1
    if ends:
        assert all(deed.is_late and deed.event is None for deed in deeds[ends[0] + 1 :])
        assert len({deed.status for deed in deeds[ends[0] :]}) == 1
    ranks = [rules.STATUS_RANK[deed.status] for deed in deeds]
    assert ranks == sorted(ranks)
    assert all(one.attempt <= two.attempt for one, two in pairwise(deeds))
    assert all(deed.event is not None or deed.is_late for deed in deeds)


@requirement("D1")
@examples(400)
@given(STORIES, HAPPENED)
def test_the_same_fact_again_changes_nothing(
    story: list[tuple[DelegationTrigger, int]], happened: tuple[DelegationTrigger, int]
) -> None:
    once, twice = told([*story, happened]), told([*story, happened, happened])
    assert twice[: len(once)] == once
    assert all(deed.is_late for deed in twice[len(once) :])


@requirement("D1")
@examples(200)
@given(STORIES, st.randoms())
def test_events_in_any_order_end_where_the_last_one_left_it(
    story: list[tuple[DelegationTrigger, int]], chance: object
) -> None:
    """Who merges by rank, and by the number of the change where ranks are equal, is never led back."""
    events = [(rules.STATUS_RANK[deed.status], rev, deed) for rev, deed in enumerate(told(story)) if deed.event]
    shuffled = list(events)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    known = None
    for event in shuffled:
        known = event if known is None or event[:2] > known[:2] else known
    assert known == (events[-1] if events else None)


@requirement("D1")
@examples(200)
@given(STORIES)
def test_a2a_never_takes_a_work_for_unsent_that_somebody_has(story: list[tuple[DelegationTrigger, int]]) -> None:
    found, states = row(), list[str]()
    for deed in told(story):
        if not deed.is_late:
            taken_at = NOW if deed.is_claimed and found.taken_at is None else found.taken_at
            found = replace(found, status=deed.status, phase=deed.phase, reason=deed.reason, taken_at=taken_at)
        states.append(rules.a2a_state(found).replace("input-required", "working"))  # it has it, and asks
    order = ["submitted", "working", "completed", "failed", "rejected", "canceled"]
    places = [min(order.index(state), 2) for state in states]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"status": DelegationStatus.PENDING}, "submitted"),
        ({"status": DelegationStatus.QUEUED}, "submitted"),
        ({"status": DelegationStatus.UNKNOWN}, "submitted"),
        ({"status": DelegationStatus.QUEUED, "taken_at": 1}, "working"),
        ({"status": DelegationStatus.UNKNOWN, "taken_at": 1}, "working"),
        ({"status": DelegationStatus.QUEUED, "phase": DelegationPhase.ASKING, "taken_at": 1}, "input-required"),
        ({"status": DelegationStatus.COMPLETED}, "completed"),
        ({"status": DelegationStatus.FAILED, "reason": FailureReason.REJECTED, "taken_at": 1}, "rejected"),
        ({"status": DelegationStatus.FAILED, "reason": FailureReason.EXPIRED}, "failed"),
        ({"status": DelegationStatus.CANCELLED, "reason": FailureReason.CANCELLED}, "canceled"),
    ],
)
def test_each_status_has_its_word_in_a2a(fields: dict[str, object], state: str) -> None:
    assert rules.a2a_state(row(**fields)) == state


# -- the beginning -----------------------------------------------------------------------------------------------------


@requirement("D5")
@pytest.mark.parametrize(
    ("status", "active", "ahead", "is_parked"),
    [
        (Standing.ONLINE, 0, 0, False),
        (Standing.PROVISIONING, 0, 0, False),
        (Standing.ONLINE, 1, 0, True),
        (Standing.ONLINE, 0, 1, True),
        (Standing.PAUSED, 0, 0, True),
        (Standing.OFFLINE, 0, 0, True),
        (Standing.AWAITING_AGENT, 0, 0, True),
        (Standing.DEGRADED, 0, 0, True),
        (Standing.FAILED, 0, 0, True),
        (Standing.HIBERNATED, 0, 0, True),
    ],
)
def test_a_target_that_is_pushed_to_is_queued_at_once_if_it_cannot_take_it(
    status: Standing, active: int, ahead: int, is_parked: bool
) -> None:
    assert rules.must_park(status, is_limited=False, active=active, capacity=1, ahead=ahead) is is_parked
    assert rules.must_park(status, is_limited=True, active=active, capacity=1, ahead=ahead)


# -- guards ------------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from("abc")


@dataclass
class World:
    """A lineage, the parent first, and what is asked for below it."""

    lineage: list[Ancestor]
    target: str
    task: str
    children: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Ways down of a few levels between few workspaces with few tasks."""
    steps = draw(st.lists(st.tuples(NAMES, st.sampled_from("xy")), max_size=5))
    names, way = [draw(NAMES)], list[Ancestor]()
    for depth, (name, task) in enumerate(steps, 1):
        parent = way[0].id if way else None
        way.insert(0, Ancestor(f"d{depth}", parent, "d1", names[-1], name, task, depth, 1))
        names.append(name)
    return World(way, draw(NAMES), draw(st.sampled_from("xy")), draw(st.integers(0, 4)))


def limit_of(world: World, limits: Limits) -> str | None:
    """The model: who stops it, in words of sets."""
    where = {(each.task_hash, name) for each in world.lineage for name in (each.source_id, each.target_id)}
    if not world.lineage:
        return None
    if (world.task, world.target) in where:
        return "cycle"
    if len(world.lineage) + 1 > limits.delegation_depth:
        return "depth"
    return "children" if world.children >= limits.delegation_children else None


@requirement("D13", "S11")
@examples(400)
@given(worlds(), st.integers(1, 5), st.integers(1, 4))
def test_a_guard_stops_what_the_model_stops_and_says_by_how_much(world: World, depth: int, children: int) -> None:
    limits = Limits(delegation_depth=depth, delegation_children=children)
    found = rules.check_limits(world.lineage, world.target, world.task, world.children, limits)
    assert (None if found is None else found.limit) == limit_of(world, limits)
    if found is not None:
        assert found.use >= found.most >= 1
        assert found.what and found.remedy.endswith(".")


@requirement("D13")
def test_a_root_is_stopped_by_no_guard_and_a_whole_tree_by_its_numbers() -> None:
    assert rules.check_limits([], "t", "h", 10**6, LIMITS) is None
    full = rules.tree_limit_rejection(256, LIMITS)
    assert isinstance(full, GuardRejection)
    assert (full.limit, full.use, full.most) == ("root", 256, LIMITS.delegations_per_root)


@requirement("D9", "D13")
@examples(200)
@given(st.lists(st.text(), min_size=1, max_size=3), st.randoms())
def test_a_task_is_the_same_whatever_white_space_is_in_it(texts: list[str], chance: object) -> None:
    parts = [{"kind": "text", "text": text} for text in texts]
    spaced = [{"text": "  " + "\n\t ".join(text.split()) + " ", "kind": "text"} for text in texts]
    assert rules.task_hash(parts) == rules.task_hash(spaced)
    assert len(rules.task_hash(parts)) == 32
    assert rules.task_hash([*parts, {"kind": "text", "text": "x"}]) != rules.task_hash(parts)


@requirement("D9")
def test_files_and_data_are_part_of_a_task() -> None:
    text = {"kind": "text", "text": "sort"}
    one, other = ({"kind": "file", "file": {"uri": f"molecule://files/{name}"}} for name in "ab")
    tasks: list[list[dict[str, Any]]] = [[text], [text, one], [text, other], [one, text]]
    assert len({rules.task_hash(parts) for parts in tasks}) == 4


# -- time --------------------------------------------------------------------------------------------------------------


@requirement("D14")
def test_a_deadline_is_the_usual_one_or_the_one_that_is_named_and_never_too_far() -> None:
    assert rules.deadline_of(None, NOW, LIMITS) == NOW + 21_600 * SECOND
    assert rules.deadline_of(5, NOW, LIMITS) == NOW + 5 * SECOND
    assert rules.deadline_of(10**9, NOW, LIMITS) == NOW + LIMITS.delegation_most_seconds * SECOND


@requirement("D14")
def test_a_delegation_is_due_at_its_deadline_or_when_its_outcome_was_unknown_for_too_long() -> None:
    begun = row(deadline_at=NOW + 5000 * SECOND)
    assert rules.next_check_at(begun, NOW, LIMITS) == begun.deadline_at
    unsure = replace(begun, status=DelegationStatus.UNKNOWN, unsure_at=NOW)
    assert rules.next_check_at(unsure, NOW, LIMITS) == NOW + 900 * SECOND
    assert rules.next_check_at(replace(unsure, unsure_at=NOW + 4999 * SECOND), NOW, LIMITS) == begun.deadline_at
    for heard in (replace(unsure, phase=DelegationPhase.WORKING), replace(unsure, status=DelegationStatus.QUEUED)):
        assert rules.next_check_at(heard, NOW, LIMITS) == begun.deadline_at


@requirement("D11")
def test_a_delegation_with_a_parent_is_looked_at_soon_and_once() -> None:
    below = row(parent_id="p", deadline_at=NOW + 5000 * SECOND)
    assert rules.next_check_at(below, NOW, LIMITS) == NOW + rules.PARENT_CHECK_SECONDS * SECOND
    assert rules.next_check_at(below, NOW + rules.PARENT_CHECK_SECONDS * SECOND, LIMITS) == below.deadline_at


@requirement("D14")
@pytest.mark.parametrize(
    ("fields", "pulse", "seconds", "stuck"),
    [
        ({"taken_at": NOW}, NO_HEARTBEAT, 600, False),
        ({"taken_at": NOW}, NO_HEARTBEAT, 601, True),
        ({}, NO_HEARTBEAT, 10_000, False),
        ({"taken_at": NOW, "status": DelegationStatus.COMPLETED}, NO_HEARTBEAT, 601, False),
        ({"taken_at": NOW}, Heartbeat(NOW + 500 * SECOND), 601, True),
        ({"taken_at": NOW}, Heartbeat(NOW + 500 * SECOND, active_tasks=1), 601, False),
        ({"taken_at": NOW}, Heartbeat(NOW + 500 * SECOND, current_task="sorting"), 601, False),
        ({"taken_at": NOW}, Heartbeat(NOW - 1, active_tasks=1), 601, True),
        ({"taken_at": NOW, "life_at": NOW + 300 * SECOND}, NO_HEARTBEAT, 601, False),
    ],
)
def test_work_without_a_sign_of_life_for_ten_minutes_is_stuck(
    fields: dict[str, object], pulse: Heartbeat, seconds: int, stuck: bool
) -> None:
    found = rules.stuck_since(row(**fields), pulse, NOW + seconds * SECOND, LIMITS)
    assert (found is not None) == stuck


# -- words -------------------------------------------------------------------------------------------------------------


@requirement("D3")
@examples(300)
@given(st.text(st.sampled_from("aé€😀\n") | st.characters(exclude_categories=["Cs"])), st.integers(0, 60))
def test_a_preview_is_a_beginning_of_whole_letters_that_fits(text: str, most: int) -> None:
    short = rules.truncate_utf8(text, most)
    assert text.startswith(short)
    assert len(short.encode()) <= most
    if short != text:
        assert len(short.encode()) > most - 4


@requirement("D3")
def test_previews_are_as_long_as_they_are_said_to_be() -> None:
    assert (rules.TASK_PREVIEW, rules.RESPONSE_PREVIEW, rules.LIST_PREVIEW) == (100, 200, 300)
    assert len(rules.truncate_utf8("😀" * 100, rules.TASK_PREVIEW).encode()) == 100
