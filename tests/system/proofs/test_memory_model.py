"""The judge of memory under kills, given a story that is in order and then each way in which it may not be."""

from collections.abc import Callable

import pytest

from proofs.harness.ledger import Fact, Ledger
from proofs.workload.memory_model import NOT_THERE, Kept, Sentence, Shelf
from proofs.workload.observations import Book

LOCK, PLAN = ("W", "lock"), ("W", "plan")


class Story:
    """Two values under one key, one over the other; one under another key that was removed and put anew; one memory
    that is kept, and one that was forgotten."""

    def __init__(self) -> None:
        self.book = Book()
        self.kept = Kept(self.book)
        for version, (place, named) in enumerate([(LOCK, 0), (PLAN, 0), (LOCK, 1), (PLAN, 0)], start=1):
            self.put(place, named, version)
        self.kept.removals[PLAN, 2] = True
        for word in ("here", "gone"):
            self.kept.sentences[word] = Sentence(word, "W", f"{word} it is")
            self.kept.accept(self.kept.sentences[word], f"id of {word}")
        self.sentence.is_going = self.sentence.is_gone = True
        self.shelf = Shelf({LOCK: (3, "v3"), PLAN: (4, "v4")}, {"W": 4}, [("id of here", "W", "here it is")])
        told = [("id of here", "WRITTEN"), ("id of gone", "WRITTEN"), ("id of gone", "FORGOTTEN")]
        facts = [Fact("O", seq, f"MEMORY_{name}", "memory", id_) for seq, (id_, name) in enumerate(told, start=1)]
        self.ledger = Ledger([], facts, {}, set(), [])

    @property
    def sentence(self) -> Sentence:
        """The one that was forgotten."""
        return self.kept.sentences["gone"]

    def put(self, place: tuple[str, str], named: int, version: int) -> None:
        """A value was put, and its writer was told so."""
        self.kept.begin(f"v{version}", place, named)
        self.kept.saw(place, version, f"v{version}")

    def broken(self) -> set[str]:
        """What is wrong with it."""
        return {name for name, count in self.kept.judge(self.shelf, self.ledger).items() if count}


def put_over_unseen(story: Story) -> None:
    """A value over one that its writer had not seen."""
    story.put(LOCK, 1, 5)
    story.shelf.values[LOCK], story.shelf.last["W"] = (5, "v5"), 5


WAYS: list[tuple[str, Callable[[Story], object]]] = [
    ("values lost", lambda story: story.shelf.values.pop(LOCK)),
    ("values lost", lambda story: story.shelf.values.update({LOCK: (1, "v1")})),
    ("values lost", lambda story: story.kept.removals.update({(LOCK, 3): True})),
    ("written over unseen", put_over_unseen),
    ("written over unseen", lambda story: story.kept.removals.pop((PLAN, 2))),
    ("one version, two values", lambda story: story.kept.saw(PLAN, 4, "v2")),
    ("one version, two values", lambda story: story.shelf.values.update({LOCK: (4, "v3")})),
    ("values that nobody put", lambda story: story.shelf.values.update({LOCK: (5, "strange")})),
    ("values that nobody put", lambda story: story.kept.saw(PLAN, 3, "v3")),
    ("read behind what was accepted", lambda story: story.kept.read(LOCK, 1, 3)),
    ("read behind what was accepted", lambda story: story.kept.read(LOCK, NOT_THERE, 3)),
    ("versions missing", lambda story: story.put(LOCK, 3, 6)),
    ("versions missing", lambda story: story.shelf.last.update(W=5)),
    ("memories missing", lambda story: story.shelf.memories.pop()),
    ("memories missing", lambda story: setattr(story.kept.sentences["here"], "content", "here it was")),
    ("memories doubled", lambda story: story.shelf.memories.append(("other", "W", "here it is"))),
    ("memories that nobody wrote", lambda story: story.shelf.memories.append(("other", "W", "strange it is"))),
    ("memories under two ids", lambda story: story.kept.accept(story.sentence, "another")),
    ("forgotten and there", lambda story: story.shelf.memories.append(("id of gone", "W", "gone it is"))),
    ("recalled otherwise than written", lambda story: story.kept.recalled(story.kept.sentences["here"], [])),
    ("recalled otherwise than written", lambda story: story.kept.recalled(story.sentence, [{"id": 1, "content": ""}])),
    ("memories without exactly one event", lambda story: story.ledger.facts.pop()),
    ("memories without exactly one event", lambda story: story.ledger.facts.append(story.ledger.facts[0])),
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

    assert {zero for zero, _ in WAYS} == set(story.kept.judge(story.shelf, story.ledger))


def test_what_was_cut_off_may_have_been_done_or_not() -> None:
    story = Story()
    story.kept.begin("v5", LOCK, 3)
    assert story.broken() == set()

    story.shelf.values[LOCK], story.shelf.last["W"] = (5, "v5"), 5
    assert story.broken() == set()


def test_nothing_is_read_behind_what_somebody_has_begun_to_remove() -> None:
    story = Story()
    story.kept.removals[LOCK, 3] = False
    story.kept.read(LOCK, NOT_THERE, 3)

    assert story.broken() == set()
