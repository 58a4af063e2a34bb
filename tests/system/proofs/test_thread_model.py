"""The judge of threads under kills, given a story that is in order and then each way in which it may not be."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from proofs.workload.observations import Book
from proofs.workload.thread_model import Letter, Line, Log, Logs, Spoken, Talk, Turn


class Story:
    """One thread to which two things were said; in its first turn it spawned an agent, by a letter, and both ended."""

    def __init__(self) -> None:
        self.book = Book()
        self.spoken = Spoken(self.book)
        self.talk = self.spoken.talks["h"] = Talk("h", "Go on.", "queue")
        self.spoken.start(self.talk, "R")
        self.logs = Logs([], [], [("R", 1, "Go on."), ("C", 1, "Go on.")], [], [], [])
        for text in ("h 1", "h 2"):
            self.spoken.say(text, self.talk, taken=True)
        self.turn("R", "t1", "h 1")
        for status in ("inProgress", "completed"):
            self.line("R", "collab", "t1", call_id="s", status=status)
        self.spoken.spawn("s", "C")
        self.spoken.letters["dig"] = "R"
        self.turn("R", "t2", "h 2")
        self.logs.letters.append(Letter("l", "C", "R", 1, "dig", "answered"))
        self.turn("C", "t3")
        self.line("C", "peer_message", "t3", mail_id="l")
        last = {id_: max(line.ordinal for line in self.logs.lines if line.thread_id == id_) for id_ in "RC"}
        self.logs.threads += [Log("R", "R", None, "h", None, 0, last["R"]), Log("C", "R", "R", "c", "s", 0, last["C"])]

    def line(self, thread_id: str, kind: str, turn_id: str, **entry: Any) -> Line:
        """A line of a log, and its event."""
        ordinal = 1 + sum(line.thread_id == thread_id for line in self.logs.lines)
        line = Line(thread_id, ordinal, turn_id, kind, entry)
        self.logs.lines.append(line)
        self.logs.told.append((thread_id, ordinal))
        return line

    def turn(self, thread_id: str, turn_id: str, *texts: str) -> None:
        """A turn from its begin to its end."""
        given = json.dumps([{"text": text} for text in texts])
        self.logs.turns.append(Turn(turn_id, thread_id, "completed", given))
        for text in texts:
            self.line(thread_id, "user_message", turn_id, text=text)
        said = f"said in {turn_id}"
        self.spoken.lines[said] = True
        self.line(thread_id, "agent_message", turn_id, text=said)
        self.line(thread_id, "turn_ended", turn_id, status="completed", final=f"end of {turn_id}")
        self.spoken.end(turn_id, f"end of {turn_id}")

    def of(self, kind: str) -> list[Line]:
        """The lines of one kind."""
        return self.logs.of(kind)

    def drop(self, kind: str) -> None:
        """The first line of a kind is not there."""
        self.logs.lines.remove(self.of(kind)[0])

    def double(self, kind: str) -> None:
        """The first line of a kind stands there again."""
        first = self.of(kind)[0]
        self.line(first.thread_id, kind, str(first.turn_id), **first.entry)

    def judged(self) -> dict[str, int]:
        """All zeros."""
        return self.spoken.judge(self.logs)

    def broken(self) -> set[str]:
        """What is wrong with it."""
        return {name for name, count in self.judged().items() if count}


def swap_said(story: Story) -> None:
    one, other = story.of("user_message")
    one.entry, other.entry = other.entry, one.entry


def read_late(story: Story) -> None:
    """A letter is read behind one that was sent after it."""
    story.logs.letters.append(Letter("k", "C", "R", 2, "more", "answered"))
    story.line("C", "peer_message", "t3", mail_id="k")
    one, other = story.of("peer_message")
    one.entry, other.entry = other.entry, one.entry


WAYS: list[tuple[str, Callable[[Story], object]]] = [
    ("threads missing", lambda story: story.logs.threads.pop()),
    ("threads doubled", lambda story: story.logs.threads.append(Log("Q", "Q", None, "h", None, 0, 0))),
    ("threads doubled", lambda story: story.logs.threads.append(Log("D", "R", "R", "d", "s", 0, 0))),
    ("threads that nobody started", lambda story: story.logs.threads.append(Log("Q", "Q", None, "q", None, 0, 0))),
    ("threads under two ids", lambda story: story.spoken.start(story.talk, "Q")),
    ("threads under two ids", lambda story: story.spoken.spawn("s", "Q")),
    ("base instructions other than given", lambda story: story.spoken.show(story.talk, "Stop.")),
    ("base instructions other than given", lambda story: story.logs.bases.pop()),
    ("base instructions other than given", lambda story: story.logs.bases.append(("R", 2, "Go on."))),
    ("base instructions other than given", lambda story: story.logs.bases.append(("R", 2, "Stop."))),
    ("said and not there once", lambda story: story.drop("user_message")),
    ("said and not there once", lambda story: story.double("user_message")),
    ("said by nobody", lambda story: story.line("R", "user_message", "t2", text="h 3")),
    ("said out of order", swap_said),
    ("turns open for ever", lambda story: setattr(story.logs.turns[0], "status", "running")),
    ("turns not ended once", lambda story: story.drop("turn_ended")),
    ("turns not ended once", lambda story: story.double("turn_ended")),
    ("turns ended otherwise than told", lambda story: story.of("turn_ended")[0].entry.update(final="other")),
    ("turns ended otherwise than told", lambda story: story.of("turn_ended")[0].entry.update(status="failed")),
    ("lines of engines not there once", lambda story: story.drop("agent_message")),
    ("lines of engines not there once", lambda story: story.double("agent_message")),
    ("letters between threads missing", lambda story: story.logs.letters.pop()),
    ("letters between threads doubled", lambda story: story.logs.letters.append(story.logs.letters[0])),
    ("letters between threads not read once", lambda story: story.double("peer_message")),
    ("letters between threads not read once", lambda story: setattr(story.logs.letters[0], "state", "accepted")),
    ("letters between threads out of order", read_late),
    ("letters between threads not numbered", lambda story: setattr(story.logs.letters[0], "seq", 2)),
    ("lines of threads missing", lambda story: story.drop("collab")),
    ("lines of threads missing", lambda story: setattr(story.logs.threads[0], "last", 99)),
    ("lines without exactly one event", lambda story: story.logs.told.pop()),
    ("lines without exactly one event", lambda story: story.logs.told.append(story.logs.told[0])),
    ("calls not begun and ended once", lambda story: story.drop("collab")),
    ("calls not begun and ended once", lambda story: story.double("collab")),
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


@pytest.mark.parametrize("state", ["accepted", "failed"])
def test_only_a_thread_that_was_closed_may_leave_a_letter_unread(state: str) -> None:
    story = Story()
    story.spoken.letters["more"] = "R"
    story.logs.letters.append(Letter("k", "C", "R", 2, "more", state))
    assert story.broken() == {"letters between threads not read once"}

    next(each for each in story.logs.threads if each.id == "C").closed = 1
    assert story.broken() == set()


def test_only_a_thread_that_was_closed_may_leave_unread_what_was_said_to_it() -> None:
    story = Story()
    story.spoken.say("h 3", story.talk, taken=True)
    story.logs.turns.append(Turn("t4", "R", "interrupted", '[{"text": "h 3"}]'))
    story.line("R", "turn_ended", "t4", status="interrupted", final=None)
    story.logs.threads[0].last += 1
    assert story.broken() == {"said and not there once"}

    story.logs.threads[0].closed = 1
    assert story.broken() == set()
