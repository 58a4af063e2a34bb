"""Writes the messages of delegations: the caller's log row, and the result in the caller's inbox.

An answer to a message that carries a delegation is not stored as a message: it closes the obligation and emits
MessageAnswered, whose subscriber has the result written. Called by the writers of answers and by delegations."""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.common.text import truncate_line
from molecule_core.messages.activities import insert_activity, schedule_delivery
from molecule_core.messages.delivery_log import Statement, record_tick
from molecule_core.messages.events import AnswerContent, MessageAnswered
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import ack_rows, load_inbox_entry, save_claim
from molecule_core.messages.model import (
    ACKED,
    DEAD,
    DISCARDED,
    INTENT_INFORM,
    KIND_DELEGATION_RESULT,
    KIND_SYSTEM,
    METHOD_DELEGATE,
    METHOD_DELEGATE_RESULT,
    SUMMARY_LENGTH,
    TYPE_DELEGATION,
    TYPE_RECEIVE,
    TYPE_SEND,
    Activity,
    InboxClaim,
    InboxPosition,
    InboxState,
    MessageReceipt,
)
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    MessageChanges,
    Obligation,
    add_changes,
    load_inbound,
    load_obligation,
    suspend_dead_obligation,
)
from molecule_core.org.model import PUSH, Workspace
from molecule_core.store.database import NextNumber, StepRequest, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.wire.protocols.a2a import SEND_METHOD as METHOD_SEND

# 10 s: a waiting caller gets this much longer to claim the result than it waits.
HOLD_MARGIN_SECONDS = 10
COMPLETED = "completed"


class InsertedActivity(NamedTuple):
    """A new log row: its id, its `seq`, and the changes that insert it."""

    id: str
    seq: int
    changes: MessageChanges


class ResultContent(Struct, frozen=True, kw_only=True):
    """The result of a delegation.

    `id`: of its row. `status`: completed, failed or cancelled. `text`: the text that the caller reads. `chain_id`,
    `hop`, `cause_id`: its link in the message chain."""

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


class DelegationMessages:
    """Writes delegation messages."""

    def __init__(self, ledger: ObligationLedger, *, clock: Clock, ids: IdGenerator) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    def insert_caller_row(
        self, source: Workspace, delegation_id: str, target_id: str, task: str, sender: str
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """Log a new delegation in the caller's own log."""
        body = msgspec.json.encode({"task": task, "delegation_id": delegation_id})
        activity = Activity(
            id=self._ids.new(),
            org_id=source.org_id,
            workspace_id=source.id,
            seq=(yield NextNumber("last_seq", source.id)),
            size=len(body),
            activity_type=TYPE_DELEGATION,
            method=METHOD_DELEGATE,
            source_id=source.id,
            target_id=target_id,
            sender=sender,
            status="pending",
            created_at=self._clock.now(),
            summary=truncate_line(task, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        return _to_inserted(insert_activity(None, activity, "ACTIVITY_LOGGED"), activity)

    def insert_result(
        self, source: Workspace, content: ResultContent, held_until: int = 0
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """Insert the result of a delegation into the caller's inbox.

        Inbox and chain limits do not apply: the work was admitted when it began. `held_until`: the caller waits for the
        result until then (microseconds), and no other claim gets it before."""
        now = self._clock.now()
        resolved = yield from attachments.resolve_files(content.parts, source.org_id, content.target_id)
        request = _request_body(content, resolved.parts)
        response = _response_body(content)
        activity = Activity(
            id=content.id,
            org_id=source.org_id,
            workspace_id=source.id,
            inbound_no=(yield NextNumber("last_inbound", source.id)),
            seq=(yield NextNumber("last_seq", source.id)),
            size=len(request) + len(response),
            activity_type=TYPE_RECEIVE,
            method=METHOD_DELEGATE_RESULT,
            kind=KIND_DELEGATION_RESULT,
            intent=INTENT_INFORM,
            source_id=content.target_id,
            target_id=source.id,
            sender=f"workspace:{content.target_id}",
            dedupe_key=content.dedupe_key,
            content_hash=content.content_hash,
            context_id=content.context_id or content.id,
            status=COMPLETED if content.status == COMPLETED else "failed",
            created_at=now,
            summary=truncate_line(content.text, SUMMARY_LENGTH),
            error_detail=content.error,
            request_body=request.decode(),
            response_body=response.decode(),
            root_id=content.chain_id,
            hop=content.hop,
            cause_id=content.cause_id,
        )
        inserted = insert_activity(None, activity, "ACTIVITY_LOGGED", resolved.file_ids)
        if held_until > now:
            inserted.writes.append(save_claim(source.id, activity.seq, 1, result_lease_until(held_until), None))
        return _to_inserted(schedule_delivery(inserted, source, activity), activity)

    def system_answer(self, workspace_id: str, text: str, context_id: str | None = None) -> AnswerContent:
        """Return an answer that the server writes on behalf of a workspace."""
        parts = [{"kind": "text", "text": text}]
        return AnswerContent(self._ids.new(), f"workspace:{workspace_id}", parts, text, None, None, context_id)

    def insert_late_answer(
        self, target: Workspace, source_id: str, delegation_id: str, answer: AnswerContent
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """Log an answer to a delegation that had already ended, in its sender's own log only."""
        metadata = {"delegation_id": delegation_id, "late": True}
        message = {
            "kind": "message",
            "role": "agent",
            "messageId": answer.id,
            "parts": answer.parts,
            "metadata": metadata,
        }
        body = _rpc_request(message)
        activity = Activity(
            id=answer.id,
            org_id=target.org_id,
            workspace_id=target.id,
            seq=(yield NextNumber("last_seq", target.id)),
            size=len(body),
            activity_type=TYPE_SEND,
            method=METHOD_DELEGATE_RESULT,
            source_id=target.id,
            target_id=source_id,
            sender=answer.sender,
            dedupe_key=answer.dedupe_key,
            content_hash=answer.content_hash,
            context_id=answer.context_id or answer.id,
            created_at=self._clock.now(),
            summary=truncate_line(answer.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        return _to_inserted(insert_activity(None, activity, "ACTIVITY_LOGGED"), activity)

    def insert_system_notice(
        self, target: Workspace, source_id: str, text: str, details: Mapping[str, object]
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """Insert a system notice about work that ended or an answer that will not come.

        `details`: machine-readable metadata. It wants no answer, and inbox limits do not apply."""
        activity_id = self._ids.new()
        metadata = {"kind": KIND_SYSTEM, "intent": INTENT_INFORM, **details}
        parts = [{"kind": "text", "text": text}]
        message = {"kind": "message", "role": "user", "messageId": activity_id, "parts": parts, "metadata": metadata}
        body = _rpc_request(message)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=target.id,
            inbound_no=(yield NextNumber("last_inbound", target.id)),
            seq=(yield NextNumber("last_seq", target.id)),
            size=len(body),
            activity_type=TYPE_RECEIVE,
            method=METHOD_SEND,
            kind=KIND_SYSTEM,
            intent=INTENT_INFORM,
            source_id=source_id,
            target_id=target.id,
            sender=f"workspace:{source_id}",
            context_id=activity_id,
            created_at=self._clock.now(),
            summary=truncate_line(text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        inserted = insert_activity(None, activity, "ACTIVITY_LOGGED")
        return _to_inserted(schedule_delivery(inserted, target, activity), activity)

    # -- the message that carries the delegation -----------------------------------------------------------------------

    def ack_answered(self, workspace: Workspace, seq: int) -> Generator[StepRequest, Any, MessageChanges]:
        """Acknowledge an answered message, so that it is not delivered again."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        if is_handled or self._is_push_in_flight(workspace, claim):
            return MessageChanges([], [])
        return (yield from self._ack_message(workspace, inbox, claim, seq, None))

    def withdraw(
        self, workspace: Workspace, seq: int, reason: str, *, by_target: bool = False
    ) -> Generator[StepRequest, Any, tuple[bool, MessageChanges]]:
        """Withdraw a message: it is not delivered any more, and its obligation closes.

        A running push records its own outcome. `by_target`: the recipient itself ended the work. Returns whether the
        message had been delivered."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        obligation = yield from load_obligation(workspace.id, seq)
        closed = MessageChanges([], [])
        if obligation is not None and obligation.is_open:
            now, is_answer = self._clock.now(), by_target and reason == COMPLETED
            closed = (
                self._ledger.close_answered(obligation, now, None)
                if is_answer
                else self._ledger.close_declined(obligation, now, reason)
            )
        if is_handled or self._is_push_in_flight(workspace, claim):
            return True, closed
        withdrawn = reason if obligation is None and not by_target else None
        ack_changes = yield from self._ack_message(workspace, inbox, claim, seq, withdrawn)
        return obligation is not None, _merge_changes(closed, ack_changes)

    def close_undelivered(
        self, workspace: Workspace, seq: int, reason: str
    ) -> Generator[StepRequest, Any, MessageChanges]:
        """Drop the obligation of a message that was never delivered.

        An agent that answered outside must have received it nevertheless; then the obligation is closed as declined."""
        obligation = yield from load_obligation(workspace.id, seq)
        if obligation is not None and obligation.is_open and obligation.outside_at is not None:
            return self._ledger.close_declined(obligation, self._clock.now(), reason)
        return MessageChanges(suspend_dead_obligation(workspace.id, seq), [])

    def _is_push_in_flight(self, workspace: Workspace, claim: InboxClaim | None) -> bool:
        is_leased = claim is not None and claim.lease_until > self._clock.now()
        return is_leased and workspace.delivery_mode == PUSH

    def _ack_message(
        self, workspace: Workspace, inbox: InboxState, claim: InboxClaim | None, seq: int, withdrawn: str | None
    ) -> Generator[StepRequest, Any, MessageChanges]:
        """Acknowledge one row, or mark it as withdrawn before any delivery.

        A withdrawn row is stored as a discarded dead letter, so that it does not show up for review."""
        inbound = yield from load_inbound(workspace.id, seq)
        if inbound is None:
            return MessageChanges([], [])
        now = self._clock.now()
        position = InboxPosition(seq, claim.attempt if claim else 0, inbound.inbound_no)
        regular, requeued_positions = ([], [position]) if claim is not None and claim.requeued else ([position], [])
        updated_inbox = inbox if withdrawn is None else replace(inbox, dead=inbox.dead + 1)
        _, writes = yield from ack_rows(workspace.id, updated_inbox, regular, requeued_positions, now)
        records, events = record_tick(
            workspace.id, ACKED if withdrawn is None else DEAD, seq, inbound.inbound_no, now, withdrawn
        )
        writes = [*writes, *records]
        if withdrawn is not None:
            row = {"workspace_id": workspace.id, "seq": seq}
            dead_letter = {"org_id": workspace.org_id, "activity_id": inbound.id, "reason": withdrawn, "detail": None}
            writes.append(("save_dead_letter", {**row, **dead_letter, "attempts": position.attempt, "died_at": now}))
            writes.append(("set_dead_letter", {**row, "state": DISCARDED}))
        if workspace.delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": workspace.id, "due": now}))
        return MessageChanges(writes, events, (log_key(workspace.id), org_key(workspace.org_id), PUSHES_KEY))

    # -- callers that wait for the result ------------------------------------------------------------------------------

    def claim_result(
        self, workspace: Workspace, seq: int, held_until: int
    ) -> Generator[StepRequest, Any, tuple[str, MessageChanges]]:
        """Claim a result for the waiting caller, which also acknowledges it.

        `held_until`: the end of the wait that it was held for. Returns `here`; `before` if it was acknowledged earlier;
        `inbox` if another claim holds it."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        is_leased = claim is not None and claim.lease_until > self._clock.now()
        if is_handled:
            return "before", MessageChanges([], [])
        if claim is not None and is_leased and claim.lease_until != result_lease_until(held_until):
            return "inbox", MessageChanges([], [])
        return "here", (yield from self._ack_message(workspace, inbox, claim, seq, None))  # control: taken-result

    def release_result(
        self, workspace: Workspace, seq: int, held_until: int
    ) -> Generator[StepRequest, Any, MessageChanges]:
        """Release a held result, after its caller stopped waiting: any claim may get it now."""
        _, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        if is_handled or claim is None or claim.lease_until != result_lease_until(held_until):
            return MessageChanges([], [])
        writes: list[Statement] = [save_claim(workspace.id, seq, 0, 0, None)]
        if workspace.delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": workspace.id, "due": self._clock.now()}))
        return MessageChanges(writes, [], (log_key(workspace.id), PUSHES_KEY))


def close_with_answer(
    ledger: ObligationLedger,
    obligation: Obligation,
    answer: AnswerContent,
    via: str,
    now: int,
    *,
    acknowledged: bool,
    declined: bool = False,
    opening_changes: MessageChanges | None = None,
) -> WriteSet[MessageReceipt]:
    """Close an obligation for a delegation with its answer, and emit MessageAnswered.

    `acknowledged`: the same command acknowledges the message. A late answer (the obligation is closed) is emitted too.
    The caller has already looked for a duplicate."""
    receipt = MessageReceipt(answer.id, answer.context_id or answer.id, now)
    domain_event = MessageAnswered(
        obligation.activity_id, answer, via, declined=declined, acknowledged=acknowledged, at=now
    )
    written = WriteSet(receipt, domain_events=[domain_event])
    if opening_changes is not None:
        add_changes(written, opening_changes)
    if not obligation.is_open:
        return written
    by_handle = via == "reply"
    if declined:
        return add_changes(
            written, ledger.close_declined(obligation, now, answer.text, answer_id=answer.id, by_handle=by_handle)
        )
    return add_changes(written, ledger.close_answered(obligation, now, answer.id, by_handle=by_handle))


def result_lease_until(held_until: int) -> int:
    """Return the end of the lease that holds a result for a waiting caller (microseconds)."""
    return held_until + HOLD_MARGIN_SECONDS * SECOND


def _merge_changes(first: MessageChanges, second: MessageChanges) -> MessageChanges:
    writes, events = [*first.writes, *second.writes], [*first.events, *second.events]
    return MessageChanges(
        writes, events, (*first.notify, *second.notify), (*first.domain_events, *second.domain_events)
    )


def _rpc_request(message: dict[str, Any]) -> bytes:
    """Build a message body in the format of all others."""
    params = {"message": message, "metadata": {}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})


def _to_inserted(written: WriteSet[None], activity: Activity) -> InsertedActivity:
    return InsertedActivity(activity.id, activity.seq, MessageChanges(written.writes, written.events, written.notify))


def _request_body(content: ResultContent, parts: list[dict[str, Any]]) -> bytes:
    result_metadata = {
        "kind": KIND_DELEGATION_RESULT,
        "intent": INTENT_INFORM,
        "delegation_id": content.delegation_id,
        "status": content.status,
    }
    metadata = {**result_metadata, **({} if content.reason is None else {"reason": content.reason})}
    message = {"kind": "message", "role": "agent", "messageId": content.id, "parts": parts, "metadata": metadata}
    return _rpc_request(message)


def _response_body(content: ResultContent) -> bytes:
    """Build the response body with the members that clients of the original Molecule read."""
    required = {"text": content.text, "delegation_id": content.delegation_id, "status": content.status}
    optional = {"reason": content.reason, "error": content.error}
    return msgspec.json.encode({**required, **{name: value for name, value in optional.items() if value is not None}})
