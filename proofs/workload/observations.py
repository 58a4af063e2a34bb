"""The model: what the people of a company saw with their own eyes, and what must therefore be true."""

import asyncio
import time
from collections import Counter
from typing import Any

from msgspec import Struct

from proofs.harness.progress import Progress

# Examples of one kind of fault: enough to see the reason.
_MOST_NOTES = 3
_NOTE_LENGTH = 200
# The servers count leases on the wall clock, which may be set while they run.
_SAME_CLOCK_SECONDS = 0.2


class Message(Struct):
    """One message as its sender knows it. `receipt` is the activity id of the first 2xx answer."""

    id: str
    sender: str
    number: int
    inbox: str
    text: str
    receipt: str | None = None
    cut_at: int = 0
    """When a call for it was last cut off, on the wall clock in microseconds."""


class Book:
    """Everything that was answered. Every method is called with what a 2xx answer said, and finds contradictions."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.stopping = asyncio.Event()
        """Senders start nothing new."""
        self.closing = asyncio.Event()
        """Watchers leave once there is no more."""
        self.messages: dict[str, Message] = {}
        self.accepted: dict[str, Message] = {}
        """By activity id."""
        self.handed: Counter[tuple[str, int]] = Counter()
        self.handled: dict[str, int] = {}
        """Activity id -> the tick of its accepted ack."""
        self.answers: dict[str, str] = {}
        """Activity id -> the id of the answer to it."""
        self.watched: dict[str, list[tuple[int, str]]] = {}
        """Watcher -> (seq, activity id) as they came."""
        self.claims_in_vain = 0
        """Since the last one that found mail."""
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []
        self._tick = 0
        self._held_until: dict[tuple[str, int], float] = {}
        self._newest: dict[str, int] = {}
        """Activity id -> the newest attempt under which it was handed out."""
        self._acking: dict[str, int] = {}
        """Activity id -> the newest attempt of which an ack was sent, answered or not."""
        self._settled: dict[str, int] = {}
        """Activity id -> no later attempt than this can have handled it, as the first ack says that was taken."""

    def tick(self) -> int:
        """Harness time: a number greater than all before."""
        self._tick += 1
        return self._tick

    def fault(self, what: str, note: str) -> None:
        """Something that must not be."""
        self.faults[what] += 1
        if self.faults[what] <= _MOST_NOTES:
            self.notes.append(f"{what}: {note[:_NOTE_LENGTH]}")

    def accept(self, message: Message, activity_id: str) -> None:
        """A send was answered with 2xx, for the first time or again."""
        if message.receipt is None:
            message.receipt = activity_id
            self.accepted[activity_id] = message
            self.progress.note("accepted")
        elif message.receipt != activity_id:
            self.fault("two receipts", f"{message.id} got {message.receipt}, then {activity_id}")

    def hand(self, rows: list[dict[str, Any]], asked: int, held_until: float) -> None:
        """A claim that was sent at this tick was answered with these rows; their lease ends at this monotonic time or
        later."""
        self.claims_in_vain = 0 if rows else self.claims_in_vain + 1
        self.progress.note("claimed")
        for row in rows:
            id_, attempt = row["id"], row["attempt"]
            self.handed[id_, attempt] += 1
            if attempt > 1:
                self.figures["redelivered"] += 1
            if self.handed[id_, attempt] > 1:
                self.fault("handed twice under one attempt", f"{id_} attempt {attempt}")
            self._held_until[id_, attempt] = held_until
            if time.monotonic() < self._held_until.get((id_, attempt - 1), 0.0) - _SAME_CLOCK_SECONDS:
                self.fault("handed on while it was held", f"{id_} attempt {attempt}")
            self._newest[id_] = max(attempt, self._newest.get(id_, 0))
            # A reminder is for what was acknowledged and not answered.
            if self.handled.get(id_, asked) < asked and not row.get("reminder"):
                self.fault("handed again after its ack", f"{id_} attempt {attempt}")
            elif attempt > self._settled.get(id_, attempt):  # its claim was answered late, by one that was frozen
                self._take_stale(id_)
            self.progress.note("handed")

    def answer(self, activity_id: str, answer_id: str) -> None:
        """An answer to a message was taken."""
        if self.answers.setdefault(activity_id, answer_id) != answer_id:
            self.fault("two receipts", f"the answer to {activity_id}: {self.answers[activity_id]}, then {answer_id}")
        self.progress.note("answered")

    def begin_ack(self, activity_id: str, attempt: int) -> None:
        """An ack of this attempt is about to be sent: from now on it may be taken, whatever its agent hears of it."""
        self._acking[activity_id] = max(attempt, self._acking.get(activity_id, 0))

    def take_ack(self, activity_id: str) -> None:
        """An ack that was begun was answered with 2xx, for the first time or again. (What is handled is acknowledged
        again under any attempt; so it is stale only if no ack of the newest one may have handled it before.)"""
        if activity_id not in self._settled:
            self._settled[activity_id] = self._acking[activity_id]
            if self._newest.get(activity_id, 0) > self._settled[activity_id]:
                self._take_stale(activity_id)
        self.handle(activity_id)

    def handle(self, activity_id: str) -> None:
        """A message was handled, by an ack or by what does as well."""
        self.handled.setdefault(activity_id, self.tick())
        self.progress.note("acked")

    def _take_stale(self, activity_id: str) -> None:
        acked, handed = self._settled[activity_id], self._newest[activity_id]
        self.fault("stale acks taken", f"{activity_id}: attempt {acked}, and {handed} was handed out")

    def open_messages(self) -> list[str]:
        """Activity ids that were accepted and not yet handled."""
        return [id_ for id_ in self.accepted if id_ not in self.handled]
