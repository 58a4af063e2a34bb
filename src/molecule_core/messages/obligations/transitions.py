"""Statements and events of changes to obligations. Contains no decisions; those about outcomes are in ledger."""

import msgspec
from msgspec import Struct

from molecule_core.messages.obligations.model import Obligation
from molecule_core.store.database import JournalEvent, Statement, WriteSet
from molecule_core.wire.schemas.events import MessageDraftedPayload


def defer_reply(obligation: Obligation, due_at: int | None, reminded_at: int | None) -> Statement:
    """Move the due time of an obligation."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return "postpone_obligation", {**row, "due_at": due_at, "reminded_at": reminded_at}


def extend_for_progress(obligation: Obligation, due_at: int | None) -> list[Statement]:
    """Move the due time after a progress report. An overdue obligation stays overdue until it is answered."""
    return (
        [] if obligation.due_at is None or due_at is None else [defer_reply(obligation, due_at, obligation.reminded_at)]
    )


def drop_draft(obligation: Obligation) -> WriteSet[None]:
    """Drop a draft that a person discarded."""
    row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq}
    return WriteSet(None, [("drop_draft", row)], [draft_event(obligation, "discarded")])


def draft_event(obligation: Obligation, state: str) -> JournalEvent:
    """Build the event about a draft: kept, sent or discarded."""
    return obligation_event(
        "MESSAGE_DRAFTED", obligation, MessageDraftedPayload(obligation.activity_id, obligation.seq, state)
    )


def mark_missed(workspace_id: str) -> Statement:
    """Record that an agent left a message unanswered, so that it gets full instructions again."""
    return "record_missed_request", {"workspace_id": workspace_id}


def undo_delivery(workspace_id: str, seq: int) -> list[Statement]:
    """Undo a failed delivery.

    No answer is due before the next one, and the agent may not have seen the instructions."""
    return [("unwatch_obligation", {"workspace_id": workspace_id, "seq": seq}), mark_missed(workspace_id)]


def suspend_dead_obligation(workspace_id: str, seq: int) -> list[Statement]:
    """Suspend the obligation of a dead letter, which no agent could answer.

    A draft is kept without reminders until the message is requeued and delivered again."""
    row = {"workspace_id": workspace_id, "seq": seq}
    return [("forget_unanswerable_obligation", row), ("suspend_obligation", row)]


def obligation_event(name: str, obligation: Obligation, payload: Struct) -> JournalEvent:
    """Build an event about the message of an obligation."""
    return JournalEvent(
        name, obligation.workspace_id, "message", obligation.activity_id, 0, msgspec.json.encode(payload)
    )
