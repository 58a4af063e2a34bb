"""The silence watch: what is owed and not answered in time is asked for once more, and then overdue for all to see.

One timer for each workspace that owes something, never one for each message. Above: server.py, which names it as the
owner of those timers. Below: owing, settling, obligations. docs/obligations.md.
"""

from collections.abc import Generator
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.model import (
    REQUEUED,
    Handout,
    Inbox,
    Place,
)
from molecule_core.messages.obligations import (
    NO_REMINDER,
    SILENCE,
    Facts,
    Obligation,
    due_at,
    joined,
    missed,
    owes_key,
    put_off,
)
from molecule_core.messages.owing import Owing
from molecule_core.messages.patience import forgotten
from molecule_core.messages.pushed import Happened
from molecule_core.messages.settling import handout, inbox_keys, inbox_of, save_inbox, settle
from molecule_core.messages.ticks import Statement
from molecule_core.org.model import PUSH, Pulse, Status, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, WriteSet
from molecule_core.store.journal import PUSHES, log_key, org_key
from molecule_core.store.timers import TIMERS, no_timer, timer

# What falls due together is looked at in pieces, so that a crowd of unanswered messages holds up nobody for long.
_TOGETHER = 100
_MOST_PIECES = 20


class Next(StrEnum):
    """What happens to an obligation whose time has come."""

    LATER = "later"
    """Its agent is at work."""
    REMIND = "remind"
    """Its message is handed over once more."""
    WAIT = "wait"
    """No reminder is possible now; it has as much time as with one."""
    OVERDUE = "overdue"
    """It has had all its time."""


def next_of(owed: Obligation, *, at_work: bool, may_remind: bool) -> Next:
    """What happens to an obligation whose time has come: `at_work`: somebody is seen to work on it; `may_remind`: its
    agent can be reminded, and is not reminded of something else already."""
    if at_work:
        return Next.LATER
    if owed.reminded_at is not None:
        return Next.OVERDUE
    return Next.REMIND if may_remind else Next.WAIT


def is_at_work(owed: Obligation, held: Handout | None, seat: Workspace, pulse: Pulse, now: int, limits: Limits) -> bool:
    """Whether somebody is seen to work on a message: its push is under way; or its agent said not long ago that it is
    busy, which counts for so long after the hand-over. One that is paused has no time to answer in."""
    if seat.status is Status.PAUSED:
        return True
    if seat.delivery_mode == PUSH and held is not None and held.acked_at is None and held.lease_until > now:
        return True
    return rules.is_busy(pulse, now, limits) and now < owed.handed_at + limits.reply_work_seconds * SECOND


class Silence:
    """Watches. Where agents are not told how to answer they are not reminded either."""

    def __init__(self, store: Store, org: OrgReader, owing: Owing, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._owing = owing
        self._clock = clock
        self._limits = limits

    async def on_due(self, workspace_id: str) -> None:
        """Something that a workspace owes may be due; looks after all that is, and when to look again."""
        self._owing.rang(workspace_id)
        for _ in range(_MOST_PIECES):
            due = await self._store.rows(
                "obligations_due", {"workspace_id": workspace_id, "now": self._clock.now(), "count": _TOGETHER}
            )
            if not due or not await self._look_after(workspace_id, [Obligation(*row) for row in due]):
                break
        seat = self._org.workspace(workspace_id)
        keys = inbox_keys(workspace_id)
        await self._store.run(Command(seat.org_id if seat else "", keys, partial(self._setting, workspace_id)))

    async def _look_after(self, workspace_id: str, due: list[Obligation]) -> bool:
        """Whether the workspace is still there."""
        seat = self._org.workspace(workspace_id)
        if seat is None or seat.removed:
            return False
        sources = dict.fromkeys(each.source_id for each in due)
        keys = (*inbox_keys(workspace_id), *(owes_key(workspace_id, each) for each in sources))
        await self._store.run(Command(seat.org_id, keys, partial(self._falling_due, workspace_id, frozenset(sources))))
        return True

    def _setting(self, workspace_id: str) -> Decision[None]:
        """When to look again. Reminders of what is answered are taken back here."""
        seat = self._org.workspace(workspace_id)
        if seat is None or seat.removed:
            return WriteSet(None, [no_timer(SILENCE, workspace_id)])
        # Of what was handed over since it rang, the timer that rang was thought to stand still: it does not any more.
        written: WriteSet[None] = WriteSet(None, [], then=partial(self._owing.rang, workspace_id))
        inbox = yield from inbox_of(workspace_id)
        vain = (yield Read("vain_reminders", {"workspace_id": workspace_id})) if inbox.requeued else []
        now, is_pushed = self._clock.now(), seat.delivery_mode == PUSH
        # A push that is under way is left to its own end, and looked at then.
        under_way = [until for *_, until in vain if is_pushed and until > now]
        freed = [Place(*place) for *place, until in vain if not (is_pushed and until > now)]
        if freed:
            _, writes = yield from settle(workspace_id, inbox, [], freed, now)
            written.writes += writes
        due = (yield Read("next_obligation_due", {"workspace_id": workspace_id}))[0][0]
        next_due = min([*under_way, *([] if due is None else [due])], default=None)
        if next_due is None:
            written.writes.append(no_timer(SILENCE, workspace_id))
        else:
            written.writes.append(timer(SILENCE, workspace_id, next_due))
            written.rings = (TIMERS,)
        return written

    def _falling_due(self, workspace_id: str, sources: frozenset[str | None]) -> Decision[None]:
        seat, now = self._org.workspace(workspace_id), self._clock.now()
        if seat is None or seat.removed:
            return WriteSet(None)
        own = {"workspace_id": workspace_id}
        due = yield Read("obligations_due", {**own, "now": now, "count": _TOGETHER})
        inbox = yield from inbox_of(workspace_id)
        may_remind = self._owing.telling is not None and not (yield Read("reminders_under_way", own))
        written: WriteSet[None] = WriteSet(None, [], [], (org_key(seat.org_id),))
        for owed in (each for each in map(_obligation, due) if each.source_id in sources):
            noted = yield Read("handout", {**own, "seq": owed.seq})
            held = Handout(*noted[0]) if noted else None
            at_work = is_at_work(owed, held, seat, self._org.pulse(workspace_id), now, self._limits)
            step = next_of(owed, at_work=at_work, may_remind=may_remind)
            if step is Next.OVERDUE:
                inbox, facts = yield from self._overdue(owed, held, inbox, now)
            elif step is Next.REMIND:
                inbox, facts = yield from self._reminding(owed, held, inbox, seat, now)
                may_remind = False
            else:
                again = owed.reminded_at if step is Next.LATER else NO_REMINDER
                facts = Facts([put_off(owed, due_at(seat, self._limits, now), again)], [])
            joined(written, facts)
        return written

    def _overdue(
        self, owed: Obligation, held: Handout | None, inbox: Inbox, now: int
    ) -> Generator[Step, Any, tuple[Inbox, Facts]]:
        """Its time is over. A reminder that nobody has come for is taken back: it would only be one more wake-up."""
        facts = self._owing.overdue(owed, now)
        if not owed.reminded_at or held is None or not held.requeued or (yield from _was_given_up(owed)):
            return inbox, facts
        place = Place(owed.seq, held.attempt, owed.inbound_no)
        inbox, freed = yield from settle(owed.workspace_id, inbox, [], [place], now)
        return inbox, facts._replace(writes=[*facts.writes, *freed])

    def _reminding(
        self, owed: Obligation, held: Handout | None, inbox: Inbox, seat: Workspace, now: int
    ) -> Generator[Step, Any, tuple[Inbox, Facts]]:
        """Hands a message over once more: one that was handled waits again, as a dead letter does that was asked for;
        one that is held is let go."""
        writes: list[Statement] = [put_off(owed, due_at(seat, self._limits, now), now), missed(seat.id)]
        is_handled = owed.seq <= inbox.acked_seq or (held is not None and held.acked_at is not None)
        if (held is not None and held.requeued) or not is_handled:
            if held is not None and held.lease_until > now:
                writes.append(handout(seat.id, owed.seq, held.attempt, now, None))
        else:
            attempt = held.attempt if held is not None else (yield from _attempts_of(owed))
            inbox = replace(inbox, requeued=inbox.requeued + 1)
            row = {"workspace_id": seat.id, "seq": owed.seq}
            writes += [("requeue_handout", {**row, "attempt": max(1, attempt)}), save_inbox(seat.id, inbox)]
            writes += [("forget_push", row), forgotten(owed.activity_id)]
        rings: tuple[str, ...] = (log_key(seat.id),)
        if seat.delivery_mode == PUSH:
            writes.append(("wake_target", {"workspace_id": seat.id, "due": now}))
            rings += (PUSHES,)
        return inbox, Facts(writes, [], rings)


def _obligation(row: Any) -> Obligation:
    return Obligation(*row)


def _attempts_of(owed: Obligation) -> Generator[Step, Any, int]:
    """How often a message was handed out whose hand-outs need not be known any more: it was handled."""
    wish = {"workspace_id": owed.workspace_id, "no": owed.inbound_no, "widest": rules.WIDEST, "most": 1}
    rows = yield Read("handovers_of", wish)
    return max((Happened(*row).attempt for row in rows), default=0)


def _was_given_up(owed: Obligation) -> Generator[Step, Any, bool]:
    """Whether it waits because a person asked for it."""
    rows = yield Read("was_dead_letter", {"workspace_id": owed.workspace_id, "seq": owed.seq})
    return bool(rows) and rows[0][0] == REQUEUED
