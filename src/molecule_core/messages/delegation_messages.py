"""The rows that a delegation leaves among messages: what its caller did, and the result in the caller's inbox.

An answer to a message that carries a delegation becomes no message of its own: it closes the obligation, and rises as
the fact `Answered`; who follows it has the result written. Above: the hands through which answers come, and the slice
of delegations. Below: entering, owing.
"""

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

# A caller that waits has this much longer to take the result than it waits.
HOLD_MARGIN_SECONDS = 10
COMPLETED = "completed"


class InsertedActivity(NamedTuple):
    """A row that enters a log: its id, its number there, and what is written and told with it."""

    id: str
    seq: int
    changes: MessageChanges


class ResultContent(Struct, frozen=True, kw_only=True):
    """What a delegation has come to, as its result says it. `id`: of the row. `status`: completed, failed or cancelled;
    `text`: all that the caller reads; `chain_id`, `hop`, `cause_id`: where it stands among messages."""

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
    """Makes these rows."""

    def __init__(self, ledger: ObligationLedger, *, clock: Clock, ids: IdGenerator) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    def insert_caller_row(
        self, source: Workspace, delegation_id: str, target_id: str, task: str, sender: str
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """What a workspace has delegated, in its own log."""
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
        """What a delegation has come to, in the inbox of who gave it. It always has room there, and is stopped by no
        chain: the work was allowed when it began. `held_until`: its caller waits for it until then (microseconds), and
        nobody else is handed it before."""
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
        """What the server says where a workspace says nothing."""
        parts = [{"kind": "text", "text": text}]
        return AnswerContent(self._ids.new(), f"workspace:{workspace_id}", parts, text, None, None, context_id)

    def insert_late_answer(
        self, target: Workspace, source_id: str, delegation_id: str, answer: AnswerContent
    ) -> Generator[StepRequest, Any, InsertedActivity]:
        """What a workspace said of a delegation that had ended already: kept in its own log, and told to nobody."""
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
        """Who is at work on what has ended, or waits for what will not come, is told so. `about`: what programs read of
        it. It wants no answer, and always has room."""
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

    # -- the message that carries it -----------------------------------------------------------------------------------

    def ack_answered(self, workspace: Workspace, seq: int) -> Generator[StepRequest, Any, MessageChanges]:
        """The message at a place of an inbox is answered, and nobody is handed it any more."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace.id, seq)
        if is_handled or self._is_push_in_flight(workspace, claim):
            return MessageChanges([], [])
        return (yield from self._ack_message(workspace, inbox, claim, seq, None))

    def withdraw(
        self, workspace: Workspace, seq: int, reason: str, *, by_target: bool = False
    ) -> Generator[StepRequest, Any, tuple[bool, MessageChanges]]:
        """The message at a place of an inbox need not be worked on any more: nobody is handed it, and no answer to it
        is owed. A push that is under way is left to its own end. `by_target`: its workspace says so itself. Returns
        whether anybody has had it."""
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
        """The message at a place of an inbox was never delivered, and is settled: nobody owes an answer to it. Whoever
        said something in answer outside has had it all the same: what it owed has ended."""
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
        """One row is settled: handled, or `withdrawn` for a reason before anybody had it. That is no dead letter that
        somebody must look at."""
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

    # -- who waits for the result --------------------------------------------------------------------------------------

    def claim_result(
        self, workspace: Workspace, seq: int, held_until: int
    ) -> Generator[StepRequest, Any, tuple[str, MessageChanges]]:
        """Who waits takes the result at a place of its inbox, which is handled by that (`here`); or somebody has
        handled it before (`before`), or has it in hand (`inbox`). `held_until`: the end of the wait that it was kept
        for."""
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
        """Nobody waits for the result any more: the inbox hands it out, as if it had never been kept."""
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
    """The answer to a message that carries a delegation, by whatever way it came: it ends what is owed and rises.
    `handled`: the same command settles the message in the inbox. What is not owed any more rises too: it came late.
    The caller has looked for its repetition before."""
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
    """Until when a result is kept for a caller that waits until then (microseconds)."""
    return held_until + HOLD_MARGIN_SECONDS * SECOND


def _merge_changes(first: MessageChanges, second: MessageChanges) -> MessageChanges:
    writes, events = [*first.writes, *second.writes], [*first.events, *second.events]
    return MessageChanges(
        writes, events, (*first.notify, *second.notify), (*first.domain_events, *second.domain_events)
    )


def _rpc_request(message: dict[str, Any]) -> bytes:
    """A regular message, as agents read every other one."""
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
    """What clients of the original read: the whole text, and whose result it is."""
    required = {"text": content.text, "delegation_id": content.delegation_id, "status": content.status}
    optional = {"reason": content.reason, "error": content.error}
    return msgspec.json.encode({**required, **{name: value for name, value in optional.items() if value is not None}})
