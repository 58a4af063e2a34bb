"""The model of messages to agents with a process of their own: what models were shown in which life of it.

A life ends with a kill of the process; the next one begins on the same folder. Above: hosts. Below: the book, a look
into the store.
"""

from collections import Counter

from msgspec import Struct

from proofs.harness.ledger import Ledger
from proofs.workload.company import answer_to
from proofs.workload.judge import message_id, text_of
from proofs.workload.observations import Book

NEVER = "accepted and never shown to a model"
TWICE = "shown twice in one life of an agent"
AFTER = "shown again after it was handled"
MORE = "more repeats to models than agent kills"


class Showing(Struct):
    """A message as a model got it once."""

    life: int
    inbox: str
    text: str


class Shown:
    """What each model saw, and when it was told that a message is handled."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.inboxes: set[str] = set()
        self.lives: Counter[int] = Counter()
        """Agent -> how often its process was killed, and so the number of the life that it is in."""
        self.showings: dict[str, list[Showing]] = {}
        self.handled: dict[str, int] = {}
        """Activity id -> the life in which its model was told for the first time that it is handled."""
        self.answered: set[str] = set()

    # -- what the models report ----------------------------------------------------------------------------------------

    def show(self, agent: int, activity_id: str, inbox: str, text: str) -> None:
        """A model got a message."""
        self.showings.setdefault(activity_id, []).append(Showing(self.lives[agent], inbox, text))

    def handle(self, agent: int, activity_id: str) -> None:
        """A model was told that a message is handled."""
        self.handled.setdefault(activity_id, self.lives[agent])

    def answer(self, activity_id: str) -> None:
        """A model was told that its answer was taken."""
        self.answered.add(activity_id)

    def die(self, agent: int) -> None:
        """Its process was killed, and all that it had said by then was heard."""
        self.lives[agent] += 1

    def is_done(self, activity_id: str) -> bool:
        """Whether its model has answered a message, and was told that it is handled."""
        return activity_id in self.handled and activity_id in self.answered

    # -- the judgement -------------------------------------------------------------------------------------------------

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return self.lives.total()

    @property
    def repeats(self) -> int:
        """How often a model got a message that it had had before."""
        return sum(len(each) - 1 for each in self.showings.values())

    def judge(self, ledger: Ledger) -> dict[str, int]:
        """What models saw against what the store holds."""
        lives = {id_: [each.life for each in showings] for id_, showings in self.showings.items()}
        return {
            NEVER: len(set(self._book.accepted) - set(self.showings)),
            TWICE: sum(len(each) - len(set(each)) for each in lives.values()),
            AFTER: sum(life > self.handled.get(id_, life) for id_, each in lives.items() for life in each),
            MORE: max(0, self.repeats - self.kills),
            "shown otherwise than sent": sum(
                not self._is_sent(id_, each) for id_, showings in self.showings.items() for each in showings
            ),
            **self._judge_inboxes(ledger),
            **self._judge_answers(ledger),
        }

    def _is_sent(self, activity_id: str, showing: Showing) -> bool:
        """Who writes may not know the id of its message yet; then the text tells which one it is."""
        known = self._book.accepted.get(activity_id)
        maybe = [known] if known is not None else [each for each in self._book.messages.values() if not each.receipt]
        return any(each.inbox == showing.inbox and each.text in showing.text for each in maybe)

    def _judge_inboxes(self, ledger: Ledger) -> dict[str, int]:
        inbound = [row for row in ledger.rows if row.workspace_id in self.inboxes and row.inbound_no is not None]
        entries = Counter((row.workspace_id, message_id(row)) for row in inbound)
        sent = {(each.inbox, each.id) for each in self._book.messages.values()}
        accepted = {(each.inbox, each.id) for each in self._book.accepted.values()}
        return {
            "not once in the inbox of an agent": sum(entries[each] != 1 for each in accepted)
            + sum(count - 1 for each, count in entries.items() if each not in accepted)
            + len(set(entries) - sent),
            "unhandled by agents at the end": sum(not ledger.is_handled(row) for row in inbound),
        }

    def _judge_answers(self, ledger: Ledger) -> dict[str, int]:
        """Each accepted message has exactly one answer in the log of the seat that it came to."""
        said = Counter(
            (row.workspace_id, text_of(row))
            for row in ledger.rows
            if row.workspace_id in self.inboxes and row.method == "notify"
        )
        wanted = {(each.inbox, answer_to(id_)) for id_, each in self._book.accepted.items()}
        return {
            "answers of models missing": len(wanted - set(said)),
            "answers of models twice": sum(count - 1 for count in said.values()),
            "answers that no model gave": len(set(said) - wanted),
        }
