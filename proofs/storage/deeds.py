"""What people want of a server, and the model: what was answered with 2xx is true, all of it and once.

Above: rounds.py. Below: a server in this process.
"""

from collections import Counter
from random import Random
from typing import Any

from msgspec import Struct

from proofs.harness.office import ADMIN_TOKEN, Office

_MOST_NOTES = 3
_LEASE_SECONDS = 600
SEATS = 6
# The first two give tasks, the last two do them and give none on: or they would stand below each other.
_GIVERS, _DOERS = (0, 1), (4, 5)
SEND, NOTIFY, DELEGATE, CANCEL, CLAIM, ACK = "send", "notify", "delegate", "cancel", "claim", "ack"
ASK, WITHDRAW, START, CLOSE, NOTE, KEEP = "ask", "withdraw", "start", "close", "note", "keep"
KINDS = (SEND, NOTIFY, DELEGATE, CANCEL, CLAIM, ACK, ASK, WITHDRAW, START, CLOSE, NOTE, KEEP)
# The rest follows from what was claimed and begun before.
_OF_GIVERS, _OF_DOERS = (SEND, NOTIFY, DELEGATE, CLAIM), (NOTIFY, CLAIM)
_OF_OTHERS = (SEND, SEND, NOTIFY, CLAIM, ASK, START, NOTE, KEEP)
# What ends what was begun, and the member of the answer that names it.
_BEGUN = {DELEGATE: "delegation_id", ASK: "approval_id", START: "thread_id"}
_ENDED = {DELEGATE: CANCEL, ASK: WITHDRAW, START: CLOSE}
_ENDS = 0.7


class Deed(Struct):
    """One command. `about`: the row or delegation that it names."""

    kind: str
    id: str
    token: str
    method: str
    path: str
    body: Any = None
    query: dict[str, Any] = {}
    about: str = ""


class Model:
    """What was asked for, and what was answered."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.receipts: dict[str, str] = {}
        """Id of a deed -> the row that its first 2xx named."""
        self.begun: dict[str, dict[str, str]] = {kind: {} for kind in (*_BEGUN, NOTE)}
        """By kind: id of a deed -> the delegation, approval, thread or memory."""
        self.ended: dict[str, set[str]] = {kind: set() for kind in _ENDED.values()}
        """By kind: what was ended by it."""
        self.kept: set[str] = set()
        """The deeds that put a value under their own id."""
        self.acked: set[str] = set()
        self.handed: Counter[tuple[str, int]] = Counter()
        self.done: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []

    def fault(self, what: str, note: str) -> None:
        """Something that must not be."""
        self.faults[what] += 1
        if self.faults[what] <= _MOST_NOTES:
            self.notes.append(f"{what}: {note[:300]}")

    def answered(self, deed: Deed, answer: Any) -> None:
        """A deed had a 2xx."""
        self.done[deed.kind] += 1
        if deed.kind in (SEND, NOTIFY):
            self.receipts[deed.id] = answer["activity_id"]
        elif deed.kind in self.begun:
            self.begun[deed.kind][deed.id] = answer[_BEGUN.get(deed.kind, "id")]
        elif deed.kind in self.ended:
            self.ended[deed.kind].add(deed.about)
        elif deed.kind == KEEP:
            self.kept.add(deed.id)
        elif deed.kind == ACK:
            self.acked.add(deed.about)
        else:
            for row in answer:
                self.handed[row["id"], row["attempt"]] += 1


class Crew:
    """Workspaces that do all kinds of things, each one thing at a time."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._seats: list[tuple[str, str]] = []
        self._next: list[list[Deed]] = [[] for _ in range(SEATS)]
        self._number = 0

    async def found(self, office: Office) -> None:
        """Makes the seats."""
        for number in range(SEATS):
            made = await office.tell(ADMIN_TOKEN, "POST", "/workspaces", {"name": f"Seat {number}"})
            self._seats.append((made["id"], made["connection"]["auth_token"]))

    def deeds(self) -> list[Deed]:
        """What each wants next."""
        return [self._next[place].pop() if self._next[place] else self._fresh(place) for place in range(SEATS)]

    def learn(self, deed: Deed, answer: Any) -> None:
        """What follows from an answer: a row that was claimed is acknowledged, most of what was begun is ended."""
        place = next(n for n, (_, token) in enumerate(self._seats) if token == deed.token)
        own = f"/workspaces/{self._seats[place][0]}"
        if deed.kind == CLAIM:
            for row in answer:
                handled = {"activity_id": row["id"], "attempt": row["attempt"]}
                path = f"{own}/activity/ack"
                self._next[place].append(Deed(ACK, f"a{row['id']}", deed.token, "POST", path, handled, about=row["id"]))
        elif deed.kind in _ENDED and self._dice.random() < _ENDS:
            id_, verb = answer[_BEGUN[deed.kind]], _ENDED[deed.kind]
            path = {
                CANCEL: f"{own}/delegations/{id_}/cancel",
                WITHDRAW: f"{own}/approvals/{id_}/withdraw",
                CLOSE: f"/threads/{id_}/close",
            }[verb]
            body = {"descendants": "close"} if verb == CLOSE else {}
            self._next[place].append(Deed(verb, f"{verb}{id_}", deed.token, "POST", path, body, about=id_))

    def _fresh(self, place: int) -> Deed:
        self._number += 1
        fresh = _OF_GIVERS if place in _GIVERS else _OF_DOERS if place in _DOERS else _OF_OTHERS
        kind, id_ = self._dice.choice(fresh), f"d{self._number}"
        seat, token = self._seats[place]
        others = [n for n in range(SEATS) if n != place and (n in _DOERS) == (kind == DELEGATE)]
        other = self._seats[self._dice.choice(others)][0]
        if kind == SEND:
            parts = [{"kind": "text", "text": id_}]
            message = {"role": "user", "messageId": id_, "parts": parts, "metadata": {"intent": "inform"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            return Deed(kind, id_, token, "POST", f"/workspaces/{other}/a2a", body)
        if kind == NOTIFY:
            return Deed(kind, id_, token, "POST", f"/workspaces/{seat}/notify", {"message": id_})
        if kind == DELEGATE:
            return Deed(kind, id_, token, "POST", f"/workspaces/{seat}/delegate", {"target_id": other, "task": id_})
        if kind != CLAIM:
            return Deed(kind, id_, token, "POST", *_asked(kind, id_, f"/workspaces/{seat}"))
        query = {"claim": _LEASE_SECONDS, "limit": 3}
        return Deed(kind, id_, token, "GET", f"/workspaces/{seat}/activity", None, query)


def _asked(kind: str, id_: str, own: str) -> tuple[str, dict[str, Any]]:
    """Path and body of what a workspace asks for itself; its text is the id of the deed."""
    paths: dict[str, tuple[str, dict[str, Any]]] = {
        ASK: (f"{own}/approvals", {"action": "deploy", "reason": id_, "details": {}}),
        START: (f"{own}/threads", {"input": id_, "base_instructions": "Think.", "key": id_}),
        NOTE: (f"{own}/memories", {"content": id_, "scope": "LOCAL"}),
        KEEP: (f"{own}/memory", {"key": id_, "value": id_}),
    }
    return paths[kind]
