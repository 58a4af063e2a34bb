"""The model of approvals: what those who ask and those who decide were told, and how each must have ended.

Above: askers, deciders. Below: the book, a look into the store.
"""

import json
from collections import Counter
from typing import Any

from msgspec import Struct

from proofs.harness.ledger import Ledger, Row, read_tables
from proofs.harness.settings import Setting
from proofs.harness.verdicts import gaps
from proofs.workload.observations import Book

_APPROVALS = "SELECT id, action, status, open, decided, used_at, rev, messages, path FROM approvals"
_LETTERS = """SELECT id, kind FROM activities
WHERE inbound_no IS NOT NULL AND kind IN ('approval_request', 'approval_decision', 'system')"""
_CHANGES = "SELECT DISTINCT entity_id, rev, name FROM events WHERE entity_kind = 'approval'"
REQUEST, DECISION = "approval_request", "approval_decision"
_ENDS = ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN")
_USED = "APPROVAL_USED"
PASSES = "let it pass: "
"""So begins the action of what nobody is to decide."""


class Ask(Struct):
    """One request as who asked knows it. `id`: of the first 2xx answer."""

    key: str
    asker: str
    action: str
    id: str | None = None
    is_heard: bool = False
    """Its asker has read how it ended, or was told that it is taken back."""


class Ruled(Struct):
    """One approval of the store."""

    id: str
    action: str
    status: str
    open: int
    decided: str | None
    used_at: int | None
    rev: int
    messages: int
    path: str

    @property
    def end(self) -> tuple[str, str]:
        """How it ended, and who says so."""
        hops = [hop for hop in json.loads(self.path) if hop["what"] == self.status]
        return self.status, hops[0]["by"]["id"] if len(hops) == 1 else ""

    @property
    def asked(self) -> int:
        """How many workspaces were asked to decide it, one after the other."""
        hops = [hop for hop in json.loads(self.path) if hop["what"] == "asked"]
        return sum(hop["holder"]["kind"] == "workspace" for hop in hops)


class Files(Struct):
    """What a store holds of approvals: rows, (id, kind) of letters, and (approval, rev, name) of events."""

    rows: list[Ruled]
    letters: list[tuple[str, str]]
    changes: list[tuple[str, int, str]]


class Rulings:
    """Everything that was answered about approvals; finds contradictions. `hands`: the book of their claims."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.hands = Book()
        self.hands.progress = book.progress
        self.all: dict[str, Ask] = {}
        """By action."""
        self.accepted: dict[str, Ask] = {}
        """By the id of the approval."""
        self.ends: dict[str, tuple[str, str]] = {}
        """How somebody was told with 2xx that it has ended it, and who."""
        self.uses: dict[str, bool] = {}
        """Approvals that somebody began to use; True: and was told with 2xx that it may act."""

    def accept(self, ask: Ask, approval_id: str) -> None:
        """An asker was told the approval's id, for the first time or again."""
        if ask.id is None:
            ask.id = approval_id
            self.accepted[approval_id] = ask
            self._book.progress.note("accepted")
            self._book.progress.note("asked")
        elif ask.id != approval_id:
            self._book.fault("requests under two ids", f"{ask.key} got {ask.id}, then {approval_id}")

    def tell(self, approval_id: str, status: str, by: str) -> None:
        """Somebody's word has ended it, as that one was told."""
        if self.ends.setdefault(approval_id, (status, by)) != (status, by):
            self._book.fault("decided by two", f"{approval_id}: {self.ends[approval_id]}, then {(status, by)}")
        self._book.progress.note("accepted")

    def hear(self, approval_id: str) -> None:
        """Its asker knows how it ended."""
        if approval_id in self.accepted and not self.accepted[approval_id].is_heard:
            self.accepted[approval_id].is_heard = True
            self._book.progress.note("heard")

    def use(self, approval_id: str) -> None:
        """Its asker may act: it was told so."""
        if self.uses[approval_id]:
            self._book.fault("used twice", f"{approval_id} was used before")
        self.uses[approval_id] = True

    def open_of(self, asker: str) -> list[Ask]:
        """Of those that an asker was promised, the ones whose end it does not know."""
        return [ask for ask in self.accepted.values() if ask.asker == asker and not ask.is_heard]

    # -- the judgement -------------------------------------------------------------------------------------------------

    def judge(self, files: Files, ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store holds."""
        kept, faults = {row.id: row for row in files.rows}, self._book.faults
        names: dict[str, Counter[str]] = {}
        for id_, _, name in files.changes:
            names.setdefault(id_, Counter())[name] += 1
        actions = Counter(row.action for row in files.rows)
        return {
            "approvals missing": len(set(self.accepted) - set(kept)),
            "approvals doubled": sum(count - 1 for count in actions.values()),
            "approvals that nobody asked for": len(set(actions) - set(self.all)),
            "requests under two ids": faults["requests under two ids"],
            "approvals open for ever": sum(row.open for row in files.rows),
            "approvals not ended once": sum(_ends(names.get(id_)) != 1 for id_ in kept),
            "decided by two": faults["decided by two"],
            "ended otherwise than told": sum(id_ in kept and kept[id_].end != end for id_, end in self.ends.items())
            + sum((row.status == "expired") != row.action.startswith(PASSES) for row in files.rows if not row.open),
            "used twice": faults["used twice"] + sum((each[_USED] > 1) for each in names.values()),
            "used otherwise than told": faults["used otherwise than told"]
            + sum(self._is_used_wrongly(row, names.get(row.id)) for row in files.rows),
            "changes of approvals not told once": _untold(kept, files.changes),
            **_judge_letters(kept, files.letters, ledger),
            "letters about approvals handed twice under one attempt": self._of_hands("handed twice under one attempt"),
            "letters about approvals handed again after their end": self._of_hands("handed again after its ack"),
            "letters about approvals handed on while held": self._of_hands("handed on while it was held"),
        }

    def _of_hands(self, what: str) -> int:
        return self.hands.faults[what]

    def _is_used_wrongly(self, row: Ruled, names: Counter[str] | None) -> bool:
        """Whether it was used and nobody wanted that, or wanted to be and was not, or nobody was told of it."""
        is_used = row.used_at is not None
        return is_used != (row.id in self.uses) or is_used != bool(names and names[_USED])


def _ends(names: Counter[str] | None) -> int:
    return sum(names[name] for name in _ENDS) if names else 0


def _untold(kept: dict[str, Ruled], changes: list[tuple[str, int, str]]) -> int:
    """How many changes were not told, or under one number with another, or of what is not there."""
    revs: dict[str, list[int]] = {id_: [] for id_ in kept}
    for id_, rev, _ in changes:
        revs.setdefault(id_, []).append(rev)
    return sum(gaps(each) + (id_ not in kept or max(each, default=0) != kept[id_].rev) for id_, each in revs.items())


def _judge_letters(kept: dict[str, Ruled], letters: list[tuple[str, str]], ledger: Ledger) -> dict[str, int]:
    """Who was asked has one letter of it, and who asked one of the end, unless it made that end itself."""
    numbers: dict[str, list[int]] = {id_: [] for id_ in kept}
    kinds: dict[str, Counter[str]] = {id_: Counter() for id_ in kept}
    rows: dict[str, Row] = {row.id: row for row in ledger.rows}
    unhandled = 0
    for letter_id, kind in letters:
        id_, _, number = letter_id.partition(".")
        if number:
            numbers.setdefault(id_, []).append(int(number))
            kinds.setdefault(id_, Counter())[kind] += 1
            unhandled += kind != "system" and not ledger.is_handled(rows[letter_id])
    return {
        "letters about approvals missing or doubled": sum(
            gaps(each) + (id_ not in kept or max(each, default=0) != kept[id_].messages)
            for id_, each in numbers.items()
        ),
        "decisions not exactly one letter": sum(
            kinds[id_][DECISION] != (row.status != "withdrawn") for id_, row in kept.items() if not row.open
        ),
        "requests not one letter to each who was asked": sum(
            kinds[id_][REQUEST] != row.asked for id_, row in kept.items()
        ),
        "letters about approvals unhandled": unhandled,
    }


async def read_files(setting: Setting) -> Files:
    """What a store that no server has holds of approvals."""
    (rows, letters, changes), _ = await read_tables(setting, (_APPROVALS, _LETTERS, _CHANGES))
    return Files([Ruled(*row) for row in rows], letters, changes)


def approval_of(row: dict[str, Any]) -> str:
    """The approval that a letter is about."""
    id_: str = row["id"].partition(".")[0]
    return id_
