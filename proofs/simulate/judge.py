"""The judge: what the store holds in the end, read with SQL of its own, against what people were answered."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import msgspec

from proofs.harness.verdicts import descents, gaps
from proofs.simulate.cells import Cells
from proofs.simulate.company import Company
from proofs.simulate.people import Book, Sent
from proofs.simulate.world import SIM_LIMITS, Item, World

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
_ANSWERED = """SELECT a.id, a.source_id, a.dedupe_key FROM activities a
    JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq AND o.state IN ('answered', 'declined')
    JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq AND p.answer IS NOT NULL
    WHERE a.kind = 'peer_agent'"""
_GIVEN_UP = """SELECT a.id, a.source_id, a.dedupe_key FROM activities a
    JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq AND d.state = 'dead'
    WHERE a.kind = 'peer_agent' AND a.intent = 'request'"""
_TOLD_OF = """SELECT workspace_id, coalesce(json_extract(request_body, '$.params.message.metadata.in_reply_to'),
    json_extract(request_body, '$.params.message.metadata.activity_id'))
    FROM activities WHERE inbound_no IS NOT NULL AND kind IN ('peer_agent', 'system')"""
# What keeps itself going, and what is due much later than any game lasts.
_TIMERS = "SELECT kind, key, due FROM timers"
_LATE_SECONDS = 130
# A sender is waited for as long as its patience says, and ten seconds more.
_HELD_SECONDS = SIM_LIMITS.patience_seconds + 12
_LINES = "SELECT thread_id, ordinal, type, body FROM thread_entries ORDER BY 1, 2"


def open_things(file: Path) -> dict[str, int]:
    """How much of what should end has not."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {what: int(str(connection.execute(sql).fetchall()[0][0])) for what, sql in _OPEN.items()}
    finally:
        connection.close()


def judge(file: Path, world: World, company: Company, book: Book, cells: Cells | None = None) -> str:
    """Counts what is wrong; returns the hash of the journal."""
    connection = apsw.Connection(str(file))
    try:
        if cells is not None:
            cells.read(connection)
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
        self._answers()
        self._delegations()
        self._approvals()
        self._threads()
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
        rows = self._rows("SELECT summary, workspace_id, seq, id FROM activities WHERE inbound_no IS NOT NULL")
        places: dict[str, list[tuple[str, int, str]]] = {}
        for words, inbox, seq, id_ in rows:
            places.setdefault(words, []).append((inbox, seq, id_))
        last: dict[tuple[str, str], int] = {}
        for sent in self._book.sent:
            found = places.get(f"say {sent.id}", [])
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

    def _answers(self) -> None:
        """What came of a question to an agent that is pushed to is known to who asked: where it waited, or in its
        inbox, and there once."""
        told = Counter(self._rows(_TOLD_OF))
        heard = {sent.id for sent in self._book.sent if sent.is_heard or self._fell_behind(sent)}
        answered, given_up = self._rows(_ANSWERED), self._rows(_GIVEN_UP)
        for id_, source_id, sent in answered + given_up:
            times = told[source_id, id_]
            if times > 1 or not (times or sent in heard):
                self._fault("answers that did not come once", f"{sent}: {times} times in the inbox")
        self._world.counts["late answers"] += sum(told[source_id, id_] for id_, source_id, _ in answered)

    def _fell_behind(self, sent: Sent) -> bool:
        """Whether the server died before it could know that a caller had hung up. Such a caller has to ask again."""
        at = sent.hung_up_at
        return at > 0 and any(at <= each <= at + _HELD_SECONDS for each in self._world.fell_at)

    def _told(self, names: tuple[str, ...]) -> Counter[str]:
        """How often something was told of each: once, to however many workspaces."""
        name, entity, rev = (self._columns.index(each) for each in ("name", "entity_id", "rev"))
        told = {(row[entity], row[name], row[rev]) for row in self._events if row[name] in names}
        return Counter(entity for entity, _, _ in told)

    def _delegations(self) -> None:
        """Each has ended once, and who gave it has its end once."""
        ends, begun = self._told(_ENDED), self._told(("DELEGATION_SENT",))
        rows = self._rows("SELECT id, settled_at, open, recorded FROM delegations")
        results = Counter(
            id_
            for (id_,) in self._rows(
                "SELECT d.id FROM delegations d "
                "JOIN activities a ON a.workspace_id = d.source_id AND a.seq = d.result_seq"
            )
        )
        is_told = not self._world.chance.jumps
        for id_, settled_at, is_open, recorded in rows:
            if is_told and id_ in self._book.ended and (settled_at is None or settled_at > self._book.ended[id_]):
                self._fault("answered and yet not ended by it", id_)
            if ends[id_] != 1 - is_open or begun[id_] != 1:
                self._fault("delegations that did not end once", f"{id_}: {begun[id_]} begun, {ends[id_]} ends")
            if not is_open and not recorded and results[id_] + (id_ in self._book.taken) < 1:
                self._fault("results that were not told", id_)
        missing = set(self._book.delegated) - {row[0] for row in rows}
        for id_ in missing:
            self._fault("accepted but missing", f"delegation {id_}")
        self._world.counts["delegations"] = len(rows)

    def _approvals(self) -> None:
        """Each has ended once; whoever was told that it used one did, and nobody else."""
        ends, uses = self._told(_RULED), self._told(("APPROVAL_USED",))
        rows = self._rows("SELECT id, open, used_at, workspace_id FROM approvals")
        for id_, is_open, used_at, _ in rows:
            if ends[id_] != 1 - is_open:
                self._fault("approvals that did not end once", f"{id_}: {ends[id_]} ends")
            if uses[id_] != (used_at is not None) or self._book.used[id_] > uses[id_]:
                self._fault("approvals used twice", f"{id_}: {uses[id_]}, told {self._book.used[id_]} times")
        for id_ in set(self._book.asked) - {row[0] for row in rows}:
            self._fault("accepted but missing", f"approval {id_}")
        self._world.counts["approvals"] = len(rows)

    def _threads(self) -> None:
        """Each turn has ended once; logs have no gaps."""
        ends = Counter(turn for (turn,) in self._rows("SELECT turn_id FROM thread_entries WHERE type = 'turn_ended'"))
        turns = self._rows("SELECT turn_id, ended_at, input FROM thread_turns")
        for turn, ended_at, _ in turns:
            if ends[turn] != (ended_at is not None):
                self._fault("turns that did not end once", f"{turn}: {ends[turn]} ends")
        numbers: dict[str, list[int]] = {}
        lines: list[tuple[str, str, Item]] = []
        for thread, ordinal, kind, body in self._rows(_LINES):
            numbers.setdefault(thread, []).append(ordinal)
            if kind in ("peer_message", "user_message", "created"):
                lines.append((thread, kind, msgspec.json.decode(body)))
        for thread, every in numbers.items():
            if every != list(range(1, len(every) + 1)):
                self._fault("gaps", f"log of thread {thread}")
        self._world.counts["threads"] = len(numbers)
        self._said(lines, [str(text) for _, _, text in turns])
        self._letters(Counter(about["mail_id"] for _, kind, about in lines if kind == "peer_message"))

    def _said(self, lines: list[tuple[str, str, Item]], turns: list[str]) -> None:
        """What was said to a thread stands there once, or waits in a turn that never began; who was spawned is there
        once."""
        said = Counter((thread, about["text"]) for thread, kind, about in lines if kind == "user_message")
        for words, thread in self._book.said.items():
            waits = sum(f'"{words}"' in text for text in turns)
            if said[thread, words] != 1 and (said[thread, words], waits) != (0, 1):
                self._fault("said to a thread and not there once", f"{words}: {said[thread, words]}, {waits} turns")
        spawned = Counter(about["call_id"] for _, kind, about in lines if kind == "created")
        for call in self._book.spawned:
            if spawned[call] != 1:
                self._fault("spawned not once", f"{call}: {spawned[call]}")

    def _letters(self, shown: Counter[str]) -> None:
        """A letter that was taken is there once, and was shown once if it was read in a turn. (An end that a wait has
        told is read there, and stands nowhere else.) One that asks for work was read, or has failed."""
        mail = self._rows("SELECT mail_id, key, receiver_id, state, type, turn_id, wakes FROM thread_mail")
        keys = Counter((key.rpartition(":")[2], receiver) for _, key, receiver, *_ in mail if key.startswith("call:"))
        for each in self._book.mailed:
            if keys[each] != 1:
                self._fault("letters not there once", f"{each}: {keys[each]}")
        for mail_id, _, _, state, kind, turn_id, wakes in mail:
            is_end = kind == "FINAL_ANSWER"
            is_failed_unread = state == "failed" and turn_id is None and wakes and not is_end
            most = int(state != "accepted" and not is_failed_unread)
            is_asked_in_vain = state == "accepted" and wakes and not is_end
            if not most - is_end <= shown[mail_id] <= most or is_asked_in_vain:
                self._fault("letters not there once", f"{mail_id}: {state}, shown {shown[mail_id]} times")
        self._world.counts["letters between threads"] = len(mail)

    def _timers(self) -> None:
        """Nothing was due long ago."""
        now = self._world.clock.now()
        for kind, key, due in self._rows(_TIMERS):
            if due < now - _LATE_SECONDS * 1_000_000:
                self._fault("timers past due", f"{kind} {key}: {(now - due) / 1e6:.0f} s")
