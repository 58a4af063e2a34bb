"""Obligations: what a workspace owes for a message that wants an answer, and the reads and statements about it.

Above: `owing`, which says when one begins and ends, and the hands of this slice. Below: handles, ticks, rules.
docs/obligations.md.
"""

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery_log import Statement
from molecule_core.messages.model import ANSWERED_OUTSIDE, OVERDUE, ActivityPageRow
from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.org.model import Workspace
from molecule_core.store.database import JournalEvent, ReadQuery, RequestBatch, StepRequest, T, WriteSet
from molecule_core.wire.schemas.events import MessageDraftedPayload

OVERDUE_TIMER = "silence"
"""The kind of the timer that watches what a workspace owes; its key is the workspace."""
FORGOTTEN_TICK = "forgotten"
"""The tick of a message that waited for an answer in vain, and is too old to be kept."""
NO_REMINDER = 0
"""Instead of the time of a reminder: the first due time has passed, and none was possible."""


class InboundMessage(Struct, frozen=True):
    """A message of an inbox as an answer needs to know it, in the order of the query. `source_id` None: a person's."""

    id: str
    org_id: str
    workspace_id: str
    source_id: str | None
    context_id: str | None
    seq: int
    inbound_no: int
    intent: str | None
    kind: str | None

    @property
    def handle(self) -> str:
        """What names it in an answer."""
        handle_parts = (self.context_id, self.id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)


class Obligation(Struct, frozen=True):
    """One row of the table with what its message says, in the order the queries select it. Times in microseconds."""

    workspace_id: str
    seq: int
    activity_id: str
    org_id: str
    source_id: str | None
    state: str
    handed_at: int
    due_at: int | None
    reminded_at: int | None
    outside_at: int | None
    overdue_at: int | None
    closed_at: int | None
    answer_id: str | None
    by_handle: int
    reason: str | None
    draft: str | None
    template_org: str | None
    template: str | None
    version: int | None
    form: str | None
    tokens: int | None
    inbound_no: int
    context_id: str | None
    summary: str | None
    kind: str | None

    @property
    def is_open(self) -> bool:
        """Whether nobody has answered or declined."""
        return self.state == "open"

    @property
    def handle(self) -> str:
        """What names its message in an answer."""
        handle_parts = (self.context_id, self.activity_id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)

    @property
    def is_reminded(self) -> bool:
        """Whether its agent was reminded and still has time."""
        return self.is_open and bool(self.reminded_at) and self.overdue_at is None

    @property
    def display_state(self) -> str:
        """How it stands, in one word."""
        return obligation_state(self.state, self.overdue_at, self.outside_at)

    @property
    def template_label(self) -> str | None:
        """The template and version of the instructions that its message came with."""
        return template_label(self.template, self.version)


def obligation_state(state: str, overdue_at: int | None, outside_at: int | None) -> str:
    """How an obligation stands, in one word: answered, declined, overdue, answered_outside or open."""
    if state != "open":
        return state
    if overdue_at is not None:
        return OVERDUE
    return ANSWERED_OUTSIDE if outside_at is not None else "open"


def template_label(template: str | None, version: int | None) -> str | None:
    """A template and its version as they are shown."""
    return None if template is None else f"{template}@{version}"


def find_reminded(workspace_id: str, rows: Iterable[ActivityPageRow]) -> Generator[StepRequest, Any, frozenset[str]]:
    """Which of these rows are handed over once more because nobody has answered."""
    redelivered = [row for row in rows if (row.attempt or 1) > 1]
    if not redelivered:
        return frozenset()
    found = yield RequestBatch(
        [ReadQuery("obligation", {"workspace_id": workspace_id, "seq": row.seq}) for row in redelivered]
    )
    return frozenset(
        row.id
        for row, obligation in zip(redelivered, found, strict=True)
        if obligation and Obligation(*obligation[0]).is_reminded
    )


def reply_due_at(workspace: Workspace, limits: Limits, now: int) -> int | None:
    """When the answer to a message is due that is handed over now; None: nobody watches."""
    seconds = limits.reply_seconds if workspace.reply_seconds is None else workspace.reply_seconds
    return now + seconds * SECOND if seconds else None


# -- closing -----------------------------------------------------------------------------------------------------------


def obligation_key(workspace_id: str, source_id: str | None) -> tuple[str, str, str]:
    """The key of a command that may change what a workspace owes to another one or to its user (None)."""
    return "owes", workspace_id, source_id or ""


def load_inbound(workspace_id: str, seq: int) -> Generator[StepRequest, Any, InboundMessage | None]:
    """The message at a place of an inbox."""
    rows = yield ReadQuery("asked", {"workspace_id": workspace_id, "seq": seq})
    return InboundMessage(*rows[0]) if rows else None


def load_obligation(workspace_id: str, seq: int) -> Generator[StepRequest, Any, Obligation | None]:
    """What is owed for the message at a place of a log, or was."""
    rows = yield ReadQuery("obligation", {"workspace_id": workspace_id, "seq": seq})
    return Obligation(*rows[0]) if rows else None


def new_obligation(inbound: InboundMessage, now: int) -> Obligation:
    """What is owed for a message that is handed over at this moment."""
    return Obligation(
        workspace_id=inbound.workspace_id,
        seq=inbound.seq,
        activity_id=inbound.id,
        org_id=inbound.org_id,
        source_id=inbound.source_id,
        state="open",
        handed_at=now,
        due_at=None,
        reminded_at=None,
        outside_at=None,
        overdue_at=None,
        closed_at=None,
        answer_id=None,
        by_handle=0,
        reason=None,
        draft=None,
        template_org=None,
        template=None,
        version=None,
        form=None,
        tokens=None,
        inbound_no=inbound.inbound_no,
        context_id=inbound.context_id,
        summary=None,
        kind=inbound.kind,
    )


class MessageChanges(NamedTuple):
    """What one change writes and tells, and whom it wakes; `risen`: what others hear of it (store/subscribers.py)."""

    writes: list[Statement]
    events: list[JournalEvent]
    notify: tuple[str, ...] = ()
    domain_events: tuple[object, ...] = ()


class AnswerTarget(Struct, frozen=True):
    """What a workspace's message answers. `named`: the message that it says so of; `owed`: what it closes, if anything
    is open; with `progress` it closes nothing, and only says that somebody is at work on it. `opens`: what is written
    before, of a message that is handed over by being answered."""

    named_id: str | None = None
    obligation: Obligation | None = None
    progress: bool = False
    by_handle: bool = False
    opening_changes: MessageChanges = MessageChanges([], [])


def find_named_message(
    workspace_id: str, source_id: str | None, named_id: str
) -> Generator[StepRequest, Any, InboundMessage | None]:
    """The message of an inbox that an answer names, if it came from there (None: a person)."""
    positions = yield ReadQuery("place_of_activity", {"id": named_id, "workspace_id": workspace_id})
    inbound = (yield from load_inbound(workspace_id, positions[0][0])) if positions else None
    return inbound if inbound is not None and inbound.source_id == source_id else None


def find_open_obligation(
    workspace_id: str, source_id: str | None, named_id: str | None = None
) -> Generator[StepRequest, Any, Obligation | None]:
    """What is open in a conversation: the named message, if it is one of it; else the newest."""
    row: dict[str, object] = {"workspace_id": workspace_id, "named": named_id}
    if source_id is None:
        rows = yield ReadQuery("owed_to_user", row)
    else:
        rows = yield ReadQuery("owed_to_peer", {**row, "source_id": source_id})
    found = Obligation(*rows[0]) if rows else None
    return found if found is not None and found.is_open else None


def add_changes(written: WriteSet[T], more: MessageChanges) -> WriteSet[T]:
    """A write set with another change in the same transaction."""
    written.writes += more.writes
    written.events += more.events
    written.notify += more.notify
    written.domain_events += more.domain_events
    return written


def defer_reply(obligation: Obligation, due_at: int | None, reminded_at: int | None) -> Statement:
    """An answer is due later than it was."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return "put_off_obligation", {**row, "due_at": due_at, "reminded_at": reminded_at}


def extend_for_progress(obligation: Obligation, due_at: int | None) -> list[Statement]:
    """An agent says that it is at work on it: the answer is due later. What is overdue stays so until it comes."""
    return (
        [] if obligation.due_at is None or due_at is None else [defer_reply(obligation, due_at, obligation.reminded_at)]
    )


def drop_draft(obligation: Obligation) -> MessageChanges:
    """A person does not want it sent."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return MessageChanges([("drop_draft", row)], [draft_event(obligation, "discarded")])


def draft_event(obligation: Obligation, state: str) -> JournalEvent:
    """What became of a draft: kept, sent or discarded."""
    return obligation_event(
        "MESSAGE_DRAFTED", obligation, MessageDraftedPayload(obligation.activity_id, obligation.seq, state)
    )


def mark_missed(workspace_id: str) -> Statement:
    """An agent that leaves messages without an answer is told in full again."""
    return "miss_seat", {"workspace_id": workspace_id}


def undo_delivery(workspace_id: str, seq: int) -> list[Statement]:
    """A message was handed over in vain: no answer is due before it is handed over again, and what was told with it may
    not be known."""
    return [("unwatch_obligation", {"workspace_id": workspace_id, "seq": seq}), mark_missed(workspace_id)]


def suspend_dead_obligation(workspace_id: str, seq: int) -> list[Statement]:
    """A message is a dead letter, which tells enough: nobody has had it who could answer. What was said in answer
    outside is kept, but nobody is reminded of it, unless it is asked for and handed over again."""
    row = {"workspace_id": workspace_id, "seq": seq}
    return [("forget_owed", row), ("rest_obligation", row)]


def obligation_event(name: str, obligation: Obligation, payload: Struct) -> JournalEvent:
    """An event about the message that an answer is owed for."""
    return JournalEvent(
        name, obligation.workspace_id, "message", obligation.activity_id, 0, msgspec.json.encode(payload)
    )
