"""Answers messages by reply handle, declines them, and keeps unsent answers as drafts.

Each is one command: sending the answer, closing the obligation and acknowledging the message are one transaction.
Called by the API; calls the writer, acks and the obligation ledger. See docs/obligations.md."""

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
"""State of a message whose delegation had ended before it was answered: the answer is kept without effect."""
# Errors that mean that a peer cannot be reached any more.
_UNREACHABLE_ERRORS = (NotFound, WorkspaceRemoved, CommunicationDenied, InboxFull, ChainFrozen, ChainEnded)


class ReplyOutcome(Struct, frozen=True):
    """The result of an answer.

    `receipt`: the answer's row (None: nothing was sent); `inbound`: the answered message; `state`: its state
    afterwards; `acknowledged`: whether it is acknowledged."""

    receipt: MessageReceipt | None
    inbound: InboundMessage
    state: str
    acknowledged: bool


class ReplyWriter:
    """Answers messages by handle or from a draft."""

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
        """Find the message that a handle names.

        Raises UnknownHandle, equally for handles of other inboxes."""
        parsed = parse_handle(handle)
        rows = await self._store.rows("asked", {"workspace_id": workspace_id, "seq": parsed.seq}) if parsed else []
        inbound = InboundMessage(*rows[0]) if rows else None
        if inbound is None or parsed is None or inbound.handle != f"m{parsed.seq}-{parsed.check}":
            raise UnknownHandle
        return inbound

    async def reply(
        self, workspace_id: str, handle: str, parts: list[dict[str, Any]], *, progress: bool = False, key: str | None
    ) -> ReplyOutcome:
        """Answer a message by its handle; with `progress` only report that it is being worked on.

        `key` deduplicates progress reports. An answer is deduplicated by its handle: a second one returns the first
        one's receipt. Raises UnknownHandle, StaleHandle, and the errors of sending and notifying."""
        inbound = await self.find_by_handle(workspace_id, handle)
        metadata = {"in_reply_to": inbound.id, **({"progress": True} if progress else {})}
        return await self.send_answer(
            inbound, build_answer(inbound, parts, metadata, key), progress=progress, in_own_log=True
        )

    async def send_answer(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, *, progress: bool, in_own_log: bool = False
    ) -> ReplyOutcome:
        """Send an answer by handle; with `in_own_log` also log it for the sender if it goes to a peer.

        Raises DecisionRequired, and the errors of `reply`."""
        if not progress:
            _check_text_allowed(inbound)
        key = outgoing.dedupe_key if progress else f"reply:{inbound.handle}"
        return await self._run_command(
            inbound, replace(outgoing, dedupe_key=key), partial(self._decide_reply, inbound, progress, in_own_log)
        )

    def check_recipient(self, inbound: InboundMessage, target_id: str | None) -> None:
        """Check that an answer goes to the workspace that its handle names. Raises HandleMismatch."""
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
        """Decline a message with a reason. A peer gets it as a message; a person sees it on their own message.

        Raises UnknownHandle, StaleHandle, and the errors of sending."""
        inbound = await self.find_by_handle(workspace_id, handle)
        _check_text_allowed(inbound)
        if inbound.kind == KIND_APPROVAL_DECISION:  # no more explanation is itself the explanation
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
        """Notify the sender of a decline, if it can still be reached; the message is declined in either case."""
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
        """Keep an answer that an agent produced without sending it.

        Returns the message's state, empty if it wants no answer. The answer is sent at once if the workspace is
        configured so. The same text again changes nothing. Raises NotFound, WorkspaceRemoved, and the errors of sending
        and notifying."""
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
        """Return whether a delegation ended before its message was delivered, which leaves no obligation."""
        _, _, is_handled = yield from load_inbox_entry(inbound.workspace_id, inbound.seq)
        return is_handled and inbound.kind == KIND_DELEGATION

    async def send_draft(self, workspace_id: str, activity_id: str, text: str | None) -> MessageReceipt:
        """Send a draft as the workspace, optionally with a text that a person edited; repeatable.

        Raises NotFound, NoPendingDraft, WorkspaceRemoved, and the errors of sending and notifying."""
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
        if (
            is_unchanged and obligation.draft != text_to_send
        ):  # the agent produced another draft since the person read it
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
        ):  # an explanation is already logged in the workspace's own log
            add_changes(written, (yield from self._write_own_log(inbound, outgoing)))
        return add_changes(written, MessageChanges([], [draft_event(obligation, "sent")]))

    async def discard_draft(self, workspace_id: str, activity_id: str) -> str:
        """Discard a draft; returns the message's state afterwards. Repeatable. Raises NotFound, WorkspaceRemoved."""
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
        """Load a message of a workspace's inbox. Raises NotFound."""
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
        """Run a command that may send, close an obligation and acknowledge."""
        self._org.active_workspace(inbound.workspace_id)
        if isinstance(outgoing, UserNotice):
            keys = self._writer.notify_keys(inbound.workspace_id, outgoing)
        else:
            keys = self._writer.send_keys(inbound.source_id or "", outgoing)
        all_keys = (*inbox_keys(inbound.workspace_id), *keys)
        # An explanation has isolated subscribers: in a shared group, the whole group would be decided twice.
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
        """Write an answer as a message, as the end of a delegation, or as an explanation to an approval."""
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
        """End a delegation with an answer of its recipient."""
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
        """Log an answer to a peer in the workspace's own log, whose history would otherwise lack it."""
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
    """Check that a message may be answered with text. Raises DecisionRequired for approval requests."""
    if inbound.kind == KIND_APPROVAL_REQUEST:
        raise DecisionRequired(approval_id=approval_id_of(inbound.id))


def _is_late(inbound: InboundMessage, obligation: Obligation | None) -> bool:
    """Return whether a delegation had ended otherwise before its answer. Such an answer is kept without effect."""
    if obligation is None or obligation.is_open or inbound.kind != KIND_DELEGATION:
        return False
    return obligation.answer_id is None and not obligation.by_handle
