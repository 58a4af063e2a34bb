"""Writes messages: sending, notifying the user, log entries, read marks. Claims and acks are in `inbox/`."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CommunicationDenied, DecisionRequired, InboxFull, TalkToUserDisabled
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages import reply_wait, rules
from molecule_core.messages.activities import insert_activity, schedule_delivery
from molecule_core.messages.approval_messages import approval_id_of, record_explanation
from molecule_core.messages.broadcasts import BroadcastWriter
from molecule_core.messages.chains.model import NEW_CHAIN
from molecule_core.messages.chains.writer import ChainWriter
from molecule_core.messages.delegation_messages import close_with_answer
from molecule_core.messages.delivery_log import Statement
from molecule_core.messages.events import AnswerContent, MessagesReleased, ProgressReported
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import inbox_keys, load_inbox, save_claim
from molecule_core.messages.model import (
    KIND_APPROVAL_DECISION,
    KIND_APPROVAL_REQUEST,
    KIND_DELEGATION,
    KIND_PEER,
    KIND_USER,
    METHOD_NOTIFY,
    SUMMARY_LENGTH,
    TYPE_RECEIVE,
    TYPE_SEND,
    Activity,
    AgentLogEntry,
    InboxClaim,
    InboxState,
    MessageDraft,
    MessageReceipt,
    UserNotice,
)
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    AnswerTarget,
    MessageChanges,
    Obligation,
    add_changes,
    extend_for_progress,
    obligation_key,
    reply_due_at,
    undo_delivery,
)
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    NextNumber,
    ReadQuery,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.wire.protocols.a2a import SEND_METHOD as METHOD_SEND


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
        self.chains = ChainWriter(store, clock=clock, limits=limits)
        self.broadcasts = BroadcastWriter(store, org, self.chains, clock=clock, ids=ids, limits=limits)

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, workspace_id: str, draft: MessageDraft) -> "asyncio.Future[MessageReceipt]":
        """Send a message to an inbox, exactly once per (sender, dedupe key); resolves when it is durable.

        Raises NotFound, WorkspaceRemoved; the future CommunicationDenied, MessageIdReused, ChainFrozen, ChainEnded,
        InboxFull, InvalidMessage."""
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
            # The answer of a delegation also acknowledges its message in the inbox.
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
            duplicates = yield ReadQuery("find_twin", {"sender": sender.key, "dedupe_key": draft.dedupe_key})
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
                and work.kind == KIND_DELEGATION
                and rules.is_counter_question(content, work.activity_id)
            ):
                answer_target = msgspec.structs.replace(answer_target, progress=True)
        obligation = None if answer_target is None or answer_target.progress else answer_target.obligation
        if answer_target is not None and obligation is not None and obligation.kind == KIND_DELEGATION:
            return (yield from self._end_delegation(target, draft, answer_target, obligation, digest))
        if (
            answer_target is not None
            and obligation is not None
            and obligation.kind in (KIND_APPROVAL_REQUEST, KIND_APPROVAL_DECISION)
        ):
            content = AnswerContent(
                "", draft.sender.key, draft.message["parts"], draft.text, draft.dedupe_key, digest, None
            )
            return (yield from self._explain_approval(target.org_id, answer_target, obligation, content))
        most_inbound = yield from self._max_inbound_no(workspace_id)
        link = NEW_CHAIN
        if sender.workspace_id is not None and answer_target is not None:
            link_or_freeze = yield from self.chains.link_message(
                target.org_id,
                sender.workspace_id,
                answer_target.named_id,
                target_id=workspace_id,
                text=None if draft.kind == KIND_DELEGATION else rules.text_if_text_only(draft),
            )
            if isinstance(link_or_freeze, WriteSet):
                return link_or_freeze
            link = link_or_freeze
            draft = rules.with_resolved_intent(draft, link, is_answer=answer_target.obligation is not None)
        resolved = yield from attachments.resolve_files(draft.message["parts"], target.org_id, sender.workspace_id)
        if resolved.parts is not draft.message["parts"]:
            draft = msgspec.structs.replace(draft, message={**draft.message, "parts": resolved.parts})
        inbound_no = yield from self._take_inbound_no(workspace_id, most_inbound)
        activity_id, now = draft.activity_id or self._ids.new(), self._clock.now()
        kind = draft.kind or (KIND_USER if sender.workspace_id is None else KIND_PEER)
        body = rules.stored_body(draft, kind, draft.message.get("messageId") or activity_id)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=workspace_id,
            seq=(yield NextNumber("last_seq", workspace_id)),
            inbound_no=inbound_no,
            chat=int(kind == KIND_USER),
            size=len(body),
            activity_type=TYPE_RECEIVE,
            method=METHOD_SEND,
            kind=kind,
            intent=draft.intent,
            source_id=sender.workspace_id,
            target_id=workspace_id,
            user_id=sender.user_id,
            sender=sender.key,
            dedupe_key=draft.dedupe_key,  # control: inserted-dedupe-key
            content_hash=digest,
            context_id=draft.context_id or activity_id,
            created_at=now,
            summary=truncate_line(draft.text, SUMMARY_LENGTH),
            request_body=body.decode(),
            expires_at=None if ttl is None else now + ttl * SECOND,
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
            chain_no=link.chain_no,
            small_talk=link.small_talk,
            trace_parent=draft.trace_parent,
        )
        receipt = MessageReceipt(activity.id, activity.context_id or activity.id, activity.created_at)
        receipt, wait_writes = reply_wait.register_wait(draft, target, receipt, now)
        event = "USER_MESSAGE" if kind == KIND_USER else "ACTIVITY_LOGGED"
        written = schedule_delivery(insert_activity(receipt, activity, event, resolved.file_ids), target, activity)
        written.writes += wait_writes
        return self._with_answer_effects(written, answer_target, activity)

    def _end_delegation(
        self,
        target: Workspace,
        draft: MessageDraft,
        answer_target: AnswerTarget,
        obligation: Obligation,
        digest: str | None,
    ) -> CommandSteps[MessageReceipt]:
        """End the delegation whose message is answered, instead of storing a message.

        Needs no inbox capacity, and no chain limit applies. `metadata.status` may decline the delegation."""
        parts, metadata = draft.message["parts"], draft.message["metadata"]
        resolved = yield from attachments.resolve_files(parts, target.org_id, obligation.workspace_id)
        context_id = draft.context_id or obligation.activity_id
        content = AnswerContent(
            self._ids.new(), draft.sender.key, resolved.parts, draft.text, draft.dedupe_key, digest, context_id
        )
        declined, now = rules.is_decline(metadata), self._clock.now()
        opening_changes = answer_target.opening_changes
        return close_with_answer(
            self._ledger,
            obligation,
            content,
            "message",
            now,
            acknowledged=False,
            declined=declined,
            opening_changes=opening_changes,
        )

    def decide_explain(
        self, target_id: str, draft: MessageDraft, answer_target: AnswerTarget, obligation: Obligation
    ) -> CommandSteps[MessageReceipt]:
        """Decide an answer by handle to a question about an approval.

        It goes to the approval, even if the approver is out of reach in the tree or removed."""
        digest = rules.content_hash(target_id, draft)
        content = AnswerContent(
            "", draft.sender.key, draft.message["parts"], draft.text, draft.dedupe_key, digest, None
        )
        return (yield from self._explain_approval(obligation.org_id, answer_target, obligation, content))

    def _explain_approval(
        self, org_id: str, answer_target: AnswerTarget, obligation: Obligation, content: AnswerContent
    ) -> CommandSteps[MessageReceipt]:
        """Add an answer to an approval. Raises DecisionRequired if it answers the approval request itself."""
        if obligation.kind == KIND_APPROVAL_REQUEST:
            raise DecisionRequired(approval_id=approval_id_of(obligation.activity_id))
        resolved = yield from attachments.resolve_files(content.parts, org_id, obligation.workspace_id)
        complete = msgspec.structs.replace(
            content, id=self._ids.new(), parts=resolved.parts, context_id=obligation.context_id
        )
        return (
            yield from record_explanation(
                self._ledger, obligation, complete, self._clock.now(), opening_changes=answer_target.opening_changes
            )
        )

    def _with_answer_effects(
        self, written: WriteSet[MessageReceipt], answer_target: AnswerTarget | None, activity: Activity
    ) -> WriteSet[MessageReceipt]:
        """Add the effects of a message that answers another one or reports progress on it."""
        if answer_target is None or answer_target.obligation is None:
            return written
        obligation, now = answer_target.obligation, activity.created_at
        add_changes(written, answer_target.opening_changes)
        if answer_target.progress:
            due = reply_due_at(self._org.active_workspace(obligation.workspace_id), self._limits, now)
            is_delegation = obligation.kind == KIND_DELEGATION
            domain_events = (
                (ProgressReported(obligation.activity_id, activity.summary or "", now),) if is_delegation else ()
            )
            return add_changes(
                written, MessageChanges(extend_for_progress(obligation, due), [], domain_events=domain_events)
            )
        return add_changes(
            written, self._ledger.close_answered(obligation, now, activity.id, by_handle=answer_target.by_handle)
        )

    def reserve_inbound_no(self, workspace_id: str) -> Generator[StepRequest, Any, int]:
        """Take the next inbound number. Raises InboxFull."""
        maximum = yield from self._max_inbound_no(workspace_id)
        return (yield from self._take_inbound_no(workspace_id, maximum))

    def _take_inbound_no(self, workspace_id: str, maximum: int) -> Generator[StepRequest, Any, int]:
        number: int | None = yield NextNumber("last_inbound", workspace_id, maximum)
        if number is None:  # other commands of the group took the last ones
            raise InboxFull(limit=self._limits.inbox_unhandled)
        return number

    def _max_inbound_no(self, workspace_id: str) -> Generator[StepRequest, Any, int]:
        """Return the highest inbound number that the next message may get. Raises InboxFull.

        The ack floor is read only if enough messages ever came to fill the inbox."""
        limit = self._limits.inbox_unhandled
        head_no = yield CurrentNumber("last_inbound", workspace_id)
        inbox = InboxState() if head_no + self._limits.group_commands < limit else (yield from load_inbox(workspace_id))
        maximum = rules.max_inbound_no(inbox, limit)
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
        obligation_keys = (obligation_key(workspace_id, None),) if exclusive else ()
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
            duplicates = yield ReadQuery("find_twin", {"sender": sender, "dedupe_key": notice.dedupe_key})
            if duplicates:
                return WriteSet(rules.replayed_receipt(duplicates[0], digest=digest, message_id=notice.dedupe_key))
        if answer_target is None:
            answer_target = yield from self._ledger.find_answered(target, None, notice.metadata, exclusive=exclusive)
        obligation = None if answer_target.progress else answer_target.obligation
        if obligation is not None and obligation.kind in (KIND_APPROVAL_REQUEST, KIND_APPROVAL_DECISION):
            content = AnswerContent(
                "", sender, notice.parts, rules.text_of(notice.parts), notice.dedupe_key, digest, None
            )
            return (yield from self._explain_approval(target.org_id, answer_target, obligation, content))
        if not target.talk_to_user_enabled:
            raise TalkToUserDisabled
        link = yield from self.chains.link_message(target.org_id, workspace_id, answer_target.named_id)
        if isinstance(link, WriteSet):
            return link
        resolved = yield from attachments.resolve_files(notice.parts, target.org_id, workspace_id)
        activity_id = self._ids.new()
        body = rules.notice_body(activity_id, resolved.parts, notice.metadata)
        activity = Activity(
            id=activity_id,
            org_id=target.org_id,
            workspace_id=workspace_id,
            seq=(yield NextNumber("last_seq", workspace_id)),
            chat=1,
            size=len(body),
            activity_type=TYPE_SEND,
            method=METHOD_NOTIFY,
            source_id=workspace_id,
            sender=sender,
            dedupe_key=notice.dedupe_key,
            content_hash=digest,
            context_id=activity_id,
            created_at=self._clock.now(),
            summary=truncate_line(rules.text_of(notice.parts), SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
            chain_no=link.chain_no,
        )
        receipt = MessageReceipt(activity.id, activity.id, activity.created_at)
        written = insert_activity(receipt, activity, "AGENT_MESSAGE", resolved.file_ids)
        return self._with_answer_effects(written, answer_target, activity)

    async def log_activity(self, workspace_id: str, entry: AgentLogEntry) -> str:
        """Log an agent's report on its own work; returns the id of the row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.active_workspace(workspace_id)
        bodies = [_encode_json(body) for body in (entry.request_body, entry.response_body)]

        def decide() -> CommandSteps[str]:
            self._org.active_workspace(workspace_id)
            activity = Activity(
                id=self._ids.new(),
                org_id=target.org_id,
                workspace_id=workspace_id,
                seq=(yield NextNumber("last_seq", workspace_id)),
                size=sum(len(body) for body in bodies if body is not None),
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
            return insert_activity(activity.id, activity, "ACTIVITY_LOGGED")

        return await self._store.run(Command(target.org_id, (), decide))

    async def mark_read(self, workspace_id: str, person_id: str, seq: int) -> None:
        """Mark a person's chat as read up to a row. Raises NotFound, WorkspaceRemoved."""
        target = self._org.active_workspace(workspace_id)

        def decide() -> CommandSteps[None]:
            highest = yield CurrentNumber("last_seq", workspace_id)
            mark = {"person_id": person_id, "workspace_id": workspace_id, "seq": min(seq, highest)}
            return WriteSet(None, [("save_read_mark", mark)])

        await self._store.run(Command(target.org_id, (("read", person_id, workspace_id),), decide))

    async def release_claims(self, workspace_id: str, claims: dict[str, int]) -> int:
        """Release claimed messages (id -> attempt) for the next claim; returns how many were released.

        Messages that were acknowledged or claimed again since are skipped. Waiting polls are not woken: one of them may
        be the last poll of the agent that is stopping. Raises NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[int]:
            now, count = self._clock.now(), 0
            writes, delegations = list[Statement](), list[str]()
            for activity_id, attempt in claims.items():
                positions = yield ReadQuery("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
                row = {"workspace_id": workspace_id, "seq": positions[0][0] if positions else 0}
                saved_claims = [InboxClaim(*records) for records in (yield ReadQuery("handout", row))]
                if saved_claims and saved_claims[0].acked_at is None and saved_claims[0].attempt == attempt:
                    writes.append(save_claim(workspace_id, saved_claims[0].seq, attempt, now, None))
                    writes += undo_delivery(workspace_id, saved_claims[0].seq)
                    count += 1
                    delegations += [activity_id] if positions[0][2] == KIND_DELEGATION else []
            return WriteSet(
                count, writes, domain_events=[MessagesReleased(tuple(delegations), now)] if delegations else []
            )

        target = self._org.active_workspace(workspace_id)
        return await self._store.run(Command(target.org_id, inbox_keys(workspace_id), decide))


def _encode_json(body: Any) -> str | None:
    return None if body is None else msgspec.json.encode(body).decode()
