"""Who is asked next and whose word counts: by the table, and against a model that was written apart from the rules."""

import hashlib
import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.approvals import rules
from molecule_core.approvals.model import Above, Decider, Decision, Kind, Standing, Stands, Status, Verdict, Wish
from molecule_core.wire.approvals import Grant, Rule
from tests.requirements import requirement
from tests.rules.effort import STEPS, USUAL_STEPS
from tests.shape.planting import REPO

TREES = 10_000 * STEPS // USUAL_STEPS
PEOPLE = ("p1", "p2")


class Attempt(NamedTuple):
    """Somebody decides."""

    kind: Kind
    id: str
    decision: Decision
    revision: int | None
    hashed: str | None = None
    holder: str | None = None


class Model:
    """What ought to be: a plain account of one approval, which knows nothing of the rules' words."""

    def __init__(self, requester: str, chain: list[Above]) -> None:
        self.requester = requester
        self.left = [each for each in chain if not each.why_not and each.standing is not Standing.EXCEEDS]
        self.turn = self.left.pop(0).id if self.left else None
        self.had = set[str]() if self.turn is None else {self.turn}
        self.passed_on: set[str] = set()
        self.over: tuple[Decision, str] | None = None
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
        is_person = attempt.kind is Kind.PERSON
        if not is_person and (attempt.id == self.requester or attempt.id not in self.had):
            return "no"
        if self.over is not None:
            return "again" if self.over == (attempt.decision, attempt.id) else "no"
        if not is_person and (attempt.id != self.turn or not self.is_above):
            is_again = attempt.decision is Decision.ESCALATE and attempt.id in self.passed_on
            return "again" if is_again else "no"
        if attempt.decision is Decision.MORE_INFO and self.asker is not None:
            return "again" if self.asker == attempt.id else "no"
        blind = attempt.decision is Decision.APPROVE and self.revision > 1 and not (attempt.revision or attempt.hashed)
        if blind or attempt.revision not in (None, self.revision):
            return "no"
        return self.passes(attempt) if attempt.decision is Decision.ESCALATE else "yes"

    def passes(self, attempt: Attempt) -> str:
        """Of who passes it on: a person once, unless it names whose turn it is."""
        is_person = attempt.kind is Kind.PERSON
        if is_person and attempt.holder is None and attempt.id in self.persons_passed:
            return "again"
        if is_person and attempt.holder not in (None, self.turn):
            return "again" if attempt.holder in self.persons_passed.get(attempt.id, ()) else "no"
        return "no" if self.turn is None else "yes"

    def does(self, attempt: Attempt) -> None:
        """It held."""
        if attempt.decision is Decision.ESCALATE:
            if attempt.kind is Kind.PERSON:
                self.persons_passed.setdefault(attempt.id, set()).add(self.turn or "")
            self.passed_on.add(attempt.id)
            self.asker = None
            self.next()
        elif attempt.decision is Decision.MORE_INFO:
            self.asker = attempt.id
        else:
            self.over = attempt.decision, attempt.id

    def stands(self) -> Stands:
        """The same as the rules see it."""
        ends = {Decision.APPROVE: Status.APPROVED, Decision.DENY: Status.DENIED}
        open_status = Status.PENDING if self.asker is None else Status.INFO
        status = open_status if self.over is None else ends[self.over[0]]
        kind = "person" if self.over is not None and self.over[1] in PEOPLE else "workspace"
        asker_kind = "person" if self.asker in PEOPLE else "workspace"
        return Stands(
            requester_id=self.requester,
            status=status,
            revision=self.revision,
            action_hash="h",
            holder_id=self.turn if self.over is None else None,
            asked=frozenset(self.had),
            escalated=frozenset(self.passed_on),
            asker=None if self.asker is None else (asker_kind, self.asker),
            is_above=self.is_above,
            passed_on=frozenset((who, over) for who, each in self.persons_passed.items() for over in each),
            decided=None if self.over is None else (self.over[0].value, kind, self.over[1]),
        )


def story(dice: random.Random, judge: Any = rules.judge) -> list[str]:
    """One random tree with deciders, replays, late words, answers and time-outs; what was taken wrongly."""
    chain = [
        Above(
            f"w{n}",
            f"W{n}",
            dice.choice(["", "", "", "its agent is offline"]),
            is_root=False,
            standing=dice.choice([Standing.SILENT, Standing.SILENT, Standing.EXCEEDS]),
        )
        for n in range(dice.randrange(0, 6))
    ]
    model, wrong = Model("me", chain), list[str]()
    everybody = [(Kind.WORKSPACE, each) for each in ("me", "stranger", *(each.id for each in chain))]
    everybody += [(Kind.PERSON, each) for each in PEOPLE]
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
        fresh = Attempt(*dice.choice(everybody), dice.choice([*Decision]), revision, dice.choice([None, "h"]), whom)
        attempt = dice.choice(said) if replayed else fresh
        said.append(attempt)
        wish = Wish(attempt.decision, attempt.revision, attempt.hashed, attempt.holder)
        found = judge(model.stands(), Decider(attempt.kind, attempt.id), wish)
        meant = model.takes(attempt)
        if {Verdict.DONE: "yes", Verdict.REPEATED: "again"}.get(found, "no") != meant:
            wrong.append(f"{attempt} was {found}, and ought to be {meant}")
        if meant == "yes":
            model.does(attempt)
        reached = rules.route(chain, [each for each in model.had if each != model.turn])
        if model.over is None and (None if reached.holder is None else reached.holder.id) != model.turn:
            wrong.append(f"{reached} instead of {model.turn}")
    return wrong


@requirement("Q3", "Q5")
def test_in_ten_thousand_random_trees_no_decision_is_taken_wrongly() -> None:
    dice = random.Random(8)
    wrong = [each for _ in range(TREES) for each in story(dice)]
    assert wrong == []


@requirement("Q5")
@pytest.mark.parametrize("hidden", [Verdict.OWN, Verdict.STRANGER, Verdict.DECIDED, Verdict.MOVED_ON, Verdict.CHANGED])
def test_a_broken_rule_is_found_by_the_model(hidden: Verdict) -> None:
    """The control: a rule that takes what this one refuses is found wrong."""

    def broken(stands: Stands, by: Decider, wish: Wish) -> Verdict:
        found = rules.judge(stands, by, wish)
        return Verdict.DONE if found is hidden else found

    dice = random.Random(8)
    assert any(story(dice, broken) for _ in range(2000))


@requirement("Q5")
def test_a_decision_about_another_hash_is_about_another_thing() -> None:
    stands = Model("me", [Above("w", "W", "", is_root=True)]).stands()
    wish = Wish(Decision.APPROVE, 1, "another")
    assert rules.judge(stands, Decider(Kind.WORKSPACE, "w"), wish) is Verdict.CHANGED


@requirement("Q4")
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=5), st.text())
def test_the_hash_tells_actions_apart_and_nothing_else(details: dict[str, Any], action: str) -> None:
    backwards = dict(reversed(details.items()))
    if any(isinstance(each, int) and not -(2**63) <= each < 2**64 for each in details.values()):
        return
    first = rules.action_hash(action, rules.canonical(details))
    assert rules.action_hash(action, rules.canonical(backwards)) == first
    assert rules.action_hash(action + "x", rules.canonical(details)) != first
    assert rules.action_hash(action, rules.canonical({**details, "more than five": 1})) != first


@requirement("Q4")
def test_the_hash_is_sha256_of_canonical_json() -> None:
    """What another language has to make too."""
    details = rules.canonical({"b": [1, "é"], "a": None})
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

    assert rules.fits(pattern, action) == plainly(pattern, action)


@requirement("Q6")
@pytest.mark.parametrize(
    ("rule", "cost", "used", "needed"),
    [
        (Rule("pay *"), None, True, True),
        (Rule("pay *", cost_above=10), 10.0, False, False),
        (Rule("pay *", cost_above=10), 10.5, False, True),
        (Rule("pay *", cost_above=10), None, False, True),
        (Rule("pay *", first_time=True), None, False, True),
        (Rule("pay *", first_time=True), None, True, False),
        (Rule("call *"), None, False, False),
    ],
)
def test_a_rule_says_what_needs_leave(rule: Rule, cost: float | None, used: bool, needed: bool) -> None:
    assert (rules.needs([rule], "pay Ann", cost, used_before=used) is rule) == needed


@requirement("Q3", "Q6")
@pytest.mark.parametrize(
    ("grant", "cost", "standing"),
    [
        (Grant("pay *"), None, Standing.COVERS),
        (Grant("pay *", cost_up_to=10), 10.0, Standing.COVERS),
        (Grant("pay *", cost_up_to=10), 11.0, Standing.EXCEEDS),
        (Grant("pay *", cost_up_to=10), None, Standing.EXCEEDS),
        (Grant("pay *", since="2026-01-02"), None, Standing.EXCEEDS),
        (Grant("pay *", until="2026-01-01"), None, Standing.EXCEEDS),
        (Grant("call *"), None, Standing.SILENT),
    ],
)
def test_standing_authority_has_bounds(grant: Grant, cost: float | None, standing: Standing) -> None:
    assert rules.standing([grant], "pay Ann", cost, "2026-01-01") is standing


@requirement("Q1")
def test_the_printed_table_is_the_one_that_holds() -> None:
    assert rules.printed() in (REPO / "docs/approvals.md").read_text(encoding="utf-8")
    assert all(rules.TABLE[fact, status] is None for fact, status in rules.TABLE if status in (Status.DENIED,))
