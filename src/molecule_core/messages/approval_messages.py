"""Writes the messages of approvals: requests, questions and decisions.

Inbox and chain limits do not apply: the request was admitted when it began. Called by approvals."""

from typing import Any

from msgspec import Struct

from molecule_core.common.clock import Clock
from molecule_core.messages.activities import answer_activity, insert_activity, received_activity, schedule_delivery
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.events import AnswerContent, ApprovalExplained
from molecule_core.messages.files import attachments
from molecule_core.messages.model import Activity, MessageReceipt, Sender
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import Obligation, load_obligation
from molecule_core.messages.rules import encode_message
from molecule_core.org.model import Workspace
from molecule_core.store.database import CommandSteps, WriteSet


class ApprovalMessage(Struct, frozen=True, kw_only=True):
    """A message about an approval.

    `source_id` None: sent by a person or by the server (see `user_name`). `metadata`: its machine-readable part.
    `files`: of the source, which the recipient may read from now on."""

    id: str
    kind: str
    intent: str
    source_id: str | None
    user_id: str | None
    user_name: str | None
    text: str
    metadata: dict[str, Any]
    files: tuple[dict[str, Any], ...] = ()


class ApprovalMessages:
    """Writes and closes approval messages."""

    def __init__(self, ledger: ObligationLedger, delegation_messages: DelegationMessages, *, clock: Clock) -> None:
        self._ledger = ledger
        self._delegation_messages = delegation_messages
        self._clock = clock

    def insert_message(self, target: Workspace, content: ApprovalMessage) -> CommandSteps[Activity]:
        """Insert a message about an approval into a workspace's inbox."""
        identity = {} if content.user_id is None else {"user_id": content.user_id, "username": content.user_name}
        parts: list[dict[str, Any]] = [{"kind": "text", "text": content.text}]
        files = [{"kind": "file", "file": each} for each in content.files]
        if files and content.source_id is not None:
            parts += yield from attachments.replace_forbidden_files(files, target.org_id, content.source_id)
        resolved = yield from attachments.resolve_files(parts, target.org_id, content.source_id)
        metadata = {"kind": content.kind, "intent": content.intent, **content.metadata}
        message = {
            "kind": "message",
            "role": "user",
            "messageId": content.id,
            "parts": resolved.parts,
            "metadata": metadata,
        }
        key = f"workspace:{content.source_id}" if content.source_id else f"person:{content.user_id or 'nobody'}"
        activity = yield from received_activity(
            target,
            content.id,
            self._clock.now(),
            Sender(key, content.source_id, content.user_id, content.user_name),
            content.text,
            encode_message(message, identity),
            kind=content.kind,
            intent=content.intent,
        )
        return insert_activity(activity, resolved.file_ids) + schedule_delivery(target, activity)

    def close_message(self, workspace: Workspace, seq: int, reason: str, *, answered: bool) -> CommandSteps[object]:
        """Close a message: answered by its recipient itself, or withdrawn for a reason.

        A running push records its own outcome."""
        obligation = yield from load_obligation(workspace.id, seq)
        if answered and obligation is not None and obligation.is_open:
            closed = self._ledger.close_answered(obligation, self._clock.now(), None)
            return closed + (yield from self._delegation_messages.ack_answered(workspace, seq))
        if answered and obligation is None:
            return (yield from self._delegation_messages.ack_answered(workspace, seq))
        return (yield from self._delegation_messages.withdraw(workspace, seq, reason))


def record_explanation(
    ledger: ObligationLedger,
    obligation: Obligation,
    answer: AnswerContent,
    now: int,
    *,
    opening_changes: WriteSet[object],
) -> CommandSteps[MessageReceipt]:
    """Record the answer to a question about an approval request.

    It is not stored as a message, but closes the obligation, is logged in the workspace's own log, and emits
    ApprovalExplained. The caller has already looked for a duplicate."""
    row = yield from answer_activity(
        obligation.org_id,
        obligation.workspace_id,
        answer,
        now,
        {"in_reply_to": obligation.activity_id},
        target_id=obligation.source_id,
    )
    inserted = insert_activity(row).returning(MessageReceipt(row.id, row.context_id or row.id, now))
    closed = ledger.close_answered(obligation, now, row.id)
    explained = ApprovalExplained(obligation.activity_id, obligation.seq, answer.text, now)
    return inserted + opening_changes + closed + WriteSet(None, domain_events=[explained])


def approval_id_of(message_id: str) -> str:
    """Return the approval that a message belongs to: message ids are `<approval id>.<number>`."""
    return message_id.rpartition(".")[0]
