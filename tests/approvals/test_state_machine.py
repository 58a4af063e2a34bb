"""Approvals against the plain account of one that `prove approvals` has: whatever is asked for, decided, asked back,
used, taken back, moved and waited for. What that account does not know (keys, rules, lists, letters) is said here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from molecule_core.store.queries import Query
from testing.engines import ENGINES
from testing.machines.approval_store import Ladder, ladder_on
from testing.machines.approvals import LIMITS, STEPS_A_STORY, ApprovalMachine
from testing.step_counts import STEPS
from tests.requirements import requirement


@pytest.fixture(scope="module", params=ENGINES)
def ladder(request: pytest.FixtureRequest, postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    """One ladder for all stories; each has an organisation of its own."""
    with ladder_on(request.param, tmp_path_factory.mktemp("ladder"), postgres, LIMITS) as ready:
        yield ready


@requirement("Q1", "Q2", "Q3", "Q4", "Q5", "Q7")
def test_approvals_do_what_their_model_does(ladder: Ladder) -> None:
    told = settings(max_examples=max(1, STEPS // STEPS_A_STORY), stateful_step_count=STEPS_A_STORY, deadline=None)
    machines = list[ApprovalMachine]()

    def machine() -> ApprovalMachine:
        machines.append(ApprovalMachine(ladder))
        return machines[-1]

    run_state_machine_as_test(cast(Any, machine), settings=told)
    assert any(each.asked for each in machines)


@requirement("Q3")
@pytest.mark.parametrize(("who", "decision"), [("ann", "more_info"), ("holder", "more_info"), ("holder", "escalate")])
def test_what_a_removed_seat_has_asked_for_is_taken_back_whatever_somebody_says_of_it_before(
    ladder: Ladder, who: str, decision: str
) -> None:
    machine = ApprovalMachine(ladder)
    for asker in (3, 1, 0):
        machine.ask(who=asker, action="mail", to="Ann", cost=None, expires=None, key=None, by_rule=False)
    machine.remove(sure=3)
    if decision == "more_info":
        machine.ask_back(which=2, who=who)
    else:
        machine.decide(which=2, who=who, decision=decision, to=None)
    machine.fire()
    machine.the_store_says_what_the_model_says()
    assert [each.model.status for each in machine.asked] == ["withdrawn", "pending", "pending"]


@requirement("Q4")
def test_a_reply_to_an_earlier_question_does_not_answer_the_one_that_is_open(ladder: Ladder) -> None:
    machine = ApprovalMachine(ladder)
    machine.ask(who=3, action="mail", to="Ann", cost=None, expires=None, key=None, by_rule=False)
    for _ in range(2):
        machine.act_anyhow(which=0, how="route")  # the first question is answered, but not by a reply to its message
        machine.ask_back(which=0, who="holder")
        machine.the_store_says_what_the_model_says()
    machine.act_anyhow(which=0, how="late")
    machine.the_store_says_what_the_model_says()
    assert machine.asked[0].model.status == "info_requested"


@requirement("Q4")
@pytest.mark.parametrize("how", ["reply", "route"])
@pytest.mark.parametrize("then", ["passed on", "moved"])
def test_a_question_is_answered_though_the_requester_may_not_talk_to_who_asked(
    ladder: Ladder, then: str, how: str
) -> None:
    machine = ApprovalMachine(ladder)
    machine.ask(who=3, action="mail", to="Ann", cost=None, expires=None, key=None, by_rule=False)
    if then == "passed on":
        machine.decide(0, "holder", "escalate", None)
    machine.ask_back(0, "holder")
    machine.the_store_says_what_the_model_says()
    if then == "moved":
        machine.last.parent = machine.seats[2]
        machine.does(ladder.moves(machine.last.id, machine.seats[2].id))
    machine.answer(0, how, None)
    machine.the_store_says_what_the_model_says()
    assert [(each.model.status, each.model.revision) for each in machine.asked] == [("pending", 2)]


def _story(ladder: Ladder) -> list[str]:
    """One story by hand, which comes by everything that the controls below change; how its approvals stand."""
    machine = ApprovalMachine(ladder)

    def asks(key: str | None, to: str) -> None:
        machine.ask(who=3, action="mail", to=to, cost=None, expires=None, key=key, by_rule=key is None)

    def says(who: str, decision: str) -> None:
        machine.decide(which=0, who=who, decision=decision, to=None)

    acts: list[Any] = [
        *(lambda: asks("k", "Ann"), lambda: asks("k", "Ann"), lambda: machine.claim(1)),
        *(lambda: machine.ask_back(0, "holder"), lambda: machine.claim(3), lambda: machine.answer(0, "reply", None)),
        *(lambda: machine.claim(1), lambda: machine.wait(120), lambda: says("ann", "approve")),
        *(lambda: machine.use(0, key="u"), lambda: machine.use(0, key=None)),
        *(lambda: asks(None, "Bob"), lambda: says("holder", "approve"), lambda: asks(None, "Bob")),
        *(lambda: machine.use(0, key=None), lambda: asks(None, "Bob"), lambda: machine.wait(3_600)),
    ]
    for act in acts:
        act()
        machine.the_store_says_what_the_model_says()
        machine.the_lists_say_so_too()
    return [each.model.status for each in machine.asked]


def test_the_story_of_the_controls_goes_well_with_the_product_as_it_is(ladder: Ladder) -> None:
    assert _story(ladder) == ["approved", "approved", "expired"]


@pytest.mark.parametrize(
    ("query", "by_what"),
    [
        ("approval_open_same", ("used_at IS NULL", "used_at IS NOT NULL")),
        ("approvals_to_decide", ("h.workspace_id = :workspace_id", "h.workspace_id = 'none'")),
        ("close_obligation", ("AND state = 'open'", "AND state = 'closed'")),
        ("save_approval", ("used_at = :used_at", "used_at = used_at")),
        ("save_approval", ("level_at = :level_at", "level_at = level_at")),
    ],
)
def test_the_model_finds_out_a_hand_that_forgets_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, by_what: tuple[str, str]
) -> None:
    """The controls: the product with one statement changed."""
    with ladder_on("sqlite", tmp_path, "", LIMITS) as ladder:
        text = ladder.store._queries[query].text
        pieces = text.replace("\n    ", " ")
        assert by_what[0] in pieces
        monkeypatch.setitem(ladder.store._queries, query, Query(query, pieces.replace(*by_what), "sqlite"))
        with pytest.raises(AssertionError):
            _story(ladder)
