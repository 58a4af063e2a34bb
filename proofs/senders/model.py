"""The model: what a sender said and was told, what an agent was given; ten lines of what must then be true.

A message is kept under (sender, id) for ever: the same again has the first answer, anything else under that id is 409.
"""

from collections import Counter

from msgspec import Struct

from proofs.harness.progress import Progress

_MOST_NOTES = 3
_NOTE_LENGTH = 300
CLASH = 409
_TAKEN = (200, 202)


class Said(Struct, frozen=True):
    """What goes over the wire under an id, and where to."""

    id: str
    inbox: str
    text: str


class Told(Struct, frozen=True):
    """The answer: its status, the row that it names, and all of it where it must be the same again."""

    status: int
    activity_id: str = ""
    whole: str = ""


class Book:
    """Everything that was answered and handed over."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.kept: dict[str, Said] = {}
        """By id: what was taken first."""
        self.first: dict[str, Told] = {}
        """By id: the answer that it had first."""
        self.receipts: dict[str, str] = {}
        """Activity id -> id."""
        self.handed: Counter[tuple[str, int]] = Counter()
        """(activity id, attempt); 0 for an agent that follows a cursor."""
        self.got: set[str] = set()
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []

    def fault(self, what: str, note: str) -> None:
        """Something that must not be."""
        self.faults[what] += 1
        if self.faults[what] <= _MOST_NOTES:
            self.notes.append(f"{what}: {note[:_NOTE_LENGTH]}")

    def answered(self, said: Said, told: Told) -> None:
        """A send had this answer. The first that is taken is the message; then the model knows every answer."""
        if told.status not in (*_TAKEN, CLASH):
            return  # refused, which is a fault already
        if said.id not in self.kept and told.status != CLASH:
            self.kept[said.id], self.first[said.id] = said, told
            self.receipts[told.activity_id] = said.id
            self.progress.note("accepted")
        elif said.id not in self.kept:
            self.fault("409 where none is due", f"{said} was the first of its id")
        elif said == self.kept[said.id]:
            self._again(said, told)
        else:
            self.figures["409"] += told.status == CLASH
            if told.status != CLASH:
                self.fault("no 409 where one is due", f"{said} over {self.kept[said.id]}: {told}")

    def _again(self, said: Said, told: Told) -> None:
        first = self.first[said.id]
        if told.status == CLASH:
            self.fault("409 where none is due", f"{said} again")
        elif told.activity_id != first.activity_id or (first.whole and told.whole and told.whole != first.whole):
            self.fault("another first answer", f"{said.id}: {first}, then {told}")

    def hand(self, activity_id: str, attempt: int) -> None:
        """An agent has a row in its hands."""
        self.handed[activity_id, attempt] += 1
        if self.handed[activity_id, attempt] > 1:
            self.fault("handed twice under one attempt", f"{activity_id} attempt {attempt}")
        self.figures["redelivered"] += attempt > 1
        if activity_id not in self.got:
            self.got.add(activity_id)
            self.progress.note("got")
