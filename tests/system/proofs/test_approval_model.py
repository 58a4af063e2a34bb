"""The judge of approvals under kills, given a story that is in order and then each way in which it may not be."""

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from proofs.harness.ledger import Ledger, Row
from proofs.workload.approval_model import PASSES, Ask, Files, Ruled, Rulings
from proofs.workload.observations import Book


def path_of(*hops: tuple[str, str]) -> str:
    holder = {"kind": "workspace"}
    return json.dumps([{"what": what, "by": {"id": by}, "holder": holder} for what, by in hops])


class Story:
    """Three requests of one asker: one was approved by the agent above it and used, one withdrawn, one expired."""

    def __init__(self) -> None:
        self.book = Book()
        self.rulings = Rulings(self.book)
        for id_, action in (("a", "a0 do"), ("b", "b0 do"), ("c", f"{PASSES}c0 do")):
            ask = Ask(id_, "S", action)
            self.rulings.all[action] = ask
            self.rulings.accept(ask, id_)
        self.rulings.tell("a", "approved", "L")
        self.rulings.tell("b", "withdrawn", "S")
        self.rulings.uses["a"] = False
        self.rulings.use("a")
        approved, asked = ("approved", "L"), ("asked", "server")
        self.rows = {
            "a": Ruled("a", "a0 do", "approved", 0, "{}", 1, 3, 2, path_of(asked, approved, ("used", "S"))),
            "b": Ruled("b", "b0 do", "withdrawn", 0, None, None, 2, 1, path_of(asked, ("withdrawn", "S"))),
            "c": Ruled("c", f"{PASSES}c0 do", "expired", 0, "{}", None, 2, 2, path_of(asked, ("expired", "clock"))),
        }
        self.letters = [(f"{id_}.1", "approval_request") for id_ in "abc"]
        self.letters += [(f"{id_}.2", "approval_decision") for id_ in "ac"]
        ends = {"a": ("APPROVED", "USED"), "b": ("WITHDRAWN",), "c": ("EXPIRED",)}
        self.changes = [(id_, 1, "APPROVAL_REQUESTED") for id_ in "abc"]
        for id_, names in ends.items():
            self.changes += [(id_, rev, f"APPROVAL_{name}") for rev, name in enumerate(names, start=2)]
        rows = [Row(id_, "W", n, n, None, None, None, 0, None) for n, (id_, _) in enumerate(self.letters, start=1)]
        self.ledger = Ledger(rows, [], {"W": len(rows)}, set(), [])

    def change(self, id_: str, **changes: object) -> None:
        """An approval stands otherwise."""
        self.rows[id_] = replace(self.rows[id_], **changes)

    def judged(self) -> dict[str, int]:
        """All zeros."""
        return self.rulings.judge(Files([*self.rows.values()], self.letters, self.changes), self.ledger)

    def broken(self) -> set[str]:
        """What is wrong with it."""
        return {name for name, count in self.judged().items() if count}


def twin(story: Story) -> None:
    story.rows["d"] = replace(story.rows["b"], id="d")


def hand(story: Story, asked: int, attempt: int = 1, held_until: float = 0.0) -> None:
    story.rulings.hands.hand([{"id": "a.1", "attempt": attempt}], asked, held_until)


def hand_again(story: Story) -> None:
    story.rulings.hands.handle("a.1")
    hand(story, story.rulings.hands.tick())


def hand_twice(story: Story) -> None:
    hand(story, 0)
    hand(story, 0)


def hand_while_held(story: Story) -> None:
    hand(story, 0, held_until=float("inf"))
    hand(story, 0, attempt=2)


WAYS: list[tuple[str, Callable[[Story], object]]] = [
    ("approvals missing", lambda story: story.rows.pop("a")),
    ("approvals doubled", twin),
    ("approvals that nobody asked for", lambda story: story.change("b", action="something")),
    ("requests under two ids", lambda story: story.rulings.accept(story.rulings.all["a0 do"], "z")),
    ("approvals open for ever", lambda story: story.change("a", open=1)),
    ("approvals not ended once", lambda story: story.changes.append(("a", 4, "APPROVAL_DENIED"))),
    ("approvals not ended once", lambda story: story.changes.remove(("b", 2, "APPROVAL_WITHDRAWN"))),
    ("decided by two", lambda story: story.rulings.tell("a", "denied", "P")),
    ("ended otherwise than told", lambda story: story.change("a", status="denied")),
    ("ended otherwise than told", lambda story: story.change("a", path=path_of(("approved", "P")))),
    ("ended otherwise than told", lambda story: story.change("c", status="approved")),
    ("used twice", lambda story: story.rulings.use("a")),
    ("used twice", lambda story: story.changes.append(("a", 4, "APPROVAL_USED"))),
    ("used otherwise than told", lambda story: story.change("a", used_at=None)),
    ("used otherwise than told", lambda story: story.change("b", used_at=1)),
    ("used otherwise than told", lambda story: story.book.fault("used otherwise than told", "a")),
    ("changes of approvals not told once", lambda story: story.changes.pop()),
    ("changes of approvals not told once", lambda story: story.changes.append(("a", 2, "APPROVAL_ESCALATED"))),
    ("changes of approvals not told once", lambda story: story.changes.append(("z", 1, "APPROVAL_REQUESTED"))),
    ("letters about approvals missing or doubled", lambda story: story.letters.pop()),
    ("letters about approvals missing or doubled", lambda story: story.letters.append(story.letters[0])),
    ("decisions not exactly one letter", lambda story: story.letters.remove(("c.2", "approval_decision"))),
    ("requests not one letter to each who was asked", lambda story: story.letters.remove(("c.1", "approval_request"))),
    ("letters about approvals unhandled", lambda story: story.ledger.handled_upto.update(W=4)),
    ("letters about approvals handed twice under one attempt", hand_twice),
    ("letters about approvals handed again after their end", hand_again),
    ("letters about approvals handed on while held", hand_while_held),
]


def test_a_story_in_order_breaks_nothing() -> None:
    assert Story().broken() == set()


@pytest.mark.parametrize(("zero", "change"), WAYS, ids=[f"{n} {zero}" for n, (zero, _) in enumerate(WAYS)])
def test_each_disorder_is_counted_under_its_name(zero: str, change: Callable[[Story], object]) -> None:
    story = Story()
    change(story)

    assert zero in story.broken()


def test_each_zero_has_a_disorder() -> None:
    assert {zero for zero, _ in WAYS} == set(Story().judged())
