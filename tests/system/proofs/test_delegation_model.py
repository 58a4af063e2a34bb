"""The judge of delegations under kills, given a story that is in order and then each way in which it may not be."""

import json
from collections.abc import Callable

import pytest

from proofs.harness.ledger import Fact, Ledger, Row
from proofs.workload.delegation_model import LATE, RESULT, Given, Work, Works, done, judge_works
from proofs.workload.observations import Book


class Story:
    """Two delegations of one giver, both done: the first one's text was taken by who waited, the other came by the
    inbox."""

    def __init__(self) -> None:
        self.book = Book()
        self.works = Works(self.book)
        self.given: list[Given] = []
        rows, facts = list[Row](), list[Fact]()
        for number, id_ in enumerate(("a", "b"), start=1):
            work = Work(key=f"g0-{number}", giver=0, target="T", task=f"g0-{number} do it")
            self.works.all[work.key] = work
            self.works.accept(work, id_)
            self.given.append(Given(id_, "S", "T", "completed", 0, work.task, done(id_)))
            rows.append(Row(f"result {id_}", "S", number, number, RESULT, "T", None, 0, json.dumps(body_of(id_))))
            for name in ("DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE"):
                facts.append(Fact("O", len(facts) + 1, name, "delegation", id_))
        self.ledger = Ledger(rows, facts, {"S": 2}, set(), [])
        self.works.tell("a", done("a"), here=True)
        self.hand("b", 1)
        self.works.keep(shown("b", 1))

    def hand(self, id_: str, attempt: int) -> None:
        """A result comes by the inbox."""
        self.works.hand([shown(id_, attempt)], self.works.hands.tick(), 0.0)

    def broken(self) -> set[str]:
        """What is wrong with it."""
        found = judge_works(self.works, self.book, self.given, self.ledger)
        return {name for name, count in found.items() if count}


def body_of(id_: str, text: str | None = None) -> dict[str, object]:
    parts = [{"text": text or done(id_)}]
    return {"params": {"message": {"parts": parts, "metadata": {"delegation_id": id_}}}}


def shown(id_: str, attempt: int, text: str | None = None) -> dict[str, object]:
    response = {"text": text or done(id_)}
    return {
        "id": f"result {id_}",
        "source_id": "T",
        "attempt": attempt,
        "request_body": body_of(id_),
        "response_body": response,
    }


def event(name: str, id_: str) -> Fact:
    return Fact("O", 9, name, "delegation", id_)


def begin_late(story: Story) -> None:
    """What is told first is not the begin."""
    facts = story.ledger.facts
    facts[0], facts[1] = facts[1], facts[0]


WAYS: list[tuple[str, Callable[[Story], object]]] = [
    ("delegations missing", lambda story: story.given.pop()),
    ("delegations doubled", lambda story: story.given.append(Given("c", "S", "T", "completed", 0, "g0-1 do it", "x"))),
    ("delegations that nobody gave", lambda story: setattr(story.given[0], "task", "something")),
    ("delegations stuck", lambda story: setattr(story.given[0], "open", 1)),
    ("ended otherwise than they should", lambda story: setattr(story.given[0], "status", "failed")),
    ("ended otherwise than they should", lambda story: setattr(story.works, "absent", "T")),
    ("not exactly one end", lambda story: story.ledger.facts.append(event("DELEGATION_FAILED", "a"))),
    ("not exactly one end", lambda story: story.ledger.facts.pop()),
    ("SENT not first", begin_late),
    ("SENT not first", lambda story: story.ledger.facts.append(event("DELEGATION_SENT", "a"))),
    ("results not exactly one", lambda story: story.ledger.rows.pop()),
    ("results not exactly one", lambda story: story.ledger.rows.append(story.ledger.rows[0])),
    ("results other than the answer", lambda story: setattr(story.given[0], "result", "done: b")),
    ("results other than the answer", lambda story: story.works.tell("a", "done: b", here=False)),
    ("results other than the answer", lambda story: story.works.hand([shown("b", 2, "what?")], 0, 0.0)),
    (
        "results other than the answer",
        lambda story: setattr(story.ledger.rows[0], "request_body", json.dumps(body_of("a", "what?"))),
    ),
    ("results never had", lambda story: story.works.had.discard("b")),
    ("hits with another id", lambda story: story.works.accept(story.works.all["g0-1"], "z")),
    ("taken and handed out too", lambda story: story.hand("a", 1)),
    ("taken and handed out too", lambda story: story.works.tell("a", done("a"), here=True)),
    ("taken and left in the inbox", lambda story: story.ledger.handled_upto.update(S=0)),
    ("tasks or results handed twice under one attempt", lambda story: story.hand("b", 1)),
    ("tasks or results handed again after their end", lambda story: story.hand("b", 2)),
]


def test_two_delegations_in_order_break_nothing() -> None:
    assert Story().broken() == set()


@pytest.mark.parametrize(("zero", "change"), WAYS, ids=[f"{n} {zero}" for n, (zero, _) in enumerate(WAYS)])
def test_each_disorder_is_counted_under_its_name(zero: str, change: Callable[[Story], object]) -> None:
    story = Story()
    change(story)

    assert zero in story.broken()


def test_what_an_absent_agent_was_given_fails_by_its_deadline() -> None:
    story = Story()
    story.works.absent = "A"
    story.given[1].target_id, story.given[1].status, story.given[1].result = "A", "failed", None
    story.ledger.rows[1].source_id = "A"
    assert story.broken() == {"results other than the answer"}
    story.ledger.rows[1].request_body = json.dumps(body_of("b", LATE))
    assert story.broken() == set()
    story.works.hand([{**shown("b", 2, LATE), "source_id": "A"}], 0, 0.0)
    assert "results other than the answer" not in story.broken()


def test_what_was_asked_for_before_the_text_was_taken_may_still_come() -> None:
    """The two answers were on their way at once: neither contradicts the other."""
    story = Story()
    story.works.tell("b", done("b"), here=False)
    assert story.broken() == set()
