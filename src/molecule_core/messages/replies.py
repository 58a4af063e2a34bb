"""Answers messages by reply handle, declines them, and keeps unsent answers as drafts.

Each is one command: sending the answer, closing the obligation and acknowledging the message are one transaction.
Called by the API; calls the writer, acks and the obligation ledger. See docs/explanation/obligations.md."""

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
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_activity, sent_activity
from molecule_core.messages.answer_drafts import (
    OutgoingAnswer,
    answer_receipt,
    build_answer,
    build_answer_from_draft,
    find_previous_answer,
    stale_handle_error,
)
from molecule_core.messages.approval_messages import approval_id_of
from molecule_core.messages.inbox.acks import InboxAcks, inbox_keys, load_inbox_entry
from molecule_core.messages.model import Activity, MessageDraft, MessageReceipt, UserNotice
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    AnswerTarget,
    InboundMessage,
    Obligation,
    ObligationState,
    load_obligation,
    obligation_key,
)
from molecule_core.messages.obligations.reply_handles import parse_handle
from molecule_core.messages.obligations.transitions import draft_event, drop_draft
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, StepRequest, Store, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.activity import Intent, MessageKind

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
        rows = (
            await self._store.rows("inbox_message", {"workspace_id": workspace_id, "seq": parsed.seq}) if parsed else []
        )
        inbound = InboundMessage(*rows[0]) if rows else None
        if inbound is None or parsed is None or inbound.handle != f"m{parsed.seq}-{parsed.check}":
            raise UnknownHandle
        return inbound

    async def reply(
        self,
        workspace_id: str,
        handle: str,
        parts: list[dict[str, Any]],
        *,
        progress: bool = False,
        intent: str = Intent.INFORM,
        key: str | None,
    ) -> ReplyOutcome:
        """Answer a message by its handle; with `progress` only report that it is being worked on.

        `intent`: of the answer to a peer, which is a message of its own.
        `key` deduplicates progress reports. An answer is deduplicated by its handle: a second one returns the first
        one's receipt. Raises UnknownHandle, StaleHandle, and the errors of sending and notifying."""
        inbound = await self.find_by_handle(workspace_id, handle)
        metadata = {"in_reply_to": inbound.id, **({"progress": True} if progress else {})}
        if inbound.source_id is not None:
            metadata["intent"] = intent
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
        opening = yield from self._load_obligation(inbound, is_closing=not progress)
        obligation = opening.result
        state = LATE if _is_late(inbound, obligation) else ObligationState.ANSWERED
        if previous is not None:
            return WriteSet(ReplyOutcome(previous, inbound, state, acknowledged=True))
        if obligation is not None and not obligation.is_open and (progress or state != LATE):
            raise (yield from stale_handle_error(inbound, obligation))
        answer_target = AnswerTarget(inbound.id, obligation, progress, by_handle=True, opening_changes=opening)
        acked = WriteSet(0) if progress else (yield from self._ack(inbound))
        written = yield from self._write_answer(inbound, outgoing, answer_target)
        if written.error is not None:
            return written.returning(ReplyOutcome(None, inbound, "", acknowledged=False))
        outcome = ReplyOutcome(
            written.result, inbound, ObligationState.OPEN if progress else state, acknowledged=not progress
        )
        if in_own_log and isinstance(outgoing, MessageDraft) and inbound.kind != MessageKind.APPROVAL_DECISION:
            written += yield from self._write_own_log(inbound, outgoing)
        return written.returning(outcome) + acked

    def _ack(self, inbound: InboundMessage) -> CommandSteps[int]:
        return (yield from self._acks.ack_answered(inbound.workspace_id, inbound.seq, inbound.inbound_no))

    async def decline(self, workspace_id: str, handle: str, reason: str) -> ReplyOutcome:
        """Decline a message with a reason. A peer gets it as a message; a person sees it on their own message.

        Raises UnknownHandle, StaleHandle, and the errors of sending."""
        inbound = await self.find_by_handle(workspace_id, handle)
        _check_text_allowed(inbound)
        if inbound.kind == MessageKind.APPROVAL_DECISION:  # no more explanation is itself the explanation
            return await self.reply(workspace_id, handle, [{"kind": "text", "text": reason}], key=None)
        metadata = {"in_reply_to": inbound.id, "declined": True}
        outgoing = build_answer(inbound, [{"kind": "text", "text": reason}], metadata, f"decline:{inbound.handle}")
        return await self._run_command(inbound, outgoing, partial(self._decide_decline, inbound, reason))

    def _decide_decline(
        self, inbound: InboundMessage, reason: str, outgoing: OutgoingAnswer
    ) -> CommandSteps[ReplyOutcome]:
        opening = yield from self._load_obligation(inbound, is_closing=True)
        obligation = opening.result
        if obligation is not None and not obligation.is_open:
            if _is_late(inbound, obligation) and isinstance(outgoing, MessageDraft):
                return (yield from self._decide_late_decline(inbound, outgoing, obligation))
            if not obligation.by_handle:
                raise (yield from stale_handle_error(inbound, obligation))
            return WriteSet(ReplyOutcome(answer_receipt(obligation), inbound, obligation.state, acknowledged=True))
        acked = yield from self._ack(inbound)
        if obligation is not None and inbound.kind == MessageKind.DELEGATION and isinstance(outgoing, MessageDraft):
            answer_target = AnswerTarget(inbound.id, obligation, by_handle=True, opening_changes=opening)
            ended = yield from self._writer.end_delegation(outgoing, answer_target, obligation, "reply", declined=True)
            outcome = ReplyOutcome(ended.result, inbound, ObligationState.DECLINED, acknowledged=True)
            return ended.returning(outcome) + acked
        notified: WriteSet[MessageReceipt | None] = WriteSet(None, notify=(org_key(inbound.org_id),))
        if isinstance(outgoing, MessageDraft):
            notified = yield from self._notify_peer(inbound, outgoing)
        receipt = notified.result
        done = notified.returning(ReplyOutcome(receipt, inbound, ObligationState.DECLINED, acknowledged=True)) + opening
        if obligation is not None:
            answer_id, now = None if receipt is None else receipt.activity_id, self._clock.now()
            done += self._ledger.close_declined(obligation, now, reason, answer_id=answer_id, by_handle=True)
        return done + acked

    def _decide_late_decline(
        self, inbound: InboundMessage, outgoing: MessageDraft, obligation: Obligation
    ) -> CommandSteps[ReplyOutcome]:
        previous = yield from find_previous_answer(inbound, outgoing)
        if previous is not None:
            return WriteSet(ReplyOutcome(previous, inbound, LATE, acknowledged=True))
        answer_target = AnswerTarget(inbound.id, obligation, by_handle=True)
        ended = yield from self._writer.end_delegation(outgoing, answer_target, obligation, "reply", declined=True)
        return ended.returning(ReplyOutcome(ended.result, inbound, LATE, acknowledged=True))

    def _notify_peer(self, inbound: InboundMessage, outgoing: MessageDraft) -> CommandSteps[MessageReceipt | None]:
        """Notify the sender of a decline, if it can still be reached; the message is declined in either case."""
        self._org.active_workspace(inbound.workspace_id)
        try:
            written = yield from self._write_message(inbound, outgoing, AnswerTarget(inbound.id))
        except _UNREACHABLE_ERRORS:
            return WriteSet(None, notify=(org_key(inbound.org_id),))
        return written if written.error is None else replace(written, result=None, error=None)

    # -- drafts --------------------------------------------------------------------------------------------------------

    async def keep_draft(self, workspace_id: str, activity_id: str, text: str, *, send: bool) -> str:
        """Keep an answer that an agent produced without sending it; with `send` send it if the workspace allows that.

        Returns the message's state, empty if it wants no answer. The same text again changes nothing. Raises NotFound,
        WorkspaceRemoved, and the errors of sending and notifying."""
        inbound = await self._load_message(workspace_id, activity_id)
        return await self._run_command(
            inbound, build_answer_from_draft(inbound, text), partial(self._decide_keep_draft, inbound, text, send)
        )

    def _decide_keep_draft(
        self, inbound: InboundMessage, text: str, send: bool, outgoing: OutgoingAnswer
    ) -> CommandSteps[str]:
        is_sending = self._org.active_workspace(inbound.workspace_id).send_drafts and send
        opening = yield from self._load_obligation(inbound, is_closing=is_sending)
        obligation = opening.result
        if (
            obligation is None
            or inbound.kind == MessageKind.APPROVAL_REQUEST
            or (opening.writes and (yield from self._has_ended(inbound)))
        ):
            return WriteSet("")
        if not obligation.is_open or (obligation.draft == text and not is_sending):
            return WriteSet(obligation.display_state)
        if is_sending:
            written = yield from self._write_draft(
                inbound, outgoing, AnswerTarget(inbound.id, obligation, opening_changes=opening), obligation
            )
            return written.returning(ObligationState.ANSWERED)
        updated = replace(obligation, outside_at=obligation.outside_at or self._clock.now())
        kept = self._ledger.keep_draft(obligation, text, self._clock.now())
        return WriteSet(updated.display_state, notify=(org_key(inbound.org_id),)) + opening + kept

    def _has_ended(self, inbound: InboundMessage) -> Generator[StepRequest, Any, bool]:
        """Return whether a delegation ended before its message was delivered, which leaves no obligation."""
        _, _, is_handled = yield from load_inbox_entry(inbound.workspace_id, inbound.seq)
        return is_handled and inbound.kind == MessageKind.DELEGATION

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
            raise NoPendingDraft(state="replaced by a newer draft")
        return (yield from self._write_draft(inbound, outgoing, AnswerTarget(inbound.id, obligation), obligation))

    def _write_draft(
        self, inbound: InboundMessage, outgoing: OutgoingAnswer, answer_target: AnswerTarget, obligation: Obligation
    ) -> CommandSteps[MessageReceipt]:
        written = yield from self._write_answer(inbound, outgoing, answer_target, via="draft")
        if written.error is not None:
            return written
        if (
            isinstance(outgoing, MessageDraft) and inbound.kind != MessageKind.APPROVAL_DECISION
        ):  # an explanation is already logged in the workspace's own log
            written += yield from self._write_own_log(inbound, outgoing)
        return written + WriteSet(None, events=[draft_event(obligation, "sent")])

    async def discard_draft(self, workspace_id: str, activity_id: str) -> str:
        """Discard a draft; returns the message's state afterwards. Repeatable. Raises NotFound, WorkspaceRemoved."""
        inbound = await self._load_message(workspace_id, activity_id)

        def decide() -> CommandSteps[str]:
            self._org.active_workspace(workspace_id)
            obligation = yield from load_obligation(workspace_id, inbound.seq)
            if obligation is None or not obligation.is_open or obligation.outside_at is None:
                return WriteSet("" if obligation is None else obligation.display_state)
            display_state = replace(obligation, outside_at=None).display_state
            return WriteSet(display_state, notify=(org_key(inbound.org_id),)) + drop_draft(obligation)

        return await self._store.run(
            Command(inbound.org_id, (obligation_key(workspace_id, inbound.source_id),), decide)
        )

    async def close_covered(self, workspace_id: str, activity_id: str, answered_id: str) -> None:
        """Close the obligation of a person's message that the answer to another one answers too; repeatable.

        It stays open until the other one is answered. Raises NotFound."""
        inbound = await self._load_message(workspace_id, activity_id)
        answered = await self._load_message(workspace_id, answered_id)

        def decide() -> CommandSteps[None]:
            self._org.active_workspace(workspace_id)
            obligation = yield from load_obligation(workspace_id, inbound.seq)
            other = yield from load_obligation(workspace_id, answered.seq)
            is_answered = other is not None and other.state == ObligationState.ANSWERED
            if inbound.source_id or obligation is None or not obligation.is_open or other is None or not is_answered:
                return WriteSet(None)
            return self._ledger.close_answered(obligation, self._clock.now(), other.answer_id)

        keys = (*inbox_keys(workspace_id), obligation_key(workspace_id, inbound.source_id))
        await self._store.run(Command(inbound.org_id, keys, decide))

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def note_failure(self, workspace_id: str, activity_id: str, reason: str) -> None:
        """Note at an open message why the agent's work on it failed. Raises NotFound, WorkspaceRemoved."""
        inbound = await self._load_message(workspace_id, activity_id)

        def decide() -> CommandSteps[None]:
            self._org.active_workspace(workspace_id)
            obligation = yield from load_obligation(workspace_id, inbound.seq)
            if obligation is None or not obligation.is_open:
                return WriteSet(None)
            return self._ledger.note_failure(obligation, reason, self._clock.now())

        keys = (*inbox_keys(workspace_id), obligation_key(workspace_id, inbound.source_id))
        await self._store.run(Command(inbound.org_id, keys, decide))

    async def _load_message(self, workspace_id: str, activity_id: str) -> InboundMessage:
        """Load a message of a workspace's inbox. Raises NotFound."""
        positions = await self._store.rows("position_of_activity", {"id": activity_id, "workspace_id": workspace_id})
        rows = await self._store.rows(
            "inbox_message", {"workspace_id": workspace_id, "seq": positions[0][0] if positions else 0}
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
        exclusive = inbound.kind == MessageKind.APPROVAL_DECISION
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
        if (
            inbound.kind == MessageKind.APPROVAL_DECISION
            and obligation is not None
            and isinstance(outgoing, MessageDraft)
        ):
            return (yield from self._writer.decide_explain(outgoing, answer_target, obligation))
        if inbound.kind == MessageKind.DELEGATION and obligation is not None and isinstance(outgoing, MessageDraft):
            return (yield from self._writer.end_delegation(outgoing, answer_target, obligation, via, declined=False))
        return (yield from self._write_message(inbound, outgoing, answer_target))

    def _load_obligation(self, inbound: InboundMessage, *, is_closing: bool) -> CommandSteps[Obligation | None]:
        workspace = self._org.active_workspace(inbound.workspace_id)
        return (yield from self._ledger.obligation_for(workspace, inbound, is_closing=is_closing))

    def _write_own_log(self, inbound: InboundMessage, outgoing: MessageDraft) -> CommandSteps[Activity]:
        """Log an answer to a peer in the workspace's own log, whose history would otherwise lack it."""
        activity_id, now = self._ids.new(), self._clock.now()
        row = yield from sent_activity(
            inbound.org_id,
            inbound.workspace_id,
            activity_id,
            now,
            outgoing.text,
            rules.stored_body(outgoing, MessageKind.PEER, activity_id),
            target_id=inbound.source_id,
            sender=outgoing.sender.key,
            context_id=outgoing.context_id,
        )
        return insert_activity(row)


def _check_text_allowed(inbound: InboundMessage) -> None:
    """Check that a message may be answered with text. Raises DecisionRequired for approval requests."""
    if inbound.kind == MessageKind.APPROVAL_REQUEST:
        raise DecisionRequired(approval_id=approval_id_of(inbound.id))


def _is_late(inbound: InboundMessage, obligation: Obligation | None) -> bool:
    """Return whether a delegation had ended otherwise before its answer. Such an answer is kept without effect."""
    if obligation is None or obligation.is_open or inbound.kind != MessageKind.DELEGATION:
        return False
    return obligation.answer_id is None and not obligation.by_handle
