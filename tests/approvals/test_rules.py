"""Who is asked next and whose word counts: by the table, and against a model that was written apart from the rules."""

import hashlib
import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.approvals import rules
from molecule_core.approvals.model import (
    Approver,
    AuthorityCheck,
    Decider,
    DecisionCheck,
    DecisionKind,
    DecisionRequest,
    DecisionState,
    PartyKind,
)
from molecule_core.wire.schemas.approvals import ApprovalRule, ApprovalStatus, AuthorityGrant
from testing.step_counts import STEPS, USUAL_STEPS
from tests.architecture.repository import REPO
from tests.requirements import requirement

TREES = 10_000 * STEPS // USUAL_STEPS
PEOPLE = ("p1", "p2")


class Attempt(NamedTuple):
    """Somebody decides."""

    kind: PartyKind
    id: str
    decision: DecisionKind
    revision: int | None
    hashed: str | None = None
    holder: str | None = None


class Model:
    """What ought to be: a plain account of one approval, which knows nothing of the rules' words."""

    def __init__(self, requester: str, chain: list[Approver]) -> None:
        self.requester = requester
        self.left = [
            each for each in chain if not each.unreachable_reason and each.authority is not AuthorityCheck.EXCEEDS
        ]
        self.turn = self.left.pop(0).id if self.left else None
        self.had = set[str]() if self.turn is None else {self.turn}
        self.passed_on: set[str] = set()
        self.over: tuple[DecisionKind, str] | None = None
        self.asker: str | None = None
        self.revision = 1
        self.persons_passed = dict[str, set[str]]()
        self.is_above = True

    def next(self) -> None:
        self.turn = self.left.pop(0).id if self.left else None
        self.is_above = True
        self.had |= set() if self.turn is None else {self.turn}

    def takes(self, attempt: Attempt) -> str:
        """`yes`, `again` (the same by the same), or `no`."""
        is_person = attempt.kind is PartyKind.PERSON
        if not is_person and (attempt.id == self.requester or attempt.id not in self.had):
            return "no"
        if self.over is not None:
            return "again" if self.over == (attempt.decision, attempt.id) else "no"
        if not is_person and (attempt.id != self.turn or not self.is_above):
            is_again = attempt.decision is DecisionKind.ESCALATE and attempt.id in self.passed_on
            return "again" if is_again else "no"
        if attempt.decision is DecisionKind.MORE_INFO and self.asker is not None:
            return "again" if self.asker == attempt.id else "no"
        blind = (
            attempt.decision is DecisionKind.APPROVE and self.revision > 1 and not (attempt.revision or attempt.hashed)
        )
        if blind or attempt.revision not in (None, self.revision):
            return "no"
        return self.passes(attempt) if attempt.decision is DecisionKind.ESCALATE else "yes"

    def passes(self, attempt: Attempt) -> str:
        """Of who passes it on: a person once, unless it names whose turn it is."""
        is_person = attempt.kind is PartyKind.PERSON
        if is_person and attempt.holder is None and attempt.id in self.persons_passed:
            return "again"
        if is_person and attempt.holder not in (None, self.turn):
            return "again" if attempt.holder in self.persons_passed.get(attempt.id, ()) else "no"
        return "no" if self.turn is None else "yes"

    def does(self, attempt: Attempt) -> None:
        """It held."""
        if attempt.decision is DecisionKind.ESCALATE:
            if attempt.kind is PartyKind.PERSON:
                self.persons_passed.setdefault(attempt.id, set()).add(self.turn or "")
            self.passed_on.add(attempt.id)
            self.asker = None
            self.next()
        elif attempt.decision is DecisionKind.MORE_INFO:
            self.asker = attempt.id
        else:
            self.over = attempt.decision, attempt.id

    def stands(self) -> DecisionState:
        """The same as the rules see it."""
        ends = {DecisionKind.APPROVE: ApprovalStatus.APPROVED, DecisionKind.DENY: ApprovalStatus.DENIED}
        open_status = ApprovalStatus.PENDING if self.asker is None else ApprovalStatus.INFO
        status = open_status if self.over is None else ends[self.over[0]]
        kind = "person" if self.over is not None and self.over[1] in PEOPLE else "workspace"
        asker_kind = "person" if self.asker in PEOPLE else "workspace"
        return DecisionState(
            requester_id=self.requester,
            status=status,
            revision=self.revision,
            action_hash="h",
            holder_id=self.turn if self.over is None else None,
            asked_ids=frozenset(self.had),
            escalated_by=frozenset(self.passed_on),
            asker=None if self.asker is None else (asker_kind, self.asker),
            is_above=self.is_above,
            person_escalations=frozenset((who, over) for who, each in self.persons_passed.items() for over in each),
            decided=None if self.over is None else (self.over[0].value, kind, self.over[1]),
        )


def story(dice: random.Random, judge: Any = rules.check_decision) -> list[str]:
    """One random tree with deciders, replays, late words, answers and time-outs; what was taken wrongly."""
    chain = [
        Approver(
            f"w{n}",
            f"W{n}",
            dice.choice(["", "", "", "its agent is offline"]),
            is_root=False,
            authority=dice.choice([AuthorityCheck.NO_GRANT, AuthorityCheck.NO_GRANT, AuthorityCheck.EXCEEDS]),
        )
        for n in range(dice.randrange(0, 6))
    ]
    model, wrong = Model("me", chain), list[str]()
    everybody = [(PartyKind.WORKSPACE, each) for each in ("me", "stranger", *(each.id for each in chain))]
    everybody += [(PartyKind.PERSON, each) for each in PEOPLE]
    said = list[Attempt]()
    for _ in range(dice.randrange(1, 12)):
        happens = dice.random()
        if happens < 0.1 and model.over is None and model.turn is not None:
            model.asker = None
            model.next()
        elif happens < 0.25 and model.asker is not None and model.over is None:
            model.asker = None
            model.revision += 1
            model.persons_passed.clear()
        elif happens < 0.3:
            model.is_above = False
        replayed = bool(said) and dice.random() < 0.3
        revision = dice.choice([None, model.revision, model.revision, 1, 9])
        whom = dice.choice([None, model.turn, *(each.id for each in chain[:2])])
        fresh = Attempt(*dice.choice(everybody), dice.choice([*DecisionKind]), revision, dice.choice([None, "h"]), whom)
        attempt = dice.choice(said) if replayed else fresh
        said.append(attempt)
        wish = DecisionRequest(attempt.decision, attempt.revision, attempt.hashed, attempt.holder)
        found = judge(model.stands(), Decider(attempt.kind, attempt.id), wish)
        meant = model.takes(attempt)
        if {DecisionCheck.VALID: "yes", DecisionCheck.REPEATED: "again"}.get(found, "no") != meant:
            wrong.append(f"{attempt} was {found}, and ought to be {meant}")
        if meant == "yes":
            model.does(attempt)
        reached = rules.next_approver(chain, [each for each in model.had if each != model.turn])
        if model.over is None and (None if reached.approver is None else reached.approver.id) != model.turn:
            wrong.append(f"{reached} instead of {model.turn}")
    return wrong


@requirement("Q3", "Q5")
def test_in_ten_thousand_random_trees_no_decision_is_taken_wrongly() -> None:
    dice = random.Random(8)
    wrong = [each for _ in range(TREES) for each in story(dice)]
    assert wrong == []


@requirement("Q5")
@pytest.mark.parametrize(
    "hidden",
    [
        DecisionCheck.OWN_REQUEST,
        DecisionCheck.NOT_ASKED,
        DecisionCheck.ALREADY_DECIDED,
        DecisionCheck.REASSIGNED,
        DecisionCheck.CHANGED,
    ],
)
def test_a_broken_rule_is_found_by_the_model(hidden: DecisionCheck) -> None:
    """The control: a rule that takes what this one refuses is found wrong."""

    def broken(stands: DecisionState, by: Decider, wish: DecisionRequest) -> DecisionCheck:
        found = rules.check_decision(stands, by, wish)
        return DecisionCheck.VALID if found is hidden else found

    dice = random.Random(8)
    assert any(story(dice, broken) for _ in range(2000))


@requirement("Q5")
def test_a_decision_about_another_hash_is_about_another_thing() -> None:
    stands = Model("me", [Approver("w", "W", "", is_root=True)]).stands()
    wish = DecisionRequest(DecisionKind.APPROVE, 1, "another")
    assert rules.check_decision(stands, Decider(PartyKind.WORKSPACE, "w"), wish) is DecisionCheck.CHANGED


@requirement("Q4")
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=5), st.text())
def test_the_hash_tells_actions_apart_and_nothing_else(details: dict[str, Any], action: str) -> None:
    backwards = dict(reversed(details.items()))
    if any(isinstance(each, int) and not -(2**63) <= each < 2**64 for each in details.values()):
        return
    first = rules.action_hash(action, rules.canonical_json(details))
    assert rules.action_hash(action, rules.canonical_json(backwards)) == first
    assert rules.action_hash(action + "x", rules.canonical_json(details)) != first
    assert rules.action_hash(action, rules.canonical_json({**details, "more than five": 1})) != first


@requirement("Q4")
def test_the_hash_is_sha256_of_canonical_json() -> None:
    """What another language has to make too."""
    details = rules.canonical_json({"b": [1, "é"], "a": None})
    assert details == '{"a":null,"b":[1,"é"]}'
    whole = '{"action":"pay","details":{"a":null,"b":[1,"é"]}}'
    assert rules.action_hash("pay", details) == hashlib.sha256(whole.encode()).hexdigest()


@requirement("Q6")
@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_a_star_fits_any_text(pattern: str, action: str) -> None:
    def plainly(left: str, right: str) -> bool:
        if not left:
            return not right
        if left[0] == "*":
            return plainly(left[1:], right) or (bool(right) and plainly(left, right[1:]))
        return bool(right) and left[0] == right[0] and plainly(left[1:], right[1:])

    assert rules.action_matches(pattern, action) == plainly(pattern, action)


@requirement("Q6")
@pytest.mark.parametrize(
    ("rule", "cost", "used", "needed"),
    [
        (ApprovalRule("pay *"), None, True, True),
        (ApprovalRule("pay *", cost_above=10), 10.0, False, False),
        (ApprovalRule("pay *", cost_above=10), 10.5, False, True),
        (ApprovalRule("pay *", cost_above=10), None, False, True),
        (ApprovalRule("pay *", first_time=True), None, False, True),
        (ApprovalRule("pay *", first_time=True), None, True, False),
        (ApprovalRule("call *"), None, False, False),
    ],
)
def test_a_rule_says_what_needs_leave(rule: ApprovalRule, cost: float | None, used: bool, needed: bool) -> None:
    assert (rules.matching_rule([rule], "pay Ann", cost, used_before=used) is rule) == needed


@requirement("Q3", "Q6")
@pytest.mark.parametrize(
    ("grant", "cost", "standing"),
    [
        (AuthorityGrant("pay *"), None, AuthorityCheck.COVERS),
        (AuthorityGrant("pay *", cost_up_to=10), 10.0, AuthorityCheck.COVERS),
        (AuthorityGrant("pay *", cost_up_to=10), 11.0, AuthorityCheck.EXCEEDS),
        (AuthorityGrant("pay *", cost_up_to=10), None, AuthorityCheck.EXCEEDS),
        (AuthorityGrant("pay *", since="2026-01-02"), None, AuthorityCheck.EXCEEDS),
        (AuthorityGrant("pay *", until="2026-01-01"), None, AuthorityCheck.EXCEEDS),
        (AuthorityGrant("call *"), None, AuthorityCheck.NO_GRANT),
    ],
)
def test_standing_authority_has_bounds(grant: AuthorityGrant, cost: float | None, standing: AuthorityCheck) -> None:
    assert rules.check_authority([grant], "pay Ann", cost, "2026-01-01") is standing


@requirement("Q1")
def test_the_printed_table_is_the_one_that_holds() -> None:
    assert rules.render_table() in (REPO / "docs/explanation/approvals.md").read_text(encoding="utf-8")
    assert all(
        rules.TRANSITIONS[fact, status] is None
        for fact, status in rules.TRANSITIONS
        if status in (ApprovalStatus.DENIED,)
    )
