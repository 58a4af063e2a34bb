"""The judge of what models were shown, given a story that is in order and then each way in which it may not be."""

import json
from collections.abc import Callable

import pytest

from proofs.harness.ledger import Ledger, Row
from proofs.workload.company import answer_to
from proofs.workload.host_model import AFTER, MORE, NEVER, TWICE, Shown
from proofs.workload.observations import Book, Message

AGENT = 0


def row(seq: int, id_: str, text: str, *, no: int | None = None, workspace: str = "W") -> Row:
    body = json.dumps({"params": {"message": {"parts": [{"text": text}]}}})
    return Row(id_, workspace, seq, no, None if no else "notify", None, None, 0, body)


class Story:
    """Two messages to one agent. The first was shown and handled; the second was shown, its agent was killed, and the
    next life showed it again and handled it."""

    def __init__(self) -> None:
        self.book = Book()
        self.shown = Shown(self.book)
        self.shown.inboxes.add("W")
        for number, id_ in enumerate("ab"):
            message = Message(f"h0-{number}", "h0", number, "W", f"h0-{number} hello.")
            self.book.messages[message.id] = message
            self.book.accept(message, id_)
        self.show("a")
        self.finish("a")
        self.show("b")
        self.shown.die(AGENT)
        self.show("b")
        self.finish("b")
        rows = [row(n, id_, self.text(id_), no=n) for n, id_ in enumerate("ab", start=1)]
        rows += [row(n, f"answer {id_}", answer_to(id_)) for n, id_ in enumerate("ab", start=3)]
        self.ledger = Ledger(rows, [], {"W": 2}, set(), [])

    def text(self, id_: str) -> str:
        """What was sent under an activity id."""
        return self.book.accepted[id_].text

    def show(self, id_: str, inbox: str = "W", text: str = "") -> None:
        """It is shown to the model."""
        self.shown.show(AGENT, id_, inbox, text or self.text(id_))

    def finish(self, id_: str) -> None:
        """The model is told that it is answered and handled."""
        self.shown.answer(id_)
        self.shown.handle(AGENT, id_)

    def broken(self) -> set[str]:
        """What is wrong with it."""
        return {name for name, count in self.shown.judge(self.ledger).items() if count}


def show_after_its_end(story: Story) -> None:
    """It was handled in the first life, and the second one shows it: one repeat, one kill."""
    del story.shown.showings["b"][1]
    story.show("a")


INBOX, ANSWERS = "not once in the inbox of an agent", "answers of models"
WAYS: list[tuple[str, Callable[[Story], object]]] = [
    (NEVER, lambda story: story.shown.showings.pop("a")),
    (TWICE, lambda story: story.show("b")),
    (AFTER, show_after_its_end),
    (MORE, lambda story: story.show("a")),
    (MORE, lambda story: story.shown.lives.clear()),
    ("shown otherwise than sent", lambda story: story.show("a", text="h0-0 hullo.")),
    ("shown otherwise than sent", lambda story: story.show("a", inbox="V")),
    ("shown otherwise than sent", lambda story: story.show("z", text="h9-9 hello.")),
    (INBOX, lambda story: story.ledger.rows.pop(0)),
    (INBOX, lambda story: story.ledger.rows.append(row(5, "c", "h0-1 hello.", no=3))),
    (INBOX, lambda story: story.ledger.rows.append(row(5, "c", "h9-9 hello.", no=3))),
    ("unhandled by agents at the end", lambda story: story.ledger.handled_upto.update(W=1)),
    (f"{ANSWERS} missing", lambda story: story.ledger.rows.pop()),
    (f"{ANSWERS} twice", lambda story: story.ledger.rows.append(row(5, "c", answer_to("a")))),
    ("answers that no model gave", lambda story: story.ledger.rows.append(row(5, "c", answer_to("z")))),
]


def test_a_story_in_order_breaks_nothing() -> None:
    assert Story().broken() == set()


@pytest.mark.parametrize(("zero", "change"), WAYS, ids=[f"{n} {zero}" for n, (zero, _) in enumerate(WAYS)])
def test_each_disorder_is_counted_under_its_name(zero: str, change: Callable[[Story], object]) -> None:
    story = Story()
    change(story)

    assert zero in story.broken()


def test_each_zero_has_a_disorder() -> None:
    story = Story()

    assert {zero for zero, _ in WAYS} == set(story.shown.judge(story.ledger))


def test_what_was_handled_in_the_life_that_showed_it_must_not_come_again_although_its_agent_died() -> None:
    story = Story()
    show_after_its_end(story)

    assert story.broken() == {AFTER}


def test_a_message_may_be_shown_before_its_sender_knows_that_it_was_accepted() -> None:
    story = Story()
    story.book.messages["h0-2"] = Message("h0-2", "h0", 2, "W", "h0-2 hello.")
    story.ledger.rows.append(row(5, "c", "h0-2 hello.", no=3))
    story.ledger.handled_upto["W"] = 5
    story.show("c", text="h0-2 hello.")

    assert story.broken() == set()


def test_rows_of_other_workspaces_are_not_looked_at() -> None:
    story = Story()
    story.ledger.rows.append(row(1, "c", "s0-0 hello", no=1, workspace="V"))

    assert story.broken() == set()
