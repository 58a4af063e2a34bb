"""The rows that an approval leaves among messages: who is asked, and who is told what came of it.

Both always have room, and no chain stops them: what is asked was let in when it began. Above: the slice of approvals.
Below: entering, results.
"""

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
    """A message about an approval. `source_id` None: a person's, or the server's, who is named then. `metadata`: what
    programs read of it."""

    id: str
    kind: str
    intent: str
    source_id: str | None
    user_id: str | None
    user_name: str | None
    text: str
    metadata: dict[str, Any]


class ApprovalMessages:
    """Makes these rows, and takes them back."""

    def __init__(self, ledger: ObligationLedger, delegation_messages: DelegationMessages, *, clock: Clock) -> None:
        self._ledger = ledger
        self._delegation_messages = delegation_messages
        self._clock = clock

    def insert_message(
        self, target: Workspace, content: ApprovalMessage
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """A message about an approval, in the inbox of a workspace."""
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
        """The message at a place of an inbox is done with: `answered` by its workspace itself, or taken back for a
        reason. A push that is under way is left to its own end."""
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
    """The answer to a question about what its workspace wants leave for, by whatever way it came: it becomes no message
    of its own, but ends what is owed, stands in the workspace's own log, and rises. The caller has looked for its
    repetition before."""
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
    """The approval that a message about one belongs to: its id, and behind a dot a number."""
    return message_id.rpartition(".")[0]
