"""Dead letters: messages that were given up, until a person requeues or discards them.

Called by the API and by push results."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotADeadLetter, NotFound
from molecule_core.messages import rules
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery_log import record_ticks
from molecule_core.messages.delivery_state import DeadLetterState, DeliveryFailure, DeliveryState, DeliveryTick
from molecule_core.messages.inbox.acks import ack_rows, inbox_keys, load_delivery_state, load_inbox, save_inbox
from molecule_core.messages.model import MESSAGE_EXPIRY_TIMER, InboxPosition, InboxState
from molecule_core.messages.obligations.transitions import suspend_dead_obligation
from molecule_core.messages.reply_wait import clear_wait
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    Statement,
    StepRequest,
    Store,
    T,
    WriteSet,
    write_only,
)
from molecule_core.store.journal import PUSHES_KEY, answer_key, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.events import MessageDeadPayload, MessageDiscardedPayload, MessageRequeuedPayload


class DeadLetterWriter:
    """Moves messages to the dead letters, requeues and discards them."""

    def __init__(self, store: Store, org: OrgReader, reply_waiters: ReplyWaiters, *, clock: Clock) -> None:
        self._store = store
        self._org = org
        self._reply_waiters = reply_waiters
        self._clock = clock

    async def expire_message(self, activity_id: str) -> None:
        """Expire a message, unless it was acknowledged or requeued. A claimed one gets until its lease ends."""
        rows = await self._store.rows("message_state", {"id": activity_id})
        workspace = self._org.workspace(rows[0][1]) if rows else None
        if workspace is None or workspace.removed:
            writes = [cancel_timer(MESSAGE_EXPIRY_TIMER, activity_id)]
            await self._store.run(Command("", (("timers",),), partial(write_only, WriteSet(None, writes))))
            return
        await self._store.run(
            Command(workspace.org_id, inbox_keys(workspace.id), lambda: self._decide_expire(activity_id))
        )

    def _decide_expire(self, activity_id: str) -> CommandSteps[None]:
        now = self._clock.now()
        state = yield from load_delivery_state(activity_id)
        if state is None:
            return WriteSet(None, [cancel_timer(MESSAGE_EXPIRY_TIMER, activity_id)])
        inbox = yield from load_inbox(state.workspace_id)
        if state.seq <= inbox.acked_seq or state.acked_at is not None or state.requeued:
            return WriteSet(None, [cancel_timer(MESSAGE_EXPIRY_TIMER, activity_id)])
        deadline = max(state.expires_at or now, state.lease_until)
        if deadline > now:
            return WriteSet(None, [set_timer(MESSAGE_EXPIRY_TIMER, activity_id, deadline)], notify=(TIMERS_KEY,))
        return (yield from self.move_to_dead_letters(inbox, state, DeliveryFailure.EXPIRED, state.last_error))

    def move_to_dead_letters(
        self, inbox: InboxState, state: DeliveryState, reason: str, detail: str | None
    ) -> CommandSteps[None]:
        """Stop delivering a message: the ack floor passes it, and its sender is notified."""
        now, workspace_id = self._clock.now(), state.workspace_id
        org_id = self._org.active_workspace(workspace_id).org_id
        position = InboxPosition(state.seq, state.attempt, state.inbound_no)
        regular, requeued_positions = ([], [position]) if state.requeued else ([position], [])
        acked = yield from ack_rows(workspace_id, replace(inbox, dead=inbox.dead + 1), regular, requeued_positions, now)
        details = {"org_id": org_id, "activity_id": state.id, "reason": reason, "detail": detail, "died_at": now}
        row = {"workspace_id": workspace_id, "seq": state.seq, "attempts": state.attempt}
        ticks = record_ticks(workspace_id, DeliveryTick.DEAD, rules.to_ranges([position]), now, reason)
        payload = MessageDeadPayload(state.id, state.seq, reason, detail, state.attempt)
        writes = [*acked.writes, ("save_dead_letter", {**row, **details}), *ticks.writes]
        writes.append(cancel_timer(MESSAGE_EXPIRY_TIMER, state.id))
        writes += suspend_dead_obligation(workspace_id, state.seq)
        if self._org.active_workspace(workspace_id).uses_push:
            writes.append(("schedule_push_check", {"workspace_id": workspace_id, "due": now}))
        events = [_dead_letter_event("MESSAGE_DEAD", state, payload)]
        written = WriteSet(None, writes, events, (*_notify_keys(org_id, state), PUSHES_KEY))
        return written + (yield from self._reply_waiters.notify_dead(state, reason))

    async def requeue(self, workspace_id: str, activity_id: str) -> None:
        """Requeue a dead letter for delivery: the same row, with its attempts counted on and no expiry.

        Repeatable. Raises NotFound, NotADeadLetter, WorkspaceRemoved."""

        def decide() -> CommandSteps[None]:
            state = yield from self._load_dead_letter(workspace_id, activity_id)
            if state.dead_state == DeadLetterState.REQUEUED:
                return WriteSet(None)
            _check_dead(state)
            inbox = yield from load_inbox(workspace_id)
            row = {"workspace_id": workspace_id, "seq": state.seq}
            updated_inbox = replace(inbox, requeued=inbox.requeued + 1, dead=inbox.dead - 1)
            writes: list[Statement] = [
                ("requeue_row", {**row, "attempt": state.dead_attempts}),
                ("set_dead_letter", {**row, "state": DeadLetterState.REQUEUED}),
                ("forget_push", row),
                clear_wait(state.id),
                save_inbox(workspace_id, updated_inbox),
            ]
            if self._org.active_workspace(workspace_id).uses_push:
                writes.append(("schedule_push_check", {"workspace_id": workspace_id, "due": self._clock.now()}))
            event = _dead_letter_event("MESSAGE_REQUEUED", state, MessageRequeuedPayload(state.id, state.seq))
            return WriteSet(
                None,
                writes,
                [event],
                (*_notify_keys(self._org.active_workspace(workspace_id).org_id, state), PUSHES_KEY),
            )

        await self._store.run(self._inbox_command(workspace_id, decide))

    async def discard(self, workspace_id: str, activity_id: str) -> None:
        """Discard a dead letter. Repeatable. Raises NotFound, NotADeadLetter, WorkspaceRemoved."""

        def decide() -> CommandSteps[None]:
            state = yield from self._load_dead_letter(workspace_id, activity_id)
            if state.dead_state == DeadLetterState.DISCARDED:
                return WriteSet(None)
            _check_dead(state)
            row = {"workspace_id": workspace_id, "seq": state.seq, "state": DeadLetterState.DISCARDED}
            event = _dead_letter_event("MESSAGE_DISCARDED", state, MessageDiscardedPayload(state.id, state.seq))
            return WriteSet(
                None,
                [("set_dead_letter", row)],
                [event],
                _notify_keys(self._org.active_workspace(workspace_id).org_id, state),
            )

        await self._store.run(self._inbox_command(workspace_id, decide))

    def _load_dead_letter(self, workspace_id: str, activity_id: str) -> Generator[StepRequest, Any, DeliveryState]:
        state = yield from load_delivery_state(activity_id)
        if state is None or state.workspace_id != workspace_id or state.dead_state is None:
            raise NotFound(what="dead letter")
        return state

    def _inbox_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        return Command(self._org.active_workspace(workspace_id).org_id, inbox_keys(workspace_id), decide)


def _check_dead(state: DeliveryState) -> None:
    if state.dead_state != DeadLetterState.DEAD:
        raise NotADeadLetter(state=state.dead_state)


def _notify_keys(org_id: str, state: DeliveryState) -> tuple[str, ...]:
    return log_key(state.workspace_id), org_key(org_id), answer_key(state.id)


def _dead_letter_event(name: str, state: DeliveryState, payload: msgspec.Struct) -> JournalEvent:
    return JournalEvent(name, state.workspace_id, "message", state.id, 0, msgspec.json.encode(payload))
