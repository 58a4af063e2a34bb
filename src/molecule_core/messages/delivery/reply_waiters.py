"""Delivers answers of push agents: to the waiting request, else into the sender's inbox.

Also notifies senders of messages that were given up. The wait is stored with the message (reply_wait). It ends when the
sender accepts a receipt or disconnects. See docs/delivery.md."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_activity, schedule_delivery
from molecule_core.messages.answer_drafts import build_reply_draft
from molecule_core.messages.chains.model import NEW_CHAIN, Cause
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery_state import AgentReply, DeliveryState, ReplyKind
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import inbox_keys, load_delivery_state
from molecule_core.messages.model import (
    INTENT_REQUEST,
    KIND_PEER,
    SUMMARY_LENGTH,
    TYPE_RECEIVE,
    Activity,
    MessageReceipt,
)
from molecule_core.messages.obligations.model import (
    InboundMessage,
    MessageChanges,
    Obligation,
    add_changes,
    load_inbound,
    load_obligation,
)
from molecule_core.messages.reply_wait import clear_wait, wait_deadline
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, NextNumber, ReadQuery, StepRequest, Store, T, WriteSet
from molecule_core.store.journal import answer_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.protocols.a2a import SEND_METHOD as METHOD_SEND

_NO_CHANGES = MessageChanges([], [])
_RETRY_SECONDS = 1.0


class InboxAnswer(NamedTuple):
    """An answer in the sender's inbox: the id of its row, and the changes that insert it."""

    id: str
    changes: MessageChanges


class ReplyWaiters:
    """Delivers answers and notices to the senders of messages."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Notifier,
        delegation_messages: DelegationMessages,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._delegation_messages = delegation_messages
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- senders that wait ---------------------------------------------------------------------------------------------

    async def stop_waiting(self, workspace_id: str, receipt: MessageReceipt) -> DeliveryState | None:
        """Stop waiting for an answer, which goes into the sender's inbox from now on.

        Returns the delivery state if the message has its outcome already, else None. Raises WorkspaceRemoved,
        StoreUnavailable, ServerBusy."""

        def decide() -> CommandSteps[DeliveryState | None]:
            state = yield from load_delivery_state(receipt.activity_id)
            return WriteSet(state) if state is None or state.has_outcome else WriteSet(None, [clear_wait(state.id)])

        return await self._store.run(self._inbox_command(workspace_id, decide))

    async def handle_disconnect(self, workspace_id: str, receipt: MessageReceipt) -> bool:
        """Deliver the answer to the inbox of a sender that disconnected or may not read the response.

        Retried while the store is unavailable, until the stored wait ends or the server stops. Returns whether it was
        written. Raises WorkspaceRemoved."""
        id_ = receipt.activity_id

        async def look() -> Poll[bool]:
            try:
                states = [DeliveryState(*row) for row in await self._store.rows("message_state", {"id": id_})]
                keys = attachments.file_keys(
                    [part for each in states for part in self._parse_stored_answer(each).parts]
                )
                await self._store.run(self._inbox_command(workspace_id, partial(self._decide_disconnect, id_), keys))
            except (StoreUnavailable, ServerBusy):
                return Poll(None, next_poll_in=_RETRY_SECONDS)
            return Poll(True)

        seconds_left = max(0.0, (receipt.held_until - self._clock.now()) / SECOND)
        return await self._wakeups.wait_until(answer_key(id_), look, seconds_left) is not None

    def _decide_disconnect(self, message_id: str) -> CommandSteps[None]:
        state, is_waiting = (yield from load_delivery_state(message_id)), (yield from wait_deadline(message_id)) > 0
        if state is None or not is_waiting:  # the sender got the outcome, or another of its requests took a receipt
            return WriteSet(None)
        written = WriteSet(None, [clear_wait(message_id)])
        return add_changes(written, (yield from self._deliver_late(state))) if state.has_outcome else written

    def _deliver_late(self, state: DeliveryState) -> Generator[StepRequest, Any, MessageChanges]:
        if state.is_dead:
            return (yield from self._notify_sender(state, state.dead_reason or ""))
        obligation = yield from load_obligation(state.workspace_id, state.seq)
        if obligation is None or obligation.is_open or obligation.answer_id is not None or obligation.by_handle:
            return _NO_CHANGES
        answer = yield from self._insert_answer(state.workspace_id, state.seq, self._parse_stored_answer(state))
        if answer is None:
            return _NO_CHANGES
        row = {"workspace_id": state.workspace_id, "seq": state.seq, "answer_id": answer.id}
        return answer.changes._replace(writes=[*answer.changes.writes, ("note_answer", row)])

    def _parse_stored_answer(self, state: DeliveryState) -> AgentReply:
        return push_policy.parse_message_reply(state.answer or "{}", self._limits)

    def _inbox_command(
        self, workspace_id: str, decide: Callable[[], CommandSteps[T]], keys: tuple[tuple[str, str], ...] = ()
    ) -> Command[T]:
        return Command(self._org.active_workspace(workspace_id).org_id, (*inbox_keys(workspace_id), *keys), decide)

    # -- senders that do not wait --------------------------------------------------------------------------------------

    def deliver_answer(
        self, obligation: Obligation, reply: AgentReply
    ) -> Generator[StepRequest, Any, InboxAnswer | None]:
        """Insert the answer to a push into the sender's inbox; None if nothing is inserted.

        That is so if the sender waits for it or is removed, or the agent returned no answer yet."""
        if reply.kind is ReplyKind.ACCEPTED or (yield from self._is_awaited(obligation.activity_id)):
            return None
        return (yield from self._insert_answer(obligation.workspace_id, obligation.seq, reply))

    def notify_dead(self, message: DeliveryState, reason: str) -> Generator[StepRequest, Any, MessageChanges]:
        """Notify the sender of a request that was given up.

        People have the list of dead letters; delegations and approvals notify their callers themselves."""
        if message.kind != KIND_PEER or (yield from self._is_awaited(message.id)):
            return _NO_CHANGES
        return (yield from self._notify_sender(message, reason))

    def _is_awaited(self, message_id: str) -> Generator[StepRequest, Any, bool]:
        return (yield from wait_deadline(message_id)) > self._clock.now()  # control: sender-waits

    def _notify_sender(self, message: DeliveryState, reason: str) -> Generator[StepRequest, Any, MessageChanges]:
        found = yield from self._find_peer_request(message.workspace_id, message.seq)
        obligation = yield from load_obligation(message.workspace_id, message.seq)
        if found is None or (
            obligation is not None and not obligation.is_open
        ):  # it may have been answered without an ack
            return _NO_CHANGES
        _, source = found
        target = self._org.active_workspace(message.workspace_id)
        notice = rules.undelivered_notice(message, target.name, reason, self._limits)
        changes = (
            yield from self._delegation_messages.insert_system_notice(source, target.id, notice.text, notice.details)
        ).changes
        return changes._replace(writes=[*changes.writes, clear_wait(message.id)])

    def _insert_answer(
        self, workspace_id: str, seq: int, reply: AgentReply
    ) -> Generator[StepRequest, Any, InboxAnswer | None]:
        """Insert an answer as the agent's own tools would have sent it.

        Inbox and chain limits do not apply: the request was admitted when it was sent."""
        found = yield from self._find_peer_request(workspace_id, seq)
        if found is None:
            return None
        inbound, source = found
        metadata: dict[str, Any] = {"in_reply_to": inbound.id}
        if reply.kind is not ReplyKind.ANSWERED:
            metadata["declined"] = True
        reply_parts = reply.parts or ({"kind": "text", "text": reply.text},)
        parts = yield from attachments.replace_forbidden_files(reply_parts, inbound.org_id, workspace_id)
        resolved = yield from attachments.resolve_files(parts, inbound.org_id, workspace_id)
        row = yield from self._build_activity(source, inbound, resolved.parts, metadata)
        inserted = schedule_delivery(insert_activity(None, row, "ACTIVITY_LOGGED", resolved.file_ids), source, row)
        return InboxAnswer(
            row.id, MessageChanges([*inserted.writes, clear_wait(inbound.id)], inserted.events, inserted.notify)
        )

    def _find_peer_request(
        self, workspace_id: str, seq: int
    ) -> Generator[StepRequest, Any, tuple[InboundMessage, Workspace] | None]:
        """Return a plain request and the other workspace that sent it."""
        inbound = yield from load_inbound(workspace_id, seq)
        if inbound is None or inbound.kind != KIND_PEER or inbound.intent != INTENT_REQUEST:
            return None
        source = self._org.workspace(inbound.source_id or "")
        return None if source is None or source.removed or source.id == workspace_id else (inbound, source)

    def _build_activity(
        self, source: Workspace, inbound: InboundMessage, parts: list[dict[str, Any]], metadata: dict[str, Any]
    ) -> Generator[StepRequest, Any, Activity]:
        draft = build_reply_draft(inbound, parts, metadata)
        found = yield ReadQuery("cause_of", {"workspace_id": inbound.workspace_id, "named": inbound.id})
        link = rules.next_link(Cause(*found[0]), None, None, self._limits) if found else NEW_CHAIN
        activity_id = self._ids.new()
        body = rules.stored_body(draft, KIND_PEER, activity_id)
        return Activity(
            id=activity_id,
            org_id=source.org_id,
            workspace_id=source.id,
            inbound_no=(yield NextNumber("last_inbound", source.id)),
            seq=(yield NextNumber("last_seq", source.id)),
            size=len(body),
            activity_type=TYPE_RECEIVE,
            method=METHOD_SEND,
            kind=KIND_PEER,
            intent=draft.intent,
            source_id=inbound.workspace_id,
            target_id=source.id,
            sender=draft.sender.key,
            context_id=draft.context_id or activity_id,
            created_at=self._clock.now(),
            summary=truncate_line(draft.text, SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=link.root_id,
            hop=link.hop,
            cause_id=link.cause_id,
        )
