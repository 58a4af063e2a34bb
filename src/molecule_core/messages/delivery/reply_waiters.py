"""Delivers answers of push agents: to the waiting request, else into the sender's inbox.

Also notifies senders of messages that were given up. The wait is stored with the message (reply_wait). It ends when the
sender accepts a receipt or disconnects. See docs/explanation/delivery.md."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_activity, received_activity, schedule_delivery
from molecule_core.messages.answer_drafts import build_reply_draft
from molecule_core.messages.chains.model import NEW_CHAIN, Cause
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery_state import AgentReply, DeliveryState, ReplyKind
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import inbox_keys, load_delivery_state
from molecule_core.messages.model import Activity, MessageReceipt
from molecule_core.messages.obligations.model import InboundMessage, Obligation, load_inbound, load_obligation
from molecule_core.messages.reply_wait import clear_wait, wait_deadline
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, StepRequest, Store, T, WriteSet
from molecule_core.store.journal import answer_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.activity import Intent, MessageKind

_RETRY_SECONDS = 1.0
_QUESTION = "The task {task_id} that you delegated waits for your answer to this:"


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

        async def try_disconnect() -> Poll[bool]:
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
        return await self._wakeups.wait_until(answer_key(id_), try_disconnect, seconds_left) is not None

    def _decide_disconnect(self, message_id: str) -> CommandSteps[None]:
        state, is_waiting = (yield from load_delivery_state(message_id)), (yield from wait_deadline(message_id)) > 0
        if state is None or not is_waiting:  # the sender got the outcome, or another of its requests took a receipt
            return WriteSet(None)
        written = WriteSet(None, [clear_wait(message_id)])
        return written + (yield from self._deliver_late(state)) if state.has_outcome else written

    def _deliver_late(self, state: DeliveryState) -> CommandSteps[None]:
        if state.is_dead:
            return (yield from self._notify_sender(state, state.dead_reason or ""))
        obligation = yield from load_obligation(state.workspace_id, state.seq)
        if obligation is None or obligation.is_open or obligation.answer_id is not None or obligation.by_handle:
            return WriteSet(None)
        answer = yield from self._insert_answer(state.workspace_id, state.seq, self._parse_stored_answer(state))
        if answer is None:
            return WriteSet(None)
        row = {"workspace_id": state.workspace_id, "seq": state.seq, "answer_id": answer.result.id}
        return answer.returning(None) + WriteSet(None, [("note_answer", row)])

    def _parse_stored_answer(self, state: DeliveryState) -> AgentReply:
        return push_policy.parse_message_reply(state.answer or "{}", self._limits)

    def _inbox_command(
        self, workspace_id: str, decide: Callable[[], CommandSteps[T]], keys: tuple[tuple[str, str], ...] = ()
    ) -> Command[T]:
        return Command(self._org.active_workspace(workspace_id).org_id, (*inbox_keys(workspace_id), *keys), decide)

    # -- senders that do not wait --------------------------------------------------------------------------------------

    def deliver_answer(
        self, obligation: Obligation, reply: AgentReply
    ) -> Generator[StepRequest, Any, WriteSet[Activity] | None]:
        """Insert the answer to a push into the sender's inbox; None if nothing is inserted.

        That is so if the sender waits for it or is removed, or the agent returned no answer yet."""
        if reply.kind is ReplyKind.ACCEPTED or (yield from self._is_awaited(obligation.activity_id)):
            return None
        return (yield from self._insert_answer(obligation.workspace_id, obligation.seq, reply))

    def notify_dead(self, message: DeliveryState, reason: str) -> CommandSteps[None]:
        """Notify the sender of a request that was given up.

        People have the list of dead letters; delegations and approvals notify their callers themselves."""
        if message.kind != MessageKind.PEER or (yield from self._is_awaited(message.id)):
            return WriteSet(None)
        return (yield from self._notify_sender(message, reason))

    def _is_awaited(self, message_id: str) -> Generator[StepRequest, Any, bool]:
        return (yield from wait_deadline(message_id)) > self._clock.now()  # control: sender-waits

    def _notify_sender(self, message: DeliveryState, reason: str) -> CommandSteps[None]:
        found = yield from self._find_peer_request(message.workspace_id, message.seq)
        obligation = yield from load_obligation(message.workspace_id, message.seq)
        if found is None or (
            obligation is not None and not obligation.is_open
        ):  # it may have been answered without an ack
            return WriteSet(None)
        _, source = found
        target = self._org.active_workspace(message.workspace_id)
        notice = rules.undelivered_notice(message, target.name, reason, self._limits)
        inserted = yield from self._delegation_messages.insert_system_notice(
            source, target.id, notice.text, notice.details
        )
        return inserted.returning(None) + WriteSet(None, [clear_wait(message.id)])

    def _insert_answer(
        self, workspace_id: str, seq: int, reply: AgentReply
    ) -> Generator[StepRequest, Any, WriteSet[Activity] | None]:
        """Insert an answer as the agent's own tools would have sent it.

        Inbox and chain limits do not apply: the request was admitted when it was sent."""
        found = yield from self._find_peer_request(workspace_id, seq)
        if found is None:
            return None
        inbound, source = found
        metadata: dict[str, Any] = {"in_reply_to": inbound.id}
        is_question = reply.kind is ReplyKind.ASKED
        if reply.kind not in (ReplyKind.ANSWERED, ReplyKind.ASKED):
            metadata["declined"] = True
        reply_parts = reply.parts or ({"kind": "text", "text": reply.text},)
        parts = yield from attachments.replace_forbidden_files(reply_parts, inbound.org_id, workspace_id)
        resolved = yield from attachments.resolve_files(parts, inbound.org_id, workspace_id)
        intent = Intent.REQUEST if is_question else Intent.INFORM
        row = yield from self._build_activity(source, inbound, resolved.parts, metadata, intent)
        inserted = insert_activity(row, resolved.file_ids) + schedule_delivery(source, row)
        return inserted + WriteSet(None, [clear_wait(inbound.id)])

    def insert_question(self, work: DeliveryState, parts: list[dict[str, Any]]) -> CommandSteps[None]:
        """Insert an agent's question about a delegation into its delegator's inbox, as a message that wants an answer.

        Inbox and chain limits do not apply, as for an answer."""
        inbound = yield from load_inbound(work.workspace_id, work.seq)
        source = self._org.workspace(work.source_id or "")
        if inbound is None or source is None or source.removed or source.id == work.workspace_id:
            return WriteSet(None)
        head = {"kind": "text", "text": _QUESTION.format(task_id=work.id)}
        resolved = yield from attachments.resolve_files([head, *parts], inbound.org_id, work.workspace_id)
        # The context of the question is the delegation, whatever context its request had: the answer to the question
        # has it too, and thereby says which task it is about.
        about_task = replace(inbound, context_id=inbound.id)
        metadata = {"in_reply_to": inbound.id}
        row = yield from self._build_activity(source, about_task, resolved.parts, metadata, Intent.REQUEST)
        return (insert_activity(row, resolved.file_ids) + schedule_delivery(source, row)).returning(None)

    def _find_peer_request(
        self, workspace_id: str, seq: int
    ) -> Generator[StepRequest, Any, tuple[InboundMessage, Workspace] | None]:
        """Return a plain request and the other workspace that sent it."""
        inbound = yield from load_inbound(workspace_id, seq)
        if inbound is None or inbound.kind != MessageKind.PEER or inbound.intent != Intent.REQUEST:
            return None
        source = self._org.workspace(inbound.source_id or "")
        return None if source is None or source.removed or source.id == workspace_id else (inbound, source)

    def _build_activity(
        self,
        source: Workspace,
        inbound: InboundMessage,
        parts: list[dict[str, Any]],
        metadata: dict[str, Any],
        intent: Intent,
    ) -> Generator[StepRequest, Any, Activity]:
        draft = build_reply_draft(inbound, parts, metadata)
        message = {**draft.message, "metadata": {**draft.message["metadata"], "intent": intent}}
        draft = replace(draft, message=message, intent=intent)
        found = yield ReadQuery("cause_of", {"workspace_id": inbound.workspace_id, "named": inbound.id})
        link = rules.next_link(Cause(*found[0]), None, None, self._limits) if found else NEW_CHAIN
        activity_id = self._ids.new()
        return (
            yield from received_activity(
                source,
                activity_id,
                self._clock.now(),
                draft.sender,
                draft.text,
                rules.stored_body(draft, MessageKind.PEER, activity_id),
                link=link,
                kind=MessageKind.PEER,
                intent=draft.intent,
                context_id=draft.context_id or activity_id,
            )
        )
