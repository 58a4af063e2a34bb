"""Writes messages: sending, notifying the user, log entries, read marks. Claims and acks are in `inbox/`."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import (
    CommunicationDenied,
    DecisionRequired,
    InboxFull,
    InvalidMessage,
    TalkToUserDisabled,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.messages import reply_wait, rules
from molecule_core.messages.activities import insert_activity, received_activity, schedule_delivery, sent_activity
from molecule_core.messages.approval_messages import approval_id_of, record_explanation
from molecule_core.messages.broadcasts import BroadcastWriter
from molecule_core.messages.chains.model import NEW_CHAIN, ChainLink
from molecule_core.messages.chains.writer import ChainWriter
from molecule_core.messages.events import AnswerContent, MessageAnswered, MessagesReleased, ProgressReported
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import InboxAcks, inbox_keys, load_inbox, save_claim
from molecule_core.messages.model import (
    Activity,
    AgentLogEntry,
    InboxClaim,
    MessageDraft,
    MessageReceipt,
    UserNotice,
)
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import AnswerTarget, Obligation, obligation_key, reply_due_at
from molecule_core.messages.obligations.transitions import extend_for_progress, undo_delivery
from molecule_core.messages.questions import close_answered_questions, open_question
from molecule_core.messages.storage_usage import StorageQuota
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    NextNumber,
    ReadQuery,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.wire.schemas.activity import APPROVAL_KINDS, ActivityMethod, Intent, MessageKind


class MessageWriter:
    """Sends and logs messages."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
        ledger: ObligationLedger | None = None,
    ) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._ledger = ledger or ObligationLedger(clock, limits)
        self._acks = InboxAcks(store, org, self._ledger, clock=clock)
        self.chains = ChainWriter(store, clock=clock, limits=limits)
        self.quota = StorageQuota(clock=clock, limits=limits)
        self.broadcasts = BroadcastWriter(store, org, self.chains, self.quota, clock=clock, ids=ids, limits=limits)

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, workspace_id: str, draft: MessageDraft) -> "asyncio.Future[MessageReceipt]":
        """Send a message to an inbox, exactly once per (sender, dedupe key); resolves when it is durable.

        Raises NotFound, WorkspaceRemoved; the future CommunicationDenied, MessageIdReused, ChainFrozen, ChainEnded,
        InboxFull, StorageFull, InvalidMessage."""
        target, sender_id = self._org.active_workspace(workspace_id), draft.sender.workspace_id

        def command(exclusive: bool) -> Command[MessageReceipt]:
            keys = self.send_keys(workspace_id, draft, exclusive=exclusive)
            return Command(target.org_id, keys, partial(self.decide_send, workspace_id, draft, exclusive=exclusive))

        if sender_id is None:
            return self._store.run(command(exclusive=False))
        return self._ledger.run_answering(self._store, sender_id, workspace_id, command)

    def send_keys(
        self, workspace_id: str, draft: MessageDraft, *, exclusive: bool = True
    ) -> tuple[tuple[str, ...], ...]:
        """Return the keys of a send command; with `exclusive` also those for closing an obligation."""
        sender = draft.sender
        key = () if draft.dedupe_key is None else (("message", sender.key, draft.dedupe_key),)
        obligation_keys: tuple[tuple[str, ...], ...] = ()
        if exclusive and sender.workspace_id is not None:
            # An answer that names its message also acknowledges it.
            obligation_keys = (obligation_key(sender.workspace_id, workspace_id), *inbox_keys(sender.workspace_id))
        return (*key, *obligation_keys, *attachments.file_keys(draft.message["parts"]))

    def decide_send(
        self,
        workspace_id: str,
        draft: MessageDraft,
        answer_target: AnswerTarget | None = None,
        *,
        exclusive: bool = True,
    ) -> CommandSteps[MessageReceipt]:
        """Decide a send. `answer_target`: what the message answers, if known. Raises NeedsExclusiveGroup."""
        target, sender = self._org.active_workspace(workspace_id), draft.sender
        if sender.workspace_id is not None and not may_talk(
            self._org, self._org.active_workspace(sender.workspace_id), target
        ):
            raise CommunicationDenied
        ttl = rules.ttl_of(draft, self._limits.expires_seconds)
        digest = None
        if draft.dedupe_key is not None:
            digest = rules.content_hash(workspace_id, draft)
            duplicates = yield ReadQuery(
                "message_by_dedupe_key", {"sender": sender.key, "dedupe_key": draft.dedupe_key}
            )
            if duplicates:
                previous = rules.replayed_receipt(duplicates[0], digest=digest, message_id=draft.dedupe_key)
                return (yield from reply_wait.register_wait_again(draft, target, previous, self._clock.now()))
        if sender.workspace_id is not None and answer_target is None:
            content, sender_workspace = draft.message["metadata"], self._org.active_workspace(sender.workspace_id)
            answer_target = yield from self._ledger.find_answered(
                sender_workspace, workspace_id, content, exclusive=exclusive
            )
            work = answer_target.obligation
            if (
                work is not None
                and work.kind == MessageKind.DELEGATION
                and rules.is_counter_question(content, work.activity_id)
            ):
                answer_target = replace(answer_target, progress=True)
        obligation = None if answer_target is None or answer_target.progress else answer_target.obligation
        if answer_target is not None and obligation is not None and obligation.kind == MessageKind.DELEGATION:
            declined = rules.is_decline(draft.message["metadata"])
            return (yield from self.end_delegation(draft, answer_target, obligation, "message", declined=declined))
        if answer_target is not None and obligation is not None and obligation.kind in APPROVAL_KINDS:
            return (yield from self.decide_explain(draft, answer_target, obligation))
        inserted = yield from self.insert_message(target, draft, answer_target, ttl=ttl, digest=digest)
        if inserted.error is not None:  # the message froze its chain
            frozen: WriteSet[Any] = inserted
            return frozen
        activity = inserted.result
        receipt = MessageReceipt(activity.id, activity.context_id or activity.id, activity.created_at)
        sent = WriteSet(receipt) + inserted
        if sender.workspace_id is not None and target.uses_push and activity.intent == Intent.REQUEST:
            registered = reply_wait.register_wait(receipt, draft.wait_seconds, activity.created_at)
            sent = sent.returning(registered.result) + registered
        if answer_target is not None and answer_target.obligation is not None:
            sent += yield from self._answer_effects(answer_target, answer_target.obligation, activity)
        return sent

    def insert_message(
        self,
        target: Workspace,
        draft: MessageDraft,
        answer_target: AnswerTarget | None,
        *,
        ttl: int | None = None,
        digest: str | None = None,
    ) -> CommandSteps[Activity]:
        """Insert a message into an inbox and link it to its chain; it has no effect yet on what it answers.

        The write set has an error instead if the message freezes its chain. Raises InboxFull, ChainFrozen, ChainEnded,
        InvalidMessage."""
        sender, workspace_id = draft.sender, target.id
        most_inbound = yield from self._max_inbound_no(workspace_id)
        yield from self.quota.check_bodies(target.org_id, workspace_id, len(draft.text.encode()))
        link = NEW_CHAIN
        if sender.workspace_id is not None and answer_target is not None:
            link_or_freeze = yield from self.chains.link_message(
                target.org_id,
                sender.workspace_id,
                answer_target.named_id,
                target_id=workspace_id,
                text=None if draft.kind == MessageKind.DELEGATION else rules.text_if_text_only(draft),
            )
            if isinstance(link_or_freeze, WriteSet):
                return link_or_freeze
            link = link_or_freeze
            draft = rules.with_resolved_intent(draft, link, is_answer=answer_target.obligation is not None)
        elif draft.task_id is not None:
            number = yield NextNumber("last_in_chain", draft.task_id, allow_gaps=True)
            link = ChainLink(draft.task_id, 0, draft.task_id, chain_no=number)
        resolved = yield from attachments.resolve_files(draft.message["parts"], target.org_id, sender.workspace_id)
        if resolved.parts is not draft.message["parts"]:
            draft = replace(draft, message={**draft.message, "parts": resolved.parts})
        inbound_no = yield NextNumber("last_inbound", workspace_id, most_inbound)
        if inbound_no is None:  # other commands of the group took the last ones
            raise InboxFull(limit=self._limits.inbox_unhandled)
        activity_id, now = draft.activity_id or self._ids.new(), self._clock.now()
        kind = draft.kind or (MessageKind.USER if sender.workspace_id is None else MessageKind.PEER)
        body = rules.stored_body(draft, kind, draft.message.get("messageId") or activity_id)
        activity = yield from received_activity(
            target,
            activity_id,
            now,
            sender,
            draft.text,
            body,
            inbound_no=inbound_no,
            link=link,
            kind=kind,
            intent=draft.intent,
            dedupe_key=draft.dedupe_key,  # control: inserted-dedupe-key
            content_hash=digest,
            context_id=draft.context_id or activity_id,
            expires_at=None if ttl is None else now + ttl * SECOND,
            trace_parent=draft.trace_parent,
        )
        is_of_person = kind == MessageKind.USER
        event = "USER_MESSAGE" if is_of_person else "ACTIVITY_LOGGED"
        inserted = insert_activity(activity, resolved.file_ids, event_name=event) + schedule_delivery(target, activity)
        if is_of_person:
            inserted += WriteSet(None, [close_answered_questions(activity, draft.message["metadata"])])
        return inserted

    def end_delegation(
        self, draft: MessageDraft, answer_target: AnswerTarget, obligation: Obligation, via: str, *, declined: bool
    ) -> CommandSteps[MessageReceipt]:
        """End the delegation whose message is answered, instead of storing a message, and emit MessageAnswered.

        `via`: reply (by its handle; the same command acknowledges the message), message or draft. Needs no inbox
        capacity, and no chain limit applies. A late answer (the obligation is closed) is emitted too. The caller has
        already looked for a duplicate."""
        parts = draft.message["parts"]
        resolved = yield from attachments.resolve_files(parts, obligation.org_id, obligation.workspace_id)
        answer = replace(
            _answer_of(draft, obligation),
            id=self._ids.new(),
            parts=resolved.parts,
            context_id=draft.context_id or obligation.activity_id,
        )
        if not declined and not answer.text.strip() and all(part["kind"] == "text" for part in parts):
            raise InvalidMessage(reason="the answer to a delegation cannot be empty. Add a text, data or a file.")
        now, by_handle = self._clock.now(), via == "reply"
        event = MessageAnswered(obligation.activity_id, answer, via, declined=declined, acknowledged=by_handle, at=now)
        receipt = MessageReceipt(answer.id, answer.context_id or answer.id, now)
        ended = WriteSet(receipt, domain_events=[event]) + answer_target.opening_changes
        if not obligation.is_open:
            return ended
        if declined:
            return ended + self._ledger.close_declined(
                obligation, now, answer.text, answer_id=answer.id, by_handle=by_handle
            )
        return ended + self._ledger.close_answered(obligation, now, answer.id, by_handle=by_handle)

    def decide_explain(
        self, draft: MessageDraft, answer_target: AnswerTarget, obligation: Obligation
    ) -> CommandSteps[MessageReceipt]:
        """Decide an answer to a question about an approval.

        By handle, it goes to the approval even if the approver is out of reach in the tree or removed."""
        return (yield from self._explain_approval(answer_target, obligation, _answer_of(draft, obligation)))

    def _explain_approval(
        self, answer_target: AnswerTarget, obligation: Obligation, content: AnswerContent
    ) -> CommandSteps[MessageReceipt]:
        """Add an answer to an approval. Raises DecisionRequired if it answers the approval request itself."""
        if obligation.kind == MessageKind.APPROVAL_REQUEST:
            raise DecisionRequired(approval_id=approval_id_of(obligation.activity_id))
        resolved = yield from attachments.resolve_files(content.parts, obligation.org_id, obligation.workspace_id)
        complete = replace(content, id=self._ids.new(), parts=resolved.parts, context_id=obligation.context_id)
        explained = yield from record_explanation(
            self._ledger, obligation, complete, self._clock.now(), opening_changes=answer_target.opening_changes
        )
        return explained + (yield from self._ack_answered(answer_target, obligation))

    def _answer_effects(
        self, answer_target: AnswerTarget, obligation: Obligation, activity: Activity
    ) -> CommandSteps[None]:
        """Return the effects of a message that answers another one or reports progress on it."""
        now = activity.created_at
        opened = answer_target.opening_changes.returning(None)
        if not answer_target.progress:
            closed = self._ledger.close_answered(obligation, now, activity.id, by_handle=answer_target.by_handle)
            return opened + closed + (yield from self._ack_answered(answer_target, obligation))
        due = reply_due_at(self._org.active_workspace(obligation.workspace_id), self._limits, now)
        opened += WriteSet(None, extend_for_progress(obligation, due))
        if obligation.kind != MessageKind.DELEGATION:
            return opened
        progress = ProgressReported(obligation.activity_id, activity.summary or "", now)
        return opened + WriteSet(None, domain_events=[progress])

    def _ack_answered(self, answer_target: AnswerTarget, obligation: Obligation) -> CommandSteps[None]:
        """Acknowledge a message that its answer names; a reply by handle acknowledges it itself.

        Another one may be unseen: the response that delivered it can have been lost."""
        if answer_target.by_handle or answer_target.named_id != obligation.activity_id:
            return WriteSet(None)

        acked = yield from self._acks.ack_answered(obligation.workspace_id, obligation.seq, obligation.inbound_no)
        return acked.returning(None)

    def reserve_inbound_no(self, workspace_id: str) -> Generator[StepRequest, Any, int]:
        """Take the next inbound number. Raises InboxFull."""
        number: int | None = yield NextNumber(
            "last_inbound", workspace_id, (yield from self._max_inbound_no(workspace_id))
        )
        if number is None:
            raise InboxFull(limit=self._limits.inbox_unhandled)
        return number

    def _max_inbound_no(self, workspace_id: str) -> Generator[StepRequest, Any, int]:
        """Return the highest inbound number that the next message may get. Raises InboxFull.

        The ack floor is read only if enough messages ever came to fill the inbox."""
        limit = self._limits.inbox_unhandled
        head_no = yield CurrentNumber("last_inbound", workspace_id)
        if head_no + self._limits.group_commands < limit:
            return limit
        maximum = rules.max_inbound_no((yield from load_inbox(workspace_id)), limit)
        if head_no >= maximum:
            raise InboxFull(limit=limit)
        return maximum

    async def notify_user(self, workspace_id: str, notice: UserNotice) -> MessageReceipt:
        """Send a message from an agent to its user.

        Raises TalkToUserDisabled, MessageIdReused, ChainFrozen, ChainEnded, NotFound, WorkspaceRemoved,
        InvalidMessage."""
        target = self._org.active_workspace(workspace_id)

        def command(exclusive: bool) -> Command[MessageReceipt]:
            keys = self.notify_keys(workspace_id, notice, exclusive=exclusive)
            return Command(target.org_id, keys, partial(self.decide_notify, workspace_id, notice, exclusive=exclusive))

        return await self._ledger.run_answering(self._store, workspace_id, None, command)

    def notify_keys(
        self, workspace_id: str, notice: UserNotice, *, exclusive: bool = True
    ) -> tuple[tuple[str, ...], ...]:
        """Return the keys of a notify command; with `exclusive` also those for closing an obligation."""
        key = () if notice.dedupe_key is None else (("message", f"workspace:{workspace_id}", notice.dedupe_key),)
        obligation_keys = (obligation_key(workspace_id, None), *inbox_keys(workspace_id)) if exclusive else ()
        return (*key, *obligation_keys, *attachments.file_keys(notice.parts))

    def decide_notify(
        self,
        workspace_id: str,
        notice: UserNotice,
        answer_target: AnswerTarget | None = None,
        *,
        exclusive: bool = True,
    ) -> CommandSteps[MessageReceipt]:
        """Decide a notice to the user. `answer_target`: what it answers, if known. Raises NeedsExclusiveGroup."""
        target, sender = self._org.active_workspace(workspace_id), f"workspace:{workspace_id}"
        digest = rules.hash_of_parts(workspace_id, notice.parts)
        if notice.dedupe_key is not None:
            duplicates = yield ReadQuery("message_by_dedupe_key", {"sender": sender, "dedupe_key": notice.dedupe_key})
            if duplicates:
                return WriteSet(rules.replayed_receipt(duplicates[0], digest=digest, message_id=notice.dedupe_key))
        if answer_target is None:
            answer_target = yield from self._ledger.find_answered(target, None, notice.metadata, exclusive=exclusive)
        obligation = None if answer_target.progress else answer_target.obligation
        if obligation is not None and obligation.kind in APPROVAL_KINDS:
            content = AnswerContent(
                "", sender, notice.parts, rules.text_of(notice.parts), notice.dedupe_key, digest, None
            )
            return (yield from self._explain_approval(answer_target, obligation, content))
        if not target.talk_to_user_enabled:
            raise TalkToUserDisabled
        size = len(rules.text_of(notice.parts).encode())
        yield from self.quota.check_bodies(target.org_id, workspace_id, size)
        link = yield from self.chains.link_message(target.org_id, workspace_id, answer_target.named_id)
        if isinstance(link, WriteSet):
            return link
        resolved = yield from attachments.resolve_files(notice.parts, target.org_id, workspace_id)
        activity_id = self._ids.new()
        body = rules.notice_body(activity_id, resolved.parts, notice.metadata)
        activity = yield from sent_activity(
            target.org_id,
            workspace_id,
            activity_id,
            self._clock.now(),
            rules.text_of(notice.parts),
            body,
            link=link,
            method=ActivityMethod.NOTIFY,
            chat=1,
            dedupe_key=notice.dedupe_key,
            content_hash=digest,
            context_id=activity_id,
        )
        receipt = MessageReceipt(activity.id, activity.id, activity.created_at)
        inserted = insert_activity(activity, resolved.file_ids, event_name="AGENT_MESSAGE")
        sent = inserted.returning(receipt)
        if notice.metadata.get("options"):
            sent += WriteSet(None, open_question(activity, self._limits))
        if answer_target.obligation is None:
            return sent
        if obligation is not None:
            sent = sent.returning(replace(receipt, answered_id=obligation.activity_id))
        return sent + (yield from self._answer_effects(answer_target, answer_target.obligation, activity))

    async def log_activity(self, workspace_id: str, entry: AgentLogEntry) -> str:
        """Log an agent's report on its own work; returns the id of the row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.active_workspace(workspace_id)
        bodies = [_encode_json(body) for body in (entry.request_body, entry.response_body)]
        size = sum(len(body.encode()) for body in bodies if body is not None)

        def decide() -> CommandSteps[str]:
            self._org.active_workspace(workspace_id)
            yield from self.quota.check_bodies(target.org_id, workspace_id, size)
            activity = Activity(
                id=self._ids.new(),
                org_id=target.org_id,
                workspace_id=workspace_id,
                seq=(yield NextNumber("last_seq", workspace_id)),
                size=size,
                activity_type=entry.activity_type,
                method=entry.method,
                source_id=workspace_id,
                target_id=entry.target_id,
                sender=f"workspace:{workspace_id}",
                status=entry.status,
                created_at=self._clock.now(),
                duration_ms=entry.duration_ms,
                summary=entry.summary,
                error_detail=entry.error_detail,
                request_body=bodies[0],
                response_body=bodies[1],
            )
            return insert_activity(activity).returning(activity.id)

        return await self._store.run(Command(target.org_id, (), decide))

    async def mark_read(self, workspace_id: str, person_id: str, seq: int, *, back: bool = False) -> None:
        """Mark a person's chat as read up to a row; with `back`, only up to it. Raises NotFound, WorkspaceRemoved."""
        target = self._org.active_workspace(workspace_id)

        def decide() -> CommandSteps[None]:
            highest = yield CurrentNumber("last_seq", workspace_id)
            mark = {"person_id": person_id, "workspace_id": workspace_id, "seq": min(seq, highest)}
            return WriteSet(None, [("move_read_mark_back" if back else "save_read_mark", mark)])

        await self._store.run(Command(target.org_id, (("read", person_id, workspace_id),), decide))

    async def release_claims(self, workspace_id: str, claims: dict[str, int]) -> int:
        """Release claimed messages (id -> attempt) for the next claim; returns how many were released.

        Messages that were acknowledged or claimed again since are skipped. Waiting polls are not woken: one of them may
        be the last poll of the agent that is stopping. Raises NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[int]:
            now, count = self._clock.now(), 0
            writes, delegations = list[Statement](), list[str]()
            for activity_id, attempt in claims.items():
                positions = yield ReadQuery("position_of_activity", {"id": activity_id, "workspace_id": workspace_id})
                row = {"workspace_id": workspace_id, "seq": positions[0][0] if positions else 0}
                saved_claims = [InboxClaim(*records) for records in (yield ReadQuery("claim_of_row", row))]
                if saved_claims and saved_claims[0].acked_at is None and saved_claims[0].attempt == attempt:
                    writes.append(save_claim(workspace_id, saved_claims[0].seq, attempt, now, None))
                    writes += undo_delivery(workspace_id, saved_claims[0].seq)
                    count += 1
                    delegations += [activity_id] if positions[0][2] == MessageKind.DELEGATION else []
            return WriteSet(
                count, writes, domain_events=[MessagesReleased(tuple(delegations), now)] if delegations else []
            )

        target = self._org.active_workspace(workspace_id)
        return await self._store.run(Command(target.org_id, inbox_keys(workspace_id), decide))


def _answer_of(draft: MessageDraft, obligation: Obligation) -> AnswerContent:
    """Return the answer that a message gives, before its id is chosen and its files are resolved."""
    digest = None if draft.dedupe_key is None else rules.content_hash(obligation.source_id or "", draft)
    return AnswerContent("", draft.sender.key, draft.message["parts"], draft.text, draft.dedupe_key, digest, None)


def _encode_json(body: Any) -> str | None:
    return None if body is None else msgspec.json.encode(body).decode()
