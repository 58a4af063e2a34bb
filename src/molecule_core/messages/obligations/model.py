"""Obligations of a workspace to answer messages, with the reads and statements about them.

See docs/obligations.md. When an obligation opens and closes is decided in ledger."""

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
"""Kind of the timer that watches open obligations; its key is the workspace id."""
FORGOTTEN_TICK = "forgotten"
"""Tick of a message that was never answered and is too old to keep."""
NO_REMINDER = 0
"""Value of `reminded_at` when the first due time has passed and no reminder was possible."""


class InboundMessage(Struct, frozen=True):
    """A message of an inbox as an answer needs it, in the column order of the query `asked`.

    `source_id` is None for a person's message."""

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
        """Return the reply handle of the message."""
        handle_parts = (self.context_id, self.id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)


class Obligation(Struct, frozen=True):
    """One row of the table with columns of its message, in the queries' order. Times are microseconds."""

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
        """Return whether the message is neither answered nor declined."""
        return self.state == "open"

    @property
    def handle(self) -> str:
        """Return the reply handle of the message."""
        handle_parts = (self.context_id, self.activity_id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)

    @property
    def is_reminded(self) -> bool:
        """Return whether the agent was reminded and still has time."""
        return self.is_open and bool(self.reminded_at) and self.overdue_at is None

    @property
    def display_state(self) -> str:
        """Return the state as one word."""
        return obligation_state(self.state, self.overdue_at, self.outside_at)

    @property
    def template_label(self) -> str | None:
        """Return the template and version of the message's instructions."""
        return template_label(self.template, self.version)


def obligation_state(state: str, overdue_at: int | None, outside_at: int | None) -> str:
    """Return the state of an obligation: answered, declined, overdue, answered_outside or open."""
    if state != "open":
        return state
    if overdue_at is not None:
        return OVERDUE
    return ANSWERED_OUTSIDE if outside_at is not None else "open"


def template_label(template: str | None, version: int | None) -> str | None:
    """Return a template and its version as they are displayed."""
    return None if template is None else f"{template}@{version}"


def find_reminded(workspace_id: str, rows: Iterable[ActivityPageRow]) -> Generator[StepRequest, Any, frozenset[str]]:
    """Return the ids of the rows that are redelivered as reminders."""
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
    """Return when the answer to a message delivered now is due; None if it is not watched."""
    seconds = limits.reply_seconds if workspace.reply_seconds is None else workspace.reply_seconds
    return now + seconds * SECOND if seconds else None


# -- closing -----------------------------------------------------------------------------------------------------------


def obligation_key(workspace_id: str, source_id: str | None) -> tuple[str, str, str]:
    """Return the key of commands that may change obligations to another workspace or to the user (None)."""
    return "owes", workspace_id, source_id or ""


def load_inbound(workspace_id: str, seq: int) -> Generator[StepRequest, Any, InboundMessage | None]:
    """Read the message at a position of an inbox."""
    rows = yield ReadQuery("asked", {"workspace_id": workspace_id, "seq": seq})
    return InboundMessage(*rows[0]) if rows else None


def load_obligation(workspace_id: str, seq: int) -> Generator[StepRequest, Any, Obligation | None]:
    """Read the open or closed obligation at a position of a log."""
    rows = yield ReadQuery("obligation", {"workspace_id": workspace_id, "seq": seq})
    return Obligation(*rows[0]) if rows else None


def new_obligation(inbound: InboundMessage, now: int) -> Obligation:
    """Return the obligation of a message that is delivered now."""
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
    """The writes, journal events, notifications and domain events of one change."""

    writes: list[Statement]
    events: list[JournalEvent]
    notify: tuple[str, ...] = ()
    domain_events: tuple[object, ...] = ()


class AnswerTarget(Struct, frozen=True):
    """What an outgoing message answers.

    `named_id`: the message that it claims to answer. `obligation`: the open one that it closes, if any; with `progress`
    it closes nothing and only reports work. `opening_changes`: writes that open the obligation first, for a message
    answered without having been delivered."""

    named_id: str | None = None
    obligation: Obligation | None = None
    progress: bool = False
    by_handle: bool = False
    opening_changes: MessageChanges = MessageChanges([], [])


def find_named_message(
    workspace_id: str, source_id: str | None, named_id: str
) -> Generator[StepRequest, Any, InboundMessage | None]:
    """Return the inbox message that an answer names, if it came from `source_id` (None: a person)."""
    positions = yield ReadQuery("place_of_activity", {"id": named_id, "workspace_id": workspace_id})
    inbound = (yield from load_inbound(workspace_id, positions[0][0])) if positions else None
    return inbound if inbound is not None and inbound.source_id == source_id else None


def find_open_obligation(
    workspace_id: str, source_id: str | None, named_id: str | None = None
) -> Generator[StepRequest, Any, Obligation | None]:
    """Return the open obligation of a conversation: the named message's, if it belongs there, else the newest."""
    row: dict[str, object] = {"workspace_id": workspace_id, "named": named_id}
    if source_id is None:
        rows = yield ReadQuery("owed_to_user", row)
    else:
        rows = yield ReadQuery("owed_to_peer", {**row, "source_id": source_id})
    found = Obligation(*rows[0]) if rows else None
    return found if found is not None and found.is_open else None


def add_changes(written: WriteSet[T], more: MessageChanges) -> WriteSet[T]:
    """Add another change to a write set."""
    written.writes += more.writes
    written.events += more.events
    written.notify += more.notify
    written.domain_events += more.domain_events
    return written


def defer_reply(obligation: Obligation, due_at: int | None, reminded_at: int | None) -> Statement:
    """Move the due time of an obligation."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return "put_off_obligation", {**row, "due_at": due_at, "reminded_at": reminded_at}


def extend_for_progress(obligation: Obligation, due_at: int | None) -> list[Statement]:
    """Move the due time after a progress report. An overdue obligation stays overdue until it is answered."""
    return (
        [] if obligation.due_at is None or due_at is None else [defer_reply(obligation, due_at, obligation.reminded_at)]
    )


def drop_draft(obligation: Obligation) -> MessageChanges:
    """Drop a draft that a person discarded."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return MessageChanges([("drop_draft", row)], [draft_event(obligation, "discarded")])


def draft_event(obligation: Obligation, state: str) -> JournalEvent:
    """Build the event about a draft: kept, sent or discarded."""
    return obligation_event(
        "MESSAGE_DRAFTED", obligation, MessageDraftedPayload(obligation.activity_id, obligation.seq, state)
    )


def mark_missed(workspace_id: str) -> Statement:
    """Record that an agent left a message unanswered, so that it gets full instructions again."""
    return "miss_seat", {"workspace_id": workspace_id}


def undo_delivery(workspace_id: str, seq: int) -> list[Statement]:
    """Undo a failed delivery.

    No answer is due before the next one, and the agent may not have seen the instructions."""
    return [("unwatch_obligation", {"workspace_id": workspace_id, "seq": seq}), mark_missed(workspace_id)]


def suspend_dead_obligation(workspace_id: str, seq: int) -> list[Statement]:
    """Suspend the obligation of a dead letter, which no agent could answer.

    A draft is kept without reminders until the message is requeued and delivered again."""
    row = {"workspace_id": workspace_id, "seq": seq}
    return [("forget_owed", row), ("rest_obligation", row)]


def obligation_event(name: str, obligation: Obligation, payload: Struct) -> JournalEvent:
    """Build an event about the message of an obligation."""
    return JournalEvent(
        name, obligation.workspace_id, "message", obligation.activity_id, 0, msgspec.json.encode(payload)
    )
