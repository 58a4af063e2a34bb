"""The model of delegations: what givers and doers saw, and how each must have ended.

Above: givers, doers, and the proofs that disturb the server. Below: the book, a look into the store.
"""

import json
from collections import Counter
from typing import Any

from msgspec import Struct

from proofs.harness.ledger import Ledger, Row, read_tables
from proofs.harness.settings import Setting
from proofs.workload.observations import Book

_DELEGATIONS = "SELECT id, source_id, target_id, status, open, task, result FROM delegations ORDER BY created_at, id"
RESULT = "delegate_result"
LATE = (
    "its deadline has passed (expired). The deadline passed. Set a longer deadline_seconds, or check what the target "
    "is doing."
)
"""What its giver reads of a delegation that nobody did in time."""
_SENT, _ENDS = "DELEGATION_SENT", ("DELEGATION_COMPLETE", "DELEGATION_FAILED")


class Work(Struct):
    """One delegation as its giver knows it. `id`: of the first 2xx answer."""

    key: str
    giver: int
    target: str
    task: str
    deadline_seconds: int | None = None
    id: str | None = None


class Given(Struct):
    """One delegation of the store."""

    id: str
    source_id: str
    target_id: str
    status: str
    open: int
    task: str
    result: str | None


class Works:
    """Everything that was answered about delegations; finds contradictions. `hands`: the book of their claims."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.hands = Book()
        self.hands.progress = book.progress
        self.all: dict[str, Work] = {}
        """By key."""
        self.accepted: dict[str, Work] = {}
        """By the id of the delegation."""
        self.had: set[str] = set()
        """Delegations whose result their giver has."""
        self.absent = ""
        """A seat whose agent never comes: what it is given ends by its deadline."""
        self._here: dict[str, int] = {}

    def accept(self, work: Work, delegation_id: str) -> None:
        """A giver was told the delegation's id, for the first time or again."""
        if work.id is None:
            work.id = delegation_id
            self.accepted[delegation_id] = work
            self._book.progress.note("accepted")
        elif work.id != delegation_id:
            self._fault("hits with another id", f"{work.key} got {work.id}, then {delegation_id}")

    def tell(self, delegation_id: str, text: str, *, here: bool) -> None:
        """The text of a result was in an answer to its giver; `here`: and by that it is taken from the inbox."""
        self._check(delegation_id, text, done(delegation_id))
        if here and delegation_id in self._here:
            self._fault("taken twice", delegation_id)
        elif here:
            self._here[delegation_id] = self.hands.tick()
        self._have(delegation_id)

    def hand(self, rows: list[dict[str, Any]], asked: int, held_until: float) -> None:
        """A giver was handed results by its inbox; it had asked at this tick."""
        self.hands.hand(rows, asked, held_until)
        for row in rows:
            id_ = delegation_of(row["request_body"])
            self._check(id_, row["response_body"]["text"], self.wanted(id_, row["source_id"]))
            if self._here.get(id_, asked) < asked:
                self._fault("taken and handed out too", id_)

    def keep(self, row: dict[str, Any]) -> None:
        """A giver's ack of a result was taken."""
        self.hands.handle(row["id"])
        self._have(delegation_of(row["request_body"]))

    def open_of(self, giver: int) -> list[str]:
        """Delegations of one giver whose result it does not have."""
        return [id_ for id_, work in self.accepted.items() if work.giver == giver and id_ not in self.had]

    @property
    def taken(self) -> set[str]:
        """Those whose text was taken by who waited."""
        return set(self._here)

    def _have(self, delegation_id: str) -> None:
        if delegation_id not in self.had:
            self.had.add(delegation_id)
            self._book.progress.note("had")

    def wanted(self, delegation_id: str, target_id: str | None) -> str:
        """What the giver must read of a delegation in the end."""
        return LATE if target_id == self.absent else done(delegation_id)

    def _check(self, delegation_id: str, text: str, wanted: str) -> None:
        if text != wanted:
            self._fault("results other than the answer", f"{delegation_id}: {text}")

    def _fault(self, what: str, note: str) -> None:
        self._book.fault(what, note)


async def read_given(setting: Setting) -> list[Given]:
    """All delegations of a store that no server has."""
    (rows,), _ = await read_tables(setting, (_DELEGATIONS,))
    return [Given(*row) for row in rows]


def judge_works(works: Works, book: Book, given: list[Given], ledger: Ledger) -> dict[str, int]:
    """What givers and doers saw against what the store holds."""
    kept, hands = {each.id: each for each in given}, works.hands.faults
    tasks = Counter(each.task for each in given if each.target_id != works.absent)  # a failed one frees its key
    begun = {work.task for work in works.all.values()}
    results: dict[str, list[Row]] = {id_: [] for id_ in kept}
    for row in ledger.rows:
        if row.method == RESULT and row.inbound_no is not None:
            results.setdefault(delegation_of(json.loads(row.request_body or "{}")), []).append(row)
    names: dict[str, list[str]] = {}
    for fact in ledger.facts:
        if fact.entity_kind == "delegation":
            names.setdefault(fact.entity_id, []).append(fact.name)
    return {
        "delegations missing": len(set(works.accepted) - set(kept)),
        "delegations doubled": sum(count - 1 for count in tasks.values()),
        "delegations that nobody gave": len({each.task for each in given} - begun),
        "delegations stuck": sum(each.open for each in given),
        "ended otherwise than they should": sum(
            each.status != ("failed" if each.target_id == works.absent else "completed")
            for each in given
            if not each.open
        ),
        "not exactly one end": sum(_ends(names.get(id_, [])) != 1 for id_ in kept),
        "SENT not first": sum(names.get(id_, [""])[0] != _SENT or names[id_].count(_SENT) != 1 for id_ in kept),
        "results not exactly one": sum(len(rows) != 1 for rows in results.values()),
        "results other than the answer": book.faults["results other than the answer"]
        + sum(each.result != done(each.id) for each in given if each.status == "completed")
        + sum(_text_of(row) != works.wanted(id_, row.source_id) for id_, rows in results.items() for row in rows),
        "results never had": len(set(works.accepted) - works.had),
        "hits with another id": book.faults["hits with another id"],
        "taken and handed out too": book.faults["taken and handed out too"] + book.faults["taken twice"],
        "taken and left in the inbox": sum(
            not ledger.is_handled(row) for id_ in works.taken for row in results.get(id_, [])
        ),
        "tasks or results handed twice under one attempt": hands["handed twice under one attempt"],
        "tasks or results handed again after their end": hands["handed again after its ack"],
        "tasks or results handed on while held": hands["handed on while it was held"],
    }


def _ends(names: list[str]) -> int:
    return sum(name in _ENDS for name in names)


def _text_of(row: Row) -> str:
    text: str = json.loads(row.request_body or "")["params"]["message"]["parts"][0]["text"]
    return text


def delegation_of(body: dict[str, Any]) -> str:
    """The delegation that a row is about."""
    id_: str = body["params"]["message"]["metadata"]["delegation_id"]
    return id_


def done(delegation_id: str) -> str:
    """What a doer says about a task."""
    return f"done: {delegation_id}"
