"""Dead letters: messages that were given up, with a reason, until a person requeues or discards them.

Above: the edges, `pushing` of this slice. Below: askers, settling, rules, store.
"""

from collections.abc import Callable, Generator
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import NotDead, NotFound
from molecule_core.messages import rules
from molecule_core.messages.askers import Askers
from molecule_core.messages.model import (
    DEAD,
    DISCARDED,
    EXPIRED,
    EXPIRY,
    REQUEUED,
    Inbox,
    Place,
)
from molecule_core.messages.obligations import given_up, joined
from molecule_core.messages.patience import forgotten
from molecule_core.messages.pushed import MessageState
from molecule_core.messages.settling import inbox_keys, inbox_of, save_inbox, settle, state_of
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Step, Store, T, WriteSet
from molecule_core.store.journal import PUSHES, answer_key, log_key, org_key
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.wire.events import MessageDead, MessageDiscarded, MessageRequeued


class Letters:
    """Gives messages up, and brings them back."""

    def __init__(self, store: Store, org: OrgReader, askers: Askers, *, clock: Clock) -> None:
        self._store = store
        self._org = org
        self._askers = askers
        self._clock = clock

    async def expire(self, activity_id: str) -> None:
        """The life of a message is over: it dies, unless it was handled or asked for again. One that is handed out at
        this moment gets until the end of its lease."""
        rows = await self._store.rows("message_state", {"id": activity_id})
        seat = self._org.workspace(rows[0][1]) if rows else None
        if seat is None or seat.removed:
            writes = [no_timer(EXPIRY, activity_id)]
            await self._store.run(Command("", (("timers",),), lambda: _only(writes)))
            return
        await self._store.run(Command(seat.org_id, inbox_keys(seat.id), lambda: self._expiring(activity_id)))

    def _expiring(self, activity_id: str) -> Decision[None]:
        now = self._clock.now()
        state = yield from state_of(activity_id)
        if state is None:
            return WriteSet(None, [no_timer(EXPIRY, activity_id)])
        inbox = yield from inbox_of(state.workspace_id)
        if state.seq <= inbox.acked_seq or state.acked_at is not None or state.requeued:
            return WriteSet(None, [no_timer(EXPIRY, activity_id)])
        end = max(state.expires_at or now, state.lease_until)
        if end > now:
            return WriteSet(None, [timer(EXPIRY, activity_id, end)], rings=(TIMERS,))
        return (yield from self.dying(inbox, state, EXPIRED, state.last_error))

    def dying(self, inbox: Inbox, state: MessageState, reason: str, detail: str | None) -> Decision[None]:
        """Gives a message up: nobody is handed it any more, the floor goes past it, and who asked hears of it."""
        now, workspace_id = self._clock.now(), state.workspace_id
        org_id = self._org.living(workspace_id).org_id
        place = Place(state.seq, state.attempt, state.no)
        plain, again = ([], [place]) if state.requeued else ([place], [])
        _, writes = yield from settle(workspace_id, replace(inbox, dead=inbox.dead + 1), plain, again, now)
        letter = {"org_id": org_id, "activity_id": state.id, "reason": reason, "detail": detail, "died_at": now}
        row = {"workspace_id": workspace_id, "seq": state.seq, "attempts": state.attempt}
        noted, _told = ticked(workspace_id, DEAD, rules.spans([place]), now, reason)
        told = MessageDead(state.id, state.seq, reason, detail, state.attempt)
        writes += [("save_dead_letter", {**row, **letter}), *noted, no_timer(EXPIRY, state.id)]
        writes += given_up(workspace_id, state.seq)
        if self._org.living(workspace_id).delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": workspace_id, "due": now}))
        events = [_event("MESSAGE_DEAD", state, told)]
        written = WriteSet(None, writes, events, (*_rings(org_id, state), PUSHES))
        return joined(written, (yield from self._askers.given_up(state, reason)))

    async def requeue(self, workspace_id: str, activity_id: str) -> None:
        """Hands a dead letter out again: the same row, wherever it stands, with its attempts counted on. It does not
        expire any more. Asking again changes nothing. Raises NotFound, NotDead, WorkspaceRemoved."""

        def decide() -> Decision[None]:
            state = yield from self._letter(workspace_id, activity_id)
            if state.dead_state == REQUEUED:
                return WriteSet(None)
            _check_dead(state)
            inbox = yield from inbox_of(workspace_id)
            row = {"workspace_id": workspace_id, "seq": state.seq}
            waits = replace(inbox, requeued=inbox.requeued + 1, dead=inbox.dead - 1)
            writes: list[Statement] = [
                ("requeue_handout", {**row, "attempt": state.dead_attempts}),
                ("set_dead_letter", {**row, "state": REQUEUED}),
                ("forget_push", row),
                forgotten(state.id),
                save_inbox(workspace_id, waits),
            ]
            if self._org.living(workspace_id).delivery_mode == PUSH:
                writes.append(("wake_target", {"workspace_id": workspace_id, "due": self._clock.now()}))
            event = _event("MESSAGE_REQUEUED", state, MessageRequeued(state.id, state.seq))
            return WriteSet(None, writes, [event], (*_rings(self._org.living(workspace_id).org_id, state), PUSHES))

        await self._store.run(self._on_inbox(workspace_id, decide))

    async def discard(self, workspace_id: str, activity_id: str) -> None:
        """Is done with a dead letter for good. Asking again changes nothing. Raises NotFound, NotDead,
        WorkspaceRemoved."""

        def decide() -> Decision[None]:
            state = yield from self._letter(workspace_id, activity_id)
            if state.dead_state == DISCARDED:
                return WriteSet(None)
            _check_dead(state)
            row = {"workspace_id": workspace_id, "seq": state.seq, "state": DISCARDED}
            event = _event("MESSAGE_DISCARDED", state, MessageDiscarded(state.id, state.seq))
            return WriteSet(
                None, [("set_dead_letter", row)], [event], _rings(self._org.living(workspace_id).org_id, state)
            )

        await self._store.run(self._on_inbox(workspace_id, decide))

    def _letter(self, workspace_id: str, activity_id: str) -> Generator[Step, Any, MessageState]:
        state = yield from state_of(activity_id)
        if state is None or state.workspace_id != workspace_id or state.dead_state is None:
            raise NotFound(what="dead letter")
        return state

    def _on_inbox(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        return Command(self._org.living(workspace_id).org_id, inbox_keys(workspace_id), decide)


def _check_dead(state: MessageState) -> None:
    if state.dead_state != DEAD:
        raise NotDead(state=state.dead_state)


def _rings(org_id: str, state: MessageState) -> tuple[str, ...]:
    return log_key(state.workspace_id), org_key(org_id), answer_key(state.id)


def _event(name: str, state: MessageState, payload: msgspec.Struct) -> Event:
    return Event(name, state.workspace_id, "message", state.id, 0, msgspec.json.encode(payload))


def _only(writes: list[Statement]) -> Decision[None]:
    yield from ()
    return WriteSet(None, writes)
