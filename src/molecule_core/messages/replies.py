"""Replies: what is answered by its handle, declined, or answered outside and kept as a draft.

One command each: the answer goes out, the obligation ends and the message is handled in one transaction, or nothing of
it happens. Above: the edges. Below: the writer, settling, obligations. docs/obligations.md.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import (
    ChainEnded,
    ChainFrozen,
    CommunicationDenied,
    DecisionRequired,
    HandleMismatch,
    InboxFull,
    NoPendingDraft,
    NotFound,
    UnknownHandle,
    WorkspaceRemoved,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.text import truncate_line
from molecule_core.messages import rules
from molecule_core.messages.answer_drafts import (
    OutgoingAnswer,
    answer_receipt,
    build_answer,
    build_answer_from_draft,
    find_previous_answer,
    stale_handle_error,
    with_result,
)
from molecule_core.messages.approval_messages import approval_id_of
from molecule_core.messages.delegation_messages import close_with_answer
from molecule_core.messages.events import AnswerContent
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import InboxAcks, inbox_keys, load_inbox_entry
from molecule_core.messages.model import (
    ANSWERED,
    DECLINED,
    KIND_APPROVAL_DECISION,
    KIND_APPROVAL_REQUEST,
    KIND_DELEGATION,
    KIND_PEER,
    SUMMARY_LENGTH,
    TYPE_SEND,
    Activity,
    MessageDraft,
    MessageReceipt,
    UserNotice,
)
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    AnswerTarget,
    InboundMessage,
    MessageChanges,
    Obligation,
    add_changes,
    draft_event,
    drop_draft,
    load_obligation,
    new_obligation,
    obligation_key,
)
from molecule_core.messages.obligations.reply_handles import parse_handle
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    NextNumber,
    StepRequest,
    Store,
    T,
    WriteSet,
)
from molecule_core.store.journal import log_key, org_key
from molecule_core.wire.protocols.a2a import SEND_METHOD as METHOD_SEND

LATE = "late"
"""How a message stands whose delegation had ended when it was answered: what was said is kept, and changes nothing."""
# Why a peer cannot be told any more.
_UNREACHABLE_ERRORS = (NotFound, WorkspaceRemoved, CommunicationDenied, InboxFull, ChainFrozen, ChainEnded)


class ReplyOutcome(Struct, frozen=True):
    """What came of an answer: the row that it is (none: nothing was said), the message that it answers, how that one
    stands now, and whether it is handled."""

    receipt: MessageReceipt | None
    inbound: InboundMessage
    state: str
    acknowledged: bool


class ReplyWriter:
    """Answers messages, by handle or from what was kept."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        writer: MessageWriter,
        acks: InboxAcks,
        ledger: ObligationLedger,
        *,
        clock: Clock,
        ids: IdGenerator,
    ) -> None:
        self._store = store
        self._org = org
        self._writer = writer
        self._acks = acks
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    # -- by handle -----------------------------------------------------------------------------------------------------

    async def find_by_handle(self, workspace_id: str, handle: str) -> InboundMessage:
        """The message that a handle names in the inbox of a workspace. Raises UnknownHandle: of other inboxes, and of
        none, it says the same."""
        parsed = parse_handle(handle)
        rows = await self._store.rows("asked", {"workspace_id": workspace_id, "seq": parsed.seq}) if parsed else []
        inbound = InboundMessage(*rows[0]) if rows else None
        if inbound is None or parsed is None or inbound.handle != f"m{parsed.seq}-{parsed.check}":
            raise UnknownHandle
        return inbound

    async def reply(
        self, workspace_id: str, handle: str, parts: list[dict[str, Any]], *, progress: bool = False, key: str | None
    ) -> ReplyOutcome:
        """Answers a message, wherever it came from; with `progress` only says that it is being worked on. (`key` tells
        repetitions of the latter; an answer is told by its handle: a second one is the first one.)

        Raises UnknownHandle, StaleHandle, and what sending and notifying raise."""
        inbound = await self.find_by_handle(workspace_id, handle)
        metadata = {"in_reply_to": inbound.id, **({"progress": True} if progress else {})}
        return await self.send_answer(
            inbound, build_answer(inbound, parts, metadata, key), progress=progress, in_own_log=True
        )

    async def send_answer(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, *, progress: bool, in_own_log: bool = False
    ) -> ReplyOutcome:
        """Sends what answers a message by its handle; `own_row`: and notes it in the sender's own log, if it goes to a
        peer. Raises HandleOfAnother, DecideInstead, and as `reply`."""
        if not progress:
            _check_text_allowed(inbound)
        key = outgoing.dedupe_key if progress else f"reply:{inbound.handle}"
        return await self._run_command(
            inbound, replace(outgoing, dedupe_key=key), partial(self._decide_reply, inbound, progress, in_own_log)
        )

    def check_recipient(self, inbound: InboundMessage, target_id: str | None) -> None:
        """An answer goes to whom its handle names. Raises HandleOfAnother."""
        if inbound.source_id != target_id:
            raise HandleMismatch(whom="the user" if inbound.source_id is None else f"workspace {inbound.source_id}")

    def _decide_reply(
        self, inbound: InboundMessage, progress: bool, in_own_log: bool, outgoing: OutgoingAnswer
    ) -> CommandSteps[ReplyOutcome]:
        previous = None if progress else (yield from find_previous_answer(inbound, outgoing))
        obligation, opening_changes = yield from self._load_obligation(inbound, is_closing=not progress)
        state = LATE if _is_late(inbound, obligation) else ANSWERED
        if previous is not None:
            return WriteSet(ReplyOutcome(previous, inbound, state, acknowledged=True))
        if obligation is not None and not obligation.is_open and (progress or state != LATE):
            raise (yield from stale_handle_error(inbound, obligation))
        answer_target = AnswerTarget(inbound.id, obligation, progress, by_handle=True, opening_changes=opening_changes)
        ack = WriteSet(0) if progress else (yield from self._ack(inbound))
        written = yield from self._write_answer(inbound, outgoing, answer_target)
        if written.error is not None:
            return with_result(written, ReplyOutcome(None, inbound, "", acknowledged=False))
        outcome = ReplyOutcome(written.result, inbound, "open" if progress else state, acknowledged=not progress)
        done = with_result(written, outcome)
        if in_own_log and isinstance(outgoing, MessageDraft) and inbound.kind != KIND_APPROVAL_DECISION:
            add_changes(done, (yield from self._write_own_log(inbound, outgoing)))
        return add_changes(done, MessageChanges(ack.writes, ack.events, ack.notify))

    def _ack(self, inbound: InboundMessage) -> CommandSteps[int]:
        return (yield from self._acks.ack_answered(inbound.workspace_id, inbound.seq, inbound.inbound_no))

    async def decline(self, workspace_id: str, handle: str, reason: str) -> ReplyOutcome:
        """Says that there will be no answer, and why. A peer that asked is told so; a person sees it at the message.

        Raises UnknownHandle, StaleHandle, and what sending raises."""
        inbound = await self.find_by_handle(workspace_id, handle)
        _check_text_allowed(inbound)
        if inbound.kind == KIND_APPROVAL_DECISION:  # who wants leave and says nothing more has said that
            return await self.reply(workspace_id, handle, [{"kind": "text", "text": reason}], key=None)
        metadata = {"in_reply_to": inbound.id, "declined": True}
        outgoing = build_answer(inbound, [{"kind": "text", "text": reason}], metadata, f"decline:{inbound.handle}")
        return await self._run_command(inbound, outgoing, partial(self._decide_decline, inbound, reason))

    def _decide_decline(
        self, inbound: InboundMessage, reason: str, outgoing: OutgoingAnswer
    ) -> CommandSteps[ReplyOutcome]:
        obligation, opening_changes = yield from self._load_obligation(inbound, is_closing=True)
        if obligation is not None and not obligation.is_open:
            if _is_late(inbound, obligation) and isinstance(outgoing, MessageDraft):
                return (yield from self._decide_late_decline(inbound, outgoing, obligation))
            if not obligation.by_handle:
                raise (yield from stale_handle_error(inbound, obligation))
            return WriteSet(ReplyOutcome(answer_receipt(obligation), inbound, obligation.state, acknowledged=True))
        ack = yield from self._ack(inbound)
        written: WriteSet[MessageReceipt | None] = WriteSet(None, [], [], (org_key(inbound.org_id),))
        if obligation is not None and inbound.kind == KIND_DELEGATION and isinstance(outgoing, MessageDraft):
            answer_target = AnswerTarget(inbound.id, obligation, by_handle=True, opening_changes=opening_changes)
            ended = yield from self._end_delegation(inbound, outgoing, answer_target, "reply", declined=True)
            outcome = ReplyOutcome(ended.result, inbound, DECLINED, acknowledged=True)
            return add_changes(with_result(ended, outcome), MessageChanges(ack.writes, ack.events, ack.notify))
        if isinstance(outgoing, MessageDraft):
            written = yield from self._notify_peer(inbound, outgoing)
        receipt = written.result
        done = add_changes(
            with_result(written, ReplyOutcome(receipt, inbound, DECLINED, acknowledged=True)), opening_changes
        )
        if obligation is not None:
            answer_id = None if receipt is None else receipt.activity_id
            add_changes(
                done,
                self._ledger.close_declined(obligation, self._clock.now(), reason, answer_id=answer_id, by_handle=True),
            )
        return add_changes(done, MessageChanges(ack.writes, ack.events, ack.notify))

    def _decide_late_decline(
        self, inbound: InboundMessage, outgoing: MessageDraft, obligation: Obligation
    ) -> CommandSteps[ReplyOutcome]:
        previous = yield from find_previous_answer(inbound, outgoing)
        if previous is not None:
            return WriteSet(ReplyOutcome(previous, inbound, LATE, acknowledged=True))
        answer_target = AnswerTarget(inbound.id, obligation, by_handle=True)
        ended = yield from self._end_delegation(inbound, outgoing, answer_target, "reply", declined=True)
        return with_result(ended, ReplyOutcome(ended.result, inbound, LATE, acknowledged=True))

    def _notify_peer(self, inbound: InboundMessage, outgoing: MessageDraft) -> CommandSteps[MessageReceipt | None]:
        """Who asked is told, if it can be reached still; that there will be no answer holds either way."""
        self._org.active_workspace(inbound.workspace_id)
        unsent: WriteSet[MessageReceipt | None] = WriteSet(None, [], [], (org_key(inbound.org_id),))
        try:
            written = yield from self._write_message(inbound, outgoing, AnswerTarget(inbound.id))
        except _UNREACHABLE_ERRORS:
            return unsent
        if written.error is None:
            return with_result(written, written.result)
        return add_changes(unsent, MessageChanges(written.writes, written.events, written.notify))

    # -- drafts --------------------------------------------------------------------------------------------------------

    async def keep_draft(self, workspace_id: str, activity_id: str, text: str) -> str:
        """An agent has said this in answer to a message, and called nothing that sends it. It is kept, or sent if the
        workspace is set so; returns how the message stands now, empty if it wants no answer. The same text again
        changes nothing.

        Raises NotFound, WorkspaceRemoved, and what sending and notifying raise."""
        inbound = await self._load_message(workspace_id, activity_id)
        return await self._run_command(
            inbound, build_answer_from_draft(inbound, text), partial(self._decide_keep_draft, inbound, text)
        )

    def _decide_keep_draft(self, inbound: InboundMessage, text: str, outgoing: OutgoingAnswer) -> CommandSteps[str]:
        is_sending = self._org.active_workspace(inbound.workspace_id).send_drafts
        obligation, opening_changes = yield from self._load_obligation(inbound, is_closing=is_sending)
        if (
            obligation is None
            or inbound.kind == KIND_APPROVAL_REQUEST
            or (opening_changes.writes and (yield from self._has_ended(inbound)))
        ):
            return WriteSet("")
        if not obligation.is_open or obligation.draft == text:
            return WriteSet(obligation.display_state)
        if is_sending:
            written = yield from self._write_draft(
                inbound, outgoing, AnswerTarget(inbound.id, obligation, opening_changes=opening_changes), obligation
            )
            return with_result(written, ANSWERED)
        updated = replace(obligation, outside_at=obligation.outside_at or self._clock.now())
        changes = self._ledger.keep_draft(obligation, text, self._clock.now())
        outcome: WriteSet[str] = WriteSet(updated.display_state, [], [], (org_key(inbound.org_id),))
        return add_changes(add_changes(outcome, opening_changes), changes)

    def _has_ended(self, inbound: InboundMessage) -> Generator[StepRequest, Any, bool]:
        """Whether a delegation had ended before anybody had its message: nothing is owed for it any more."""
        _, _, is_handled = yield from load_inbox_entry(inbound.workspace_id, inbound.seq)
        return is_handled and inbound.kind == KIND_DELEGATION

    async def send_draft(self, workspace_id: str, activity_id: str, text: str | None) -> MessageReceipt:
        """A person sends what an agent has said, perhaps in other words, as the workspace. Asking again gives the first
        answer. Raises NotFound, NoDraft, WorkspaceRemoved, and what sending and notifying raise."""
        inbound = await self._load_message(workspace_id, activity_id)
        rows = await self._store.rows("obligation", {"workspace_id": workspace_id, "seq": inbound.seq})
        text_to_send = text or (Obligation(*rows[0]).draft if rows else None) or ""
        return await self._run_command(
            inbound,
            build_answer_from_draft(inbound, text_to_send),
            partial(self._decide_send_draft, inbound, text is None, text_to_send),
        )

    def _decide_send_draft(
        self, inbound: InboundMessage, is_unchanged: bool, text_to_send: str, outgoing: OutgoingAnswer
    ) -> CommandSteps[MessageReceipt]:
        previous = yield from find_previous_answer(inbound, outgoing)
        if previous is not None:
            return WriteSet(previous)
        obligation = yield from load_obligation(inbound.workspace_id, inbound.seq)
        if obligation is None or not obligation.is_open or obligation.draft is None:
            raise NoPendingDraft(state="not waiting for an answer" if obligation is None else obligation.display_state)
        if is_unchanged and obligation.draft != text_to_send:  # the agent has said something else since it was read
            raise NoPendingDraft(state="answered outside anew; look at what the draft says now")
        return (yield from self._write_draft(inbound, outgoing, AnswerTarget(inbound.id, obligation), obligation))

    def _write_draft(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, answer_target: AnswerTarget, obligation: Obligation
    ) -> CommandSteps[MessageReceipt]:
        written = yield from self._write_answer(inbound, outgoing, answer_target, via="draft")
        if written.error is not None:
            return written
        if (
            isinstance(outgoing, MessageDraft) and inbound.kind != KIND_APPROVAL_DECISION
        ):  # what explains has its row in the own log already
            add_changes(written, (yield from self._write_own_log(inbound, outgoing)))
        return add_changes(written, MessageChanges([], [draft_event(obligation, "sent")]))

    async def discard_draft(self, workspace_id: str, activity_id: str) -> str:
        """A person does not want it sent; returns how the message stands then. Asking again changes nothing.

        Raises NotFound, WorkspaceRemoved."""
        inbound = await self._load_message(workspace_id, activity_id)

        def decide() -> CommandSteps[str]:
            self._org.active_workspace(workspace_id)
            obligation = yield from load_obligation(workspace_id, inbound.seq)
            if obligation is None or not obligation.is_open or obligation.outside_at is None:
                return WriteSet("" if obligation is None else obligation.display_state)
            changes = drop_draft(obligation)
            display_state = replace(obligation, outside_at=None).display_state
            return WriteSet(display_state, changes.writes, changes.events, (org_key(inbound.org_id),))

        return await self._store.run(
            Command(inbound.org_id, (obligation_key(workspace_id, inbound.source_id),), decide)
        )

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _load_message(self, workspace_id: str, activity_id: str) -> InboundMessage:
        """A message of the inbox of a workspace. Raises NotFound."""
        positions = await self._store.rows("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
        rows = await self._store.rows(
            "asked", {"workspace_id": workspace_id, "seq": positions[0][0] if positions else 0}
        )
        if not rows:
            raise NotFound(what="message")
        return InboundMessage(*rows[0])

    async def _run_command(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, decide: Callable[[OutgoingAnswer], CommandSteps[T]]
    ) -> T:
        """One command that may send, change what is owed, and settle."""
        self._org.active_workspace(inbound.workspace_id)
        if isinstance(outgoing, UserNotice):
            keys = self._writer.notify_keys(inbound.workspace_id, outgoing)
        else:
            keys = self._writer.send_keys(inbound.source_id or "", outgoing)
        all_keys = (*inbox_keys(inbound.workspace_id), *keys)
        # An explanation is followed far: were it not alone, its whole group would be decided twice.
        exclusive = inbound.kind == KIND_APPROVAL_DECISION
        return await self._store.run(Command(inbound.org_id, all_keys, partial(decide, outgoing), exclusive=exclusive))

    def _write_message(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, answer_target: AnswerTarget
    ) -> CommandSteps[MessageReceipt]:
        if isinstance(outgoing, UserNotice):
            return (yield from self._writer.decide_notify(inbound.workspace_id, outgoing, answer_target))
        return (yield from self._writer.decide_send(inbound.source_id or "", outgoing, answer_target))

    def _write_answer(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, answer_target: AnswerTarget, *, via: str = "reply"
    ) -> CommandSteps[MessageReceipt]:
        """An answer as a message; or, if what is answered carries a delegation, as what ends that; or, if it is a
        question about an approval, as what its workspace says to that."""
        obligation = None if answer_target.progress else answer_target.obligation
        if inbound.kind == KIND_APPROVAL_DECISION and obligation is not None and isinstance(outgoing, MessageDraft):
            return (
                yield from self._writer.decide_explain(inbound.source_id or "", outgoing, answer_target, obligation)
            )
        is_end = inbound.kind == KIND_DELEGATION and answer_target.obligation is not None and not answer_target.progress
        if not is_end or not isinstance(outgoing, MessageDraft):
            return (yield from self._write_message(inbound, outgoing, answer_target))
        return (yield from self._end_delegation(inbound, outgoing, answer_target, via))

    def _end_delegation(
        self,
        inbound: InboundMessage,
        outgoing: MessageDraft,
        answer_target: AnswerTarget,
        via: str,
        *,
        declined: bool = False,
    ) -> CommandSteps[MessageReceipt]:
        """What ends a delegation, in the words of who has it."""
        resolved = yield from attachments.resolve_files(outgoing.message["parts"], inbound.org_id, inbound.workspace_id)
        digest = rules.content_hash(inbound.source_id or "", outgoing)
        content = AnswerContent(
            self._ids.new(),
            outgoing.sender.key,
            resolved.parts,
            outgoing.text,
            outgoing.dedupe_key,
            digest,
            outgoing.context_id or inbound.id,
        )
        obligation, now = answer_target.obligation or new_obligation(inbound, self._clock.now()), self._clock.now()
        acknowledged, opening_changes = via == "reply", answer_target.opening_changes
        return close_with_answer(
            self._ledger,
            obligation,
            content,
            via,
            now,
            acknowledged=acknowledged,
            declined=declined,
            opening_changes=opening_changes,
        )

    def _load_obligation(
        self, inbound: InboundMessage, *, is_closing: bool
    ) -> Generator[StepRequest, Any, tuple[Obligation | None, MessageChanges]]:
        return (
            yield from self._ledger.obligation_for(
                self._org.active_workspace(inbound.workspace_id), inbound, is_closing=is_closing
            )
        )

    def _write_own_log(
        self, inbound: InboundMessage, outgoing: MessageDraft
    ) -> Generator[StepRequest, Any, MessageChanges]:
        """What a workspace says to a peer stands in its own log too, or its own history would know only half."""
        activity_id, now = self._ids.new(), self._clock.now()
        body = rules.stored_body(outgoing, KIND_PEER, activity_id)
        row = Activity(
            id=activity_id,
            org_id=inbound.org_id,
            workspace_id=inbound.workspace_id,
            seq=(yield NextNumber("last_seq", inbound.workspace_id)),
            size=len(body),
            activity_type=TYPE_SEND,
            method=METHOD_SEND,
            source_id=inbound.workspace_id,
            target_id=inbound.source_id,
            sender=outgoing.sender.key,
            context_id=outgoing.context_id,
            created_at=now,
            summary=truncate_line(outgoing.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        event = JournalEvent("ACTIVITY_LOGGED", inbound.workspace_id, "activity", activity_id, at=now)
        return MessageChanges([("insert_activity", row)], [event], (log_key(inbound.workspace_id),))


def _check_text_allowed(inbound: InboundMessage) -> None:
    """Raises DecideInstead for what asks for a decision: no text is one."""
    if inbound.kind == KIND_APPROVAL_REQUEST:
        raise DecisionRequired(approval_id=approval_id_of(inbound.id))


def _is_late(inbound: InboundMessage, obligation: Obligation | None) -> bool:
    """Whether a delegation had ended otherwise when its answer came. That is kept, and changes nothing."""
    if obligation is None or obligation.is_open or inbound.kind != KIND_DELEGATION:
        return False
    return obligation.answer_id is None and not obligation.by_handle
