"""Writes the messages of delegations: the caller's log row, and the result in the caller's inbox.

An answer to a message that carries a delegation is not stored as a message: it closes the obligation and emits
MessageAnswered, whose subscriber has the result written. Called by the writers of answers and by delegations."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.messages.activities import (
    answer_activity,
    insert_activity,
    received_activity,
    schedule_delivery,
    sent_activity,
)
from molecule_core.messages.chains.model import ChainLink
from molecule_core.messages.delivery_log import record_tick
from molecule_core.messages.delivery_state import DeadLetterState, DeliveryTick
from molecule_core.messages.events import AnswerContent
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import ack_rows, load_inbox_entry, save_claim
from molecule_core.messages.model import Activity, InboxClaim, InboxPosition, InboxState, Sender
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import load_inbound, load_obligation
from molecule_core.messages.obligations.transitions import suspend_dead_obligation
from molecule_core.messages.rules import encode_message
from molecule_core.org.model import Workspace
from molecule_core.store.database import CommandSteps, Statement, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.wire.schemas.acceptance import CheckEvidence
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType, Intent, MessageKind
from molecule_core.wire.schemas.delegations import DelegationStatus

# 10 s: a waiting caller gets this much longer to claim the result than it waits.
HOLD_MARGIN_SECONDS = 10


class ResultContent(Struct, frozen=True, kw_only=True):
    """The result of a delegation.

    `id`: of its row. `status`: completed, failed or cancelled. `text`: the text that the caller reads. `chain_id`,
    `hop`, `cause_id`: its link in the message chain. `verified`: whether a completed one passed checks; None for
    others. `evidence`: what the checks found."""

    id: str
    delegation_id: str
    target_id: str
    parts: list[dict[str, Any]]
    text: str
    status: str
    reason: str | None = None
    error: str | None = None
    dedupe_key: str | None = None
    content_hash: str | None = None
    context_id: str | None = None
    cause_id: str | None = None
    chain_id: str | None = None
    hop: int = 0
    verified: bool | None = None
    evidence: Sequence[CheckEvidence] = ()


class DelegationMessages:
    """Writes delegation messages."""

    def __init__(self, ledger: ObligationLedger, *, clock: Clock, ids: IdGenerator) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    def insert_caller_row(
        self, source: Workspace, delegation_id: str, target_id: str, task: str, sender: str
    ) -> CommandSteps[Activity]:
        """Log a new delegation in the caller's own log."""
        body = msgspec.json.encode({"task": task, "delegation_id": delegation_id})
        activity = yield from sent_activity(
            source.org_id,
            source.id,
            self._ids.new(),
            self._clock.now(),
            task,
            body,
            activity_type=ActivityType.DELEGATION,
            method=ActivityMethod.DELEGATE,
            target_id=target_id,
            sender=sender,
            status="pending",
        )
        return insert_activity(activity)

    def insert_result(self, source: Workspace, content: ResultContent, held_until: int = 0) -> CommandSteps[Activity]:
        """Insert the result of a delegation into the caller's inbox.

        Inbox and chain limits do not apply: the work was admitted when it began. `held_until`: the caller waits for the
        result until then (microseconds), and no other claim gets it before."""
        now = self._clock.now()
        resolved = yield from attachments.resolve_files(content.parts, source.org_id, content.target_id)
        activity = yield from received_activity(
            source,
            content.id,
            now,
            Sender.of_workspace(content.target_id),
            content.text,
            _request_body(content, resolved.parts),
            link=ChainLink(content.chain_id, content.hop, content.cause_id),
            method=ActivityMethod.DELEGATE_RESULT,
            kind=MessageKind.DELEGATION_RESULT,
            intent=Intent.INFORM,
            dedupe_key=content.dedupe_key,
            content_hash=content.content_hash,
            context_id=content.context_id or content.id,
            status=DelegationStatus.COMPLETED
            if content.status == DelegationStatus.COMPLETED
            else DelegationStatus.FAILED,
            error_detail=content.error,
            response_body=_response_body(content).decode(),
        )
        inserted = insert_activity(activity, resolved.file_ids)
        if held_until > now:
            claim_write = save_claim(source.id, activity.seq, 1, result_lease_until(held_until), None)
            inserted += WriteSet(None, [claim_write])
        return inserted + schedule_delivery(source, activity)

    def system_answer(self, workspace_id: str, text: str, context_id: str | None = None) -> AnswerContent:
        """Return an answer that the server writes on behalf of a workspace."""
        parts = [{"kind": "text", "text": text}]
        return AnswerContent(self._ids.new(), f"workspace:{workspace_id}", parts, text, None, None, context_id)

    def insert_late_answer(
        self, target: Workspace, source_id: str, delegation_id: str, answer: AnswerContent
    ) -> CommandSteps[Activity]:
        """Log an answer to a delegation that had already ended, in its sender's own log only."""
        return (yield from self._log_answer(target, source_id, answer, {"delegation_id": delegation_id, "late": True}))

    def insert_submitted_answer(
        self, target: Workspace, source_id: str, delegation_id: str, answer: AnswerContent
    ) -> CommandSteps[Activity]:
        """Log an answer that must pass checks, in its sender's own log only."""
        metadata = {"delegation_id": delegation_id, "submitted": True}
        return (yield from self._log_answer(target, source_id, answer, metadata))

    def _log_answer(
        self, target: Workspace, source_id: str, answer: AnswerContent, metadata: dict[str, Any]
    ) -> CommandSteps[Activity]:
        activity = yield from answer_activity(
            target.org_id,
            target.id,
            answer,
            self._clock.now(),
            metadata,
            method=ActivityMethod.DELEGATE_RESULT,
            target_id=source_id,
        )
        return insert_activity(activity)

    def insert_system_notice(
        self, target: Workspace, source_id: str, text: str, details: Mapping[str, object]
    ) -> CommandSteps[Activity]:
        """Insert a system notice about work that ended or an answer that will not come.

        `details`: machine-readable metadata. It wants no answer, and inbox limits do not apply."""
        activity_id = self._ids.new()
        metadata = {"kind": MessageKind.SYSTEM, "intent": Intent.INFORM, **details}
        parts = [{"kind": "text", "text": text}]
        message = {"kind": "message", "role": "user", "messageId": activity_id, "parts": parts, "metadata": metadata}
        activity = yield from received_activity(
            target,
            activity_id,
            self._clock.now(),
            Sender.of_workspace(source_id),
            text,
            encode_message(message),
            kind=MessageKind.SYSTEM,
            intent=Intent.INFORM,
        )
        return insert_activity(activity) + schedule_delivery(target, activity)

    def insert_rework(
        self, target: Workspace, source_id: str, text: str, link: ChainLink, context_id: str, details: Mapping[str, Any]
    ) -> CommandSteps[Activity]:
        """Insert the message that returns an answer to its sender; it wants another answer.

        `details`: machine-readable metadata with the delegation. Inbox and chain limits do not apply: the work was
        admitted when it began."""
        activity_id = self._ids.new()
        metadata = {"kind": MessageKind.DELEGATION, "intent": Intent.REQUEST, **details}
        parts = [{"kind": "text", "text": text}]
        message = {"kind": "message", "role": "user", "messageId": activity_id, "parts": parts, "metadata": metadata}
        activity = yield from received_activity(
            target,
            activity_id,
            self._clock.now(),
            Sender.of_workspace(source_id),
            text,
            encode_message(message),
            link=link,
            kind=MessageKind.DELEGATION,
            intent=Intent.REQUEST,
            context_id=context_id,
        )
        return insert_activity(activity) + schedule_delivery(target, activity)

    # -- the message that carries the delegation -----------------------------------------------------------------------

    def ack_answered(self, workspace: Workspace, seq: int) -> CommandSteps[None]:
        """Acknowledge an answered message, so that it is not delivered again."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        if is_handled or self._is_push_in_flight(workspace, claim):
            return WriteSet(None)
        return (yield from self._ack_message(workspace, inbox, claim, seq, None))

    def withdraw(self, workspace: Workspace, seq: int, reason: str, *, by_target: bool = False) -> CommandSteps[bool]:
        """Withdraw a message: it is not delivered any more, and its obligation closes.

        A running push records its own outcome. `by_target`: the recipient itself ended the work. Returns whether the
        message had been delivered."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        obligation = yield from load_obligation(workspace.id, seq)
        closed = WriteSet(None)
        if obligation is not None and obligation.is_open:
            now, is_answer = self._clock.now(), by_target and reason == DelegationStatus.COMPLETED
            closed = (
                self._ledger.close_answered(obligation, now, None)
                if is_answer
                else self._ledger.close_declined(obligation, now, reason)
            )
        if is_handled or self._is_push_in_flight(workspace, claim):
            return closed.returning(True)
        withdrawn = reason if obligation is None and not by_target else None
        acked = yield from self._ack_message(workspace, inbox, claim, seq, withdrawn)
        return (closed + acked).returning(obligation is not None)

    def drop_undelivered_obligation(self, workspace: Workspace, seq: int, reason: str) -> CommandSteps[None]:
        """Delete the obligation of a message that was never delivered.

        An agent that answered outside must have received it nevertheless; then the obligation is closed as declined."""
        obligation = yield from load_obligation(workspace.id, seq)
        if obligation is not None and obligation.is_open and obligation.outside_at is not None:
            return self._ledger.close_declined(obligation, self._clock.now(), reason)
        return WriteSet(None, suspend_dead_obligation(workspace.id, seq))

    def _is_push_in_flight(self, workspace: Workspace, claim: InboxClaim | None) -> bool:
        is_leased = claim is not None and claim.lease_until > self._clock.now()
        return is_leased and workspace.uses_push

    def _ack_message(
        self, workspace: Workspace, inbox: InboxState, claim: InboxClaim | None, seq: int, withdrawn: str | None
    ) -> CommandSteps[None]:
        """Acknowledge one row, or mark it as withdrawn before any delivery.

        A withdrawn row is stored as a discarded dead letter, so that it does not show up for review."""
        inbound = yield from load_inbound(workspace.id, seq)
        if inbound is None:
            return WriteSet(None)
        now = self._clock.now()
        position = InboxPosition(seq, claim.attempt if claim else 0, inbound.inbound_no)
        regular, requeued_positions = ([], [position]) if claim is not None and claim.requeued else ([position], [])
        updated_inbox = inbox if withdrawn is None else replace(inbox, dead=inbox.dead + 1)
        acked = yield from ack_rows(workspace.id, updated_inbox, regular, requeued_positions, now)
        acked += record_tick(
            workspace.id,
            DeliveryTick.ACKED if withdrawn is None else DeliveryTick.DEAD,
            seq,
            inbound.inbound_no,
            now,
            withdrawn,
        )
        writes = list[Statement]()
        if withdrawn is not None:
            row = {"workspace_id": workspace.id, "seq": seq}
            dead_letter = {"org_id": workspace.org_id, "activity_id": inbound.id, "reason": withdrawn, "detail": None}
            writes.append(("save_dead_letter", {**row, **dead_letter, "attempts": position.attempt, "died_at": now}))
            writes.append(("set_dead_letter", {**row, "state": DeadLetterState.DISCARDED}))
        if workspace.uses_push:
            writes.append(("schedule_push_check", {"workspace_id": workspace.id, "due": now}))
        notify = (log_key(workspace.id), org_key(workspace.org_id), PUSHES_KEY)
        return acked.returning(None) + WriteSet(None, writes, notify=notify)

    # -- callers that wait for the result ------------------------------------------------------------------------------

    def claim_result(self, workspace: Workspace, seq: int, held_until: int) -> CommandSteps[str]:
        """Claim a result for the waiting caller, which also acknowledges it.

        `held_until`: the end of the wait that it was held for. Returns `here`; `before` if it was acknowledged earlier;
        `inbox` if another claim holds it."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        is_leased = claim is not None and claim.lease_until > self._clock.now()
        if is_handled:
            return WriteSet("before")
        if claim is not None and is_leased and claim.lease_until != result_lease_until(held_until):
            return WriteSet("inbox")
        acked = yield from self._ack_message(workspace, inbox, claim, seq, None)
        return acked.returning("here")  # control: taken-result

    def release_result(self, workspace: Workspace, seq: int, held_until: int) -> CommandSteps[None]:
        """Release a held result, after its caller stopped waiting: any claim may get it now."""
        _, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        if is_handled or claim is None or claim.lease_until != result_lease_until(held_until):
            return WriteSet(None)
        writes: list[Statement] = [save_claim(workspace.id, seq, 0, 0, None)]
        if workspace.uses_push:
            writes.append(("schedule_push_check", {"workspace_id": workspace.id, "due": self._clock.now()}))
        return WriteSet(None, writes, notify=(log_key(workspace.id), PUSHES_KEY))


def result_lease_until(held_until: int) -> int:
    """Return the end of the lease that holds a result for a waiting caller (microseconds)."""
    return held_until + HOLD_MARGIN_SECONDS * SECOND


def _request_body(content: ResultContent, parts: list[dict[str, Any]]) -> bytes:
    result_metadata: dict[str, Any] = {
        "kind": MessageKind.DELEGATION_RESULT,
        "intent": Intent.INFORM,
        "delegation_id": content.delegation_id,
        "status": content.status,
    }
    metadata = {**result_metadata, **({} if content.reason is None else {"reason": content.reason})}
    if content.verified is not None:
        metadata["verified"] = content.verified
    if content.evidence:
        metadata["evidence"] = msgspec.to_builtins(content.evidence)
    message = {"kind": "message", "role": "agent", "messageId": content.id, "parts": parts, "metadata": metadata}
    return encode_message(message)


def _response_body(content: ResultContent) -> bytes:
    """Build the response body with the members that clients of the original Molecule read."""
    required = {"text": content.text, "delegation_id": content.delegation_id, "status": content.status}
    optional = {"reason": content.reason, "error": content.error}
    return msgspec.json.encode({**required, **{name: value for name, value in optional.items() if value is not None}})
