"""Watches open obligations: reminds the agent once, then marks the message as overdue.

One timer per workspace with open obligations, never one per message; server/composition.py registers the handler of
these timers. See docs/explanation/obligations.md."""

from collections.abc import Generator
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delivery_state import DeadLetterState, DeliveryNote
from molecule_core.messages.inbox.acks import ack_rows, inbox_keys, load_inbox, save_claim, save_inbox
from molecule_core.messages.model import InboxClaim, InboxPosition, InboxState
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    NO_REMINDER,
    OVERDUE_TIMER,
    Obligation,
    obligation_key,
    reply_due_at,
)
from molecule_core.messages.obligations.transitions import defer_reply, mark_missed
from molecule_core.messages.reply_wait import clear_wait
from molecule_core.org.model import Heartbeat, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, StepRequest, Store, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer

# Due obligations are processed in batches, so that many unanswered messages do not block other work for long.
_OBLIGATION_BATCH = 100
_MAX_BATCHES = 20


class NextStep(StrEnum):
    """The next step of an obligation that is due."""

    EXTEND = "later"
    """The agent is working on it."""
    REMIND = "remind"
    """The message is delivered again."""
    WAIT = "wait"
    """No reminder is possible now; the obligation gets the same time as with one."""
    OVERDUE = "overdue"
    """All its time has passed."""


def next_step(obligation: Obligation, *, is_working: bool, can_remind: bool) -> NextStep:
    """Return the next step of an obligation that is due.

    `is_working`: work on it is visible. `can_remind`: reminders are enabled, and no other one is pending for the
    agent."""
    if is_working:
        return NextStep.EXTEND
    if obligation.reminded_at is not None:
        return NextStep.OVERDUE
    return NextStep.REMIND if can_remind else NextStep.WAIT


def is_at_work(
    obligation: Obligation,
    claim: InboxClaim | None,
    workspace: Workspace,
    heartbeat: Heartbeat,
    now: int,
    limits: Limits,
) -> bool:
    """Return whether work on a message is visible.

    Its push is running, or the agent reported recently that it is busy, which counts for a limited time after delivery.
    A paused or limited agent counts as working, since it has no time to answer."""
    if workspace.holds_mail(now):
        return True
    if workspace.uses_push and claim is not None and claim.acked_at is None and claim.lease_until > now:
        return True
    return rules.is_busy(heartbeat, now, limits) and now < obligation.handed_at + limits.reply_work_seconds * SECOND


class OverdueWatchdog:
    """Reminds agents and marks messages as overdue. Without instructions, there are no reminders."""

    def __init__(self, store: Store, org: OrgReader, ledger: ObligationLedger, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._ledger = ledger
        self._clock = clock
        self._limits = limits

    async def check_due(self, workspace_id: str) -> None:
        """Process the due obligations of a workspace and set the next timer."""
        self._ledger.timer_fired(workspace_id)
        for _ in range(_MAX_BATCHES):
            due = await self._store.rows(
                "obligations_due", {"workspace_id": workspace_id, "now": self._clock.now(), "count": _OBLIGATION_BATCH}
            )
            if not due or not await self._process_due(workspace_id, [Obligation(*row) for row in due]):
                break
        workspace = self._org.workspace(workspace_id)
        keys = inbox_keys(workspace_id)
        await self._store.run(
            Command(workspace.org_id if workspace else "", keys, partial(self._decide_reschedule, workspace_id))
        )

    async def _process_due(self, workspace_id: str, due: list[Obligation]) -> bool:
        """Process a batch; returns whether the workspace still exists."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or workspace.removed:
            return False
        sources = dict.fromkeys(each.source_id for each in due)
        keys = (*inbox_keys(workspace_id), *(obligation_key(workspace_id, each) for each in sources))
        await self._store.run(
            Command(workspace.org_id, keys, partial(self._decide_due, workspace_id, frozenset(sources)))
        )
        return True

    def _decide_reschedule(self, workspace_id: str) -> CommandSteps[None]:
        """Set the next timer. Reminders of answered messages are withdrawn here."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or workspace.removed:
            return WriteSet(None, [cancel_timer(OVERDUE_TIMER, workspace_id)])
        # Obligations opened since the timer fired assumed that it was still pending; from now on they set their own.
        written = WriteSet(None, after_commit=partial(self._ledger.timer_fired, workspace_id))
        inbox = yield from load_inbox(workspace_id)
        answered_reminders = (
            (yield ReadQuery("obsolete_reminders", {"workspace_id": workspace_id})) if inbox.requeued else []
        )
        now, is_pushed = self._clock.now(), workspace.uses_push
        # A running push records its own outcome; check it then.
        in_flight = [until for *_, until in answered_reminders if is_pushed and until > now]
        settled_reminders = [
            InboxPosition(*position) for *position, until in answered_reminders if not (is_pushed and until > now)
        ]
        if settled_reminders:
            written += yield from ack_rows(workspace_id, inbox, [], settled_reminders, now)
        due = (yield ReadQuery("next_obligation_due", {"workspace_id": workspace_id}))[0][0]
        next_due = min([*in_flight, *([] if due is None else [due])], default=None)
        if next_due is None:
            return written + WriteSet(None, [cancel_timer(OVERDUE_TIMER, workspace_id)])
        return written + WriteSet(None, [set_timer(OVERDUE_TIMER, workspace_id, next_due)], notify=(TIMERS_KEY,))

    def _decide_due(self, workspace_id: str, sources: frozenset[str | None]) -> CommandSteps[None]:
        workspace, now = self._org.workspace(workspace_id), self._clock.now()
        if workspace is None or workspace.removed:
            return WriteSet(None)
        workspace_key = {"workspace_id": workspace_id}
        due = yield ReadQuery("obligations_due", {**workspace_key, "now": now, "count": _OBLIGATION_BATCH})
        inbox = yield from load_inbox(workspace_id)
        can_remind = self._ledger.instruction_builder is not None and not (
            yield ReadQuery("reminders_under_way", workspace_key)
        )
        written = WriteSet(None, notify=(org_key(workspace.org_id),))
        for obligation in (each for each in map(_to_obligation, due) if each.source_id in sources):
            records = yield ReadQuery("claim_of_row", {**workspace_key, "seq": obligation.seq})
            claim = InboxClaim(*records[0]) if records else None
            is_working = is_at_work(
                obligation, claim, workspace, self._org.last_heartbeat(workspace_id), now, self._limits
            )
            step = next_step(obligation, is_working=is_working, can_remind=can_remind)
            if step is NextStep.OVERDUE:
                changes = yield from self._mark_overdue(obligation, claim, inbox, now)
            elif step is NextStep.REMIND:
                changes = yield from self._schedule_reminder(obligation, claim, inbox, workspace, now)
                can_remind = False
            else:
                reminded_at = obligation.reminded_at if step is NextStep.EXTEND else NO_REMINDER
                begins_at = max(now, workspace.limited_until or 0)  # the time to answer begins when a limit ends
                due_at = reply_due_at(workspace, self._limits, begins_at)
                changes = WriteSet(inbox, [defer_reply(obligation, due_at, reminded_at)])
            inbox, written = changes.result, written + changes
        return written

    def _mark_overdue(
        self, obligation: Obligation, claim: InboxClaim | None, inbox: InboxState, now: int
    ) -> CommandSteps[InboxState]:
        """Mark an obligation as overdue and withdraw its unclaimed reminder, which would only be one more wake-up."""
        overdue = self._ledger.mark_overdue(obligation, now)
        if (
            not obligation.reminded_at
            or claim is None
            or not claim.requeued
            or (yield from _was_dead_letter(obligation))
        ):
            return overdue.returning(inbox)
        position = InboxPosition(obligation.seq, claim.attempt, obligation.inbound_no)
        withdrawn = yield from ack_rows(obligation.workspace_id, inbox, [], [position], now)
        return overdue.returning(withdrawn.result) + withdrawn

    def _schedule_reminder(
        self, obligation: Obligation, claim: InboxClaim | None, inbox: InboxState, workspace: Workspace, now: int
    ) -> CommandSteps[InboxState]:
        """Deliver a message again as a reminder.

        An acknowledged one is requeued like a dead letter; a claimed one is released."""
        writes: list[Statement] = [
            defer_reply(obligation, reply_due_at(workspace, self._limits, now), now),
            mark_missed(workspace.id),
        ]
        is_handled = obligation.seq <= inbox.acked_seq or (claim is not None and claim.acked_at is not None)
        if (claim is not None and claim.requeued) or not is_handled:
            if claim is not None and claim.lease_until > now:
                writes.append(save_claim(workspace.id, obligation.seq, claim.attempt, now, None))
        else:
            attempt = claim.attempt if claim is not None else (yield from _load_attempts(obligation))
            inbox = replace(inbox, requeued=inbox.requeued + 1)
            row = {"workspace_id": workspace.id, "seq": obligation.seq}
            writes += [("requeue_row", {**row, "attempt": max(1, attempt)}), save_inbox(workspace.id, inbox)]
            writes += [("forget_push", row), clear_wait(obligation.activity_id)]
        notify: tuple[str, ...] = (log_key(workspace.id),)
        if workspace.uses_push:
            writes.append(("schedule_push_check", {"workspace_id": workspace.id, "due": now}))
            notify += (PUSHES_KEY,)
        return WriteSet(inbox, writes, notify=notify)


def _to_obligation(row: Any) -> Obligation:
    return Obligation(*row)


def _load_attempts(obligation: Obligation) -> Generator[StepRequest, Any, int]:
    """Read the number of delivery attempts of an acknowledged message from the delivery log."""
    query = {
        "workspace_id": obligation.workspace_id,
        "no": obligation.inbound_no,
        "widest": rules.MAX_RANGE_WIDTH,
        "most": 1,
    }
    rows = yield ReadQuery("deliveries_of", query)
    return max((DeliveryNote(*row).attempt for row in rows), default=0)


def _was_dead_letter(obligation: Obligation) -> Generator[StepRequest, Any, bool]:
    """Return whether the message is requeued because a person requeued the dead letter."""
    rows = yield ReadQuery("was_dead_letter", {"workspace_id": obligation.workspace_id, "seq": obligation.seq})
    return bool(rows) and rows[0][0] == DeadLetterState.REQUEUED
