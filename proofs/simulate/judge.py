"""The judge: what the store holds in the end, read with SQL of its own, against what people were answered."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import msgspec

from proofs.harness.verdicts import descents, gaps
from proofs.simulate.company import Company
from proofs.simulate.people import Book
from proofs.simulate.world import World

_OPEN = {
    "messages that nobody has handled": """SELECT count(*) FROM activities a
        LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
        LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
        WHERE a.inbound_no IS NOT NULL AND a.seq > coalesce(i.acked_seq, 0) AND h.acked_at IS NULL""",
    "delegations": "SELECT count(*) FROM delegations WHERE open = 1",
    "approvals": "SELECT count(*) FROM approvals WHERE open = 1",
    "turns of threads": "SELECT count(*) FROM thread_turns WHERE ended_at IS NULL",
    "answers that are neither there nor missed": """SELECT count(*) FROM obligations
        WHERE state = 'open' AND due_at IS NOT NULL AND overdue_at IS NULL""",
}
_ENDED = ("DELEGATION_COMPLETE", "DELEGATION_FAILED")
_RULED = ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN")
# What keeps itself going, and what is due much later than any game lasts.
_TIMERS = "SELECT kind, key, due FROM timers"
_LATE_SECONDS = 130


def open_things(file: Path) -> dict[str, int]:
    """How much of what should end has not."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {what: connection.execute(sql).fetchall()[0][0] for what, sql in _OPEN.items()}
    finally:
        connection.close()


def judge(file: Path, world: World, company: Company, book: Book) -> str:
    """Counts what is wrong; returns the hash of the journal."""
    connection = apsw.Connection(str(file))
    try:
        return _Judge(connection, world, company, book).all()
    finally:
        connection.close()


class _Judge:
    def __init__(self, connection: apsw.Connection, world: World, company: Company, book: Book) -> None:
        self._connection = connection
        self._world = world
        self._company = company
        self._book = book
        self._events = self._rows("SELECT * FROM events ORDER BY org_id, seq")
        self._columns = [row[1] for row in self._rows("PRAGMA table_info(events)")]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def _fault(self, what: str, note: object) -> None:
        self._world.fault(what, str(note))

    def all(self) -> str:
        self._numbers()
        self._messages()
        self._delegations()
        self._approvals()
        self._timers()
        counts = self._world.counts
        counts["events"] = len(self._events)
        delivered = "SELECT count(*) FROM activities WHERE inbound_no IS NOT NULL"
        counts["messages delivered"] = self._rows(delivered)[0][0]
        return hashlib.sha256(msgspec.json.encode(self._events)).hexdigest()

    def _numbers(self) -> None:
        """Journals, logs and inboxes count without a gap."""
        every: list[tuple[str, str]] = [
            ("gaps in journals", "SELECT org_id, seq FROM events ORDER BY 1, 2"),
            ("gaps in logs", "SELECT workspace_id, seq FROM activities ORDER BY 1, 2"),
            (
                "gaps in inboxes",
                "SELECT workspace_id, inbound_no FROM activities WHERE inbound_no IS NOT NULL ORDER BY 1, seq",
            ),
        ]
        for what, sql in every:
            found: dict[str, list[int]] = {}
            for key, number in self._rows(sql):
                found.setdefault(key, []).append(number)
            for key, numbers in found.items():
                if gaps(numbers) or descents(numbers):
                    self._fault("gaps", f"{what}: {key} {numbers[-5:]}")

    def _messages(self) -> None:
        """Whatever was accepted is there once, in its sender's order."""
        rows = self._rows("SELECT dedupe_key, workspace_id, seq, id FROM activities WHERE inbound_no IS NOT NULL")
        places: dict[str, list[tuple[str, int, str]]] = {}
        for key, inbox, seq, id_ in rows:
            places.setdefault(key, []).append((inbox, seq, id_))
        last: dict[tuple[str, str], int] = {}
        for sent in self._book.sent:
            found = places.get(sent.id, [])
            if sent.is_accepted and not found:
                self._fault("accepted but missing", sent)
            if len(found) > 1:
                self._fault("twice in an inbox", found)
            for inbox, seq, id_ in found:
                if inbox != sent.inbox or (sent.receipt is not None and id_ != sent.receipt):
                    self._fault("accepted but missing", f"{sent} is {found}")
                if seq < last.get((sent.sender, inbox), 0):
                    self._fault("order of a sender broken", sent)
                last[sent.sender, inbox] = seq
        known = {id_ for _, _, _, id_ in rows}
        acked = "SELECT count(*) FROM handovers WHERE tick = 'acked'"
        self._world.counts["acked ranges"] += self._rows(acked)[0][0]
        for id_ in self._book.handled:
            if id_ not in known:
                self._fault("accepted but missing", f"handled {id_}")

    def _told(self, names: tuple[str, ...]) -> Counter[str]:
        """How often something was told of each: once, to however many workspaces."""
        name, entity, rev = (self._columns.index(each) for each in ("name", "entity_id", "rev"))
        told = {(row[entity], row[name], row[rev]) for row in self._events if row[name] in names}
        return Counter(entity for entity, _, _ in told)

    def _delegations(self) -> None:
        """Each has ended once, and who gave it has its end once."""
        ends, begun = self._told(_ENDED), self._told(("DELEGATION_SENT",))
        rows = self._rows("SELECT id, source_id, open, recorded FROM delegations")
        results = Counter(
            id_
            for (id_,) in self._rows(
                "SELECT d.id FROM delegations d JOIN activities a ON a.workspace_id = d.source_id AND a.seq = d.result_seq"
            )
        )
        for id_, _, is_open, recorded in rows:
            if ends[id_] != 1 - is_open or begun[id_] != 1:
                self._fault("delegations that did not end once", f"{id_}: {begun[id_]} begun, {ends[id_]} ends")
            if not is_open and not recorded and results[id_] + (id_ in self._book.taken) < 1:
                self._fault("results that were not told", id_)
        missing = set(self._book.delegated) - {row[0] for row in rows}
        for id_ in missing:
            self._fault("accepted but missing", f"delegation {id_}")
        self._world.counts["delegations"] = len(rows)

    def _approvals(self) -> None:
        ends, uses = self._told(_RULED), self._told(("APPROVAL_USED",))
        rows = self._rows("SELECT id, open, used_at, workspace_id FROM approvals")
        for id_, is_open, used_at, _ in rows:
            if ends[id_] != 1 - is_open:
                self._fault("approvals that did not end once", f"{id_}: {ends[id_]} ends")
            if uses[id_] != (used_at is not None):
                self._fault("approvals used twice", f"{id_}: {uses[id_]}")
        for id_ in set(self._book.asked) - {row[0] for row in rows}:
            self._fault("accepted but missing", f"approval {id_}")
        self._world.counts["approvals"] = len(rows)

    def _timers(self) -> None:
        """Nothing was due long ago."""
        now = self._world.clock.now()
        for kind, key, due in self._rows(_TIMERS):
            if due < now - _LATE_SECONDS * 1_000_000:
                self._fault("timers past due", f"{kind} {key}: {(now - due) / 1e6:.0f} s")
