"""Writes the messages of approvals: requests, questions and decisions.

Inbox and chain limits do not apply: the request was admitted when it began. Called by approvals."""

from collections.abc import Generator
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.common.clock import Clock
from molecule_core.common.text import truncate_line
from molecule_core.messages.activities import insert_activity, schedule_delivery
from molecule_core.messages.delegation_messages import DelegationMessages, InsertedActivity
from molecule_core.messages.events import AnswerContent, ApprovalExplained
from molecule_core.messages.model import SUMMARY_LENGTH, TYPE_RECEIVE, TYPE_SEND, Activity, MessageReceipt
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import MessageChanges, Obligation, add_changes, load_obligation
from molecule_core.org.model import Workspace
from molecule_core.store.database import NextNumber, StepRequest, WriteSet
from molecule_core.wire.protocols.a2a import SEND_METHOD as METHOD_SEND


class ApprovalMessage(Struct, frozen=True, kw_only=True):
    """A message about an approval.

    `source_id` None: sent by a person or by the server (see `user_name`). `metadata`: its machine-readable part."""

    id: str
    kind: str
    intent: str
    source_id: str | None
    user_id: str | None
    user_name: str | None
    text: str
    metadata: dict[str, Any]


class ApprovalMessages:
    """Writes and closes approval messages."""

    def __init__(self, ledger: ObligationLedger, delegation_messages: DelegationMessages, *, clock: Clock) -> None:
        self._ledger = ledger
        self._delegation_messages = delegation_messages
        self._clock = clock

    def insert_message(
        self, target: Workspace, content: ApprovalMessage
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """Insert a message about an approval into a workspace's inbox."""
        identity = {} if content.user_id is None else {"user_id": content.user_id, "username": content.user_name}
        metadata = {"kind": content.kind, "intent": content.intent, **content.metadata}
        message = {
            "kind": "message",
            "role": "user",
            "messageId": content.id,
            "parts": [{"kind": "text", "text": content.text}],
            "metadata": metadata,
        }
        params = {"message": message, "metadata": identity}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})
        sender = f"workspace:{content.source_id}" if content.source_id else f"person:{content.user_id or 'nobody'}"
        activity = Activity(
            id=content.id,
            org_id=target.org_id,
            workspace_id=target.id,
            inbound_no=(yield NextNumber("last_inbound", target.id)),
            seq=(yield NextNumber("last_seq", target.id)),
            size=len(body),
            activity_type=TYPE_RECEIVE,
            method=METHOD_SEND,
            kind=content.kind,
            intent=content.intent,
            source_id=content.source_id,
            target_id=target.id,
            user_id=content.user_id,
            sender=sender,
            context_id=content.id,
            created_at=self._clock.now(),
            summary=truncate_line(content.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        inserted = schedule_delivery(insert_activity(None, activity, "ACTIVITY_LOGGED"), target, activity)
        return InsertedActivity(
            activity.id, activity.seq, MessageChanges(inserted.writes, inserted.events, inserted.notify)
        )

    def close_message(
        self, workspace: Workspace, seq: int, reason: str, *, answered: bool
    ) -> Generator[StepRequest, Any, MessageChanges]:
        """Close a message: answered by its recipient itself, or withdrawn for a reason.

        A running push records its own outcome."""
        obligation = yield from load_obligation(workspace.id, seq)
        if answered and obligation is not None and obligation.is_open:
            closed = self._ledger.close_answered(obligation, self._clock.now(), None)
            ack_changes = yield from self._delegation_messages.ack_answered(workspace, seq)
            return MessageChanges(
                [*closed.writes, *ack_changes.writes],
                [*closed.events, *ack_changes.events],
                (*closed.notify, *ack_changes.notify),
            )
        if answered and obligation is None:
            return (yield from self._delegation_messages.ack_answered(workspace, seq))
        _, changes = yield from self._delegation_messages.withdraw(workspace, seq, reason)
        return changes


def record_explanation(
    ledger: ObligationLedger,
    obligation: Obligation,
    answer: AnswerContent,
    now: int,
    *,
    opening_changes: MessageChanges | None = None,
) -> Generator[StepRequest, Any, WriteSet[MessageReceipt]]:
    """Record the answer to a question about an approval request.

    It is not stored as a message, but closes the obligation, is logged in the workspace's own log, and emits
    ApprovalExplained. The caller has already looked for a duplicate."""
    row = yield from _explanation_activity(obligation, answer, now)
    written = insert_activity(MessageReceipt(row.id, row.context_id or row.id, now), row, "ACTIVITY_LOGGED")
    if opening_changes is not None:
        add_changes(written, opening_changes)
    add_changes(written, ledger.close_answered(obligation, now, row.id))
    written.domain_events.append(ApprovalExplained(obligation.activity_id, obligation.seq, answer.text, now))
    return written


def _explanation_activity(
    obligation: Obligation, answer: AnswerContent, now: int
) -> Generator[StepRequest, Any, Activity]:
    metadata = {"in_reply_to": obligation.activity_id}
    message = {
        "kind": "message",
        "role": "agent",
        "messageId": answer.id,
        "parts": answer.parts,
        "metadata": metadata,
    }
    params = {"message": message, "metadata": {}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})
    return Activity(
        id=answer.id,
        org_id=obligation.org_id,
        workspace_id=obligation.workspace_id,
        seq=(yield NextNumber("last_seq", obligation.workspace_id)),
        size=len(body),
        activity_type=TYPE_SEND,
        method=METHOD_SEND,
        source_id=obligation.workspace_id,
        target_id=obligation.source_id,
        sender=answer.sender,
        dedupe_key=answer.dedupe_key,
        content_hash=answer.content_hash,
        context_id=answer.context_id or answer.id,
        created_at=now,
        summary=truncate_line(answer.text, SUMMARY_LENGTH),
        request_body=body.decode(),
    )


def approval_id_of(message_id: str) -> str:
    """Return the approval that a message belongs to: message ids are `<approval id>.<number>`."""
    return message_id.rpartition(".")[0]
