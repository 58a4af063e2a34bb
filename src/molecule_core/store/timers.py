"""Timers are rows: what is due when, and which handler is called. They survive restarts and wall-clock jumps.

A package sets a timer inside its own command (`set_timer`) and its handler is called at that time. The call is "at
least once": the handler sets the next time or removes the timer (`cancel_timer`) in the command that it then runs.
Where processes share the store, one of them claims due timers by postponing them for a lease; if it dies, the others
find them due again.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, Store, WriteSet, write_only
from molecule_core.store.wakeups import Notifier, Poll

TIMERS_KEY = "timers"
"""The wake-up key to notify when a timer was set."""
# Distant timers are polled once a day: an event loop cannot wait for years.
_MAX_SLEEP_SECONDS = 86_400.0
_log = logging.getLogger("molecule.timers")
# After a failed call: long enough not to spin on a broken store, short enough to catch up quickly.
_RETRY_SECONDS = 5.0
# Where processes share timers: longer than a handler takes, so that no other process calls it meanwhile.
_LEASE_SECONDS = 30.0
# Timers handled in one poll.
_PAGE_ROWS = 100


def set_timer(kind: str, key: str, due: int) -> Statement:
    """Return the statement that sets a timer; an earlier time under the same key is replaced."""
    return "set_timer", {"kind": kind, "key": key, "due": due}


def set_timer_if_earlier(kind: str, key: str, due: int) -> Statement:
    """Return the statement that sets a timer; an earlier time under the same key is kept."""
    return "bring_timer_forward", {"kind": kind, "key": key, "due": due}


def cancel_timer(kind: str, key: str) -> Statement:
    """Return the statement that removes a timer."""
    return "forget_timer", {"kind": kind, "key": key}


class TimerWorker:
    """Sleeps until the next timer is due and calls its handler."""

    def __init__(self, store: Store, clock: Clock, wakeups: Notifier) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._owners: dict[str, Callable[[str], Awaitable[None]]] = {}
        self._failing: set[tuple[str, str]] = set()

    def register(self, kind: str, on_due: Callable[[str], Awaitable[None]]) -> None:
        """Register the handler that is called with the key of each due timer of a kind."""
        self._owners[kind] = on_due

    async def run(self) -> None:
        """Run until the wake-ups close."""
        crash_points.mark_reached("timers.begun")
        while not self._wakeups.closing:
            await self._wakeups.wait_until(TIMERS_KEY, self._poll, _MAX_SLEEP_SECONDS)

    async def _poll(self) -> Poll[bool]:
        """Call the handlers of due timers. One that fails is postponed, so that it does not delay others."""
        try:
            rows = await self._store.rows("next_timers", {"count": _PAGE_ROWS})
            due_now = [(kind, key, due) for kind, key, due in rows if due <= self._clock.now()]
            if due_now and self._store.is_shared:
                due_now = await self._claim_due()
            if due_now:
                crash_points.mark_reached("timers.due")
            failed = [row for row in due_now if not await self._call_owner(row[0], row[1])]
            if failed:
                await self._postpone(failed)
        except (StoreUnavailable, ServerBusy):
            return Poll(None, next_poll_in=_RETRY_SECONDS)
        if due_now:
            return Poll(result=True)
        return Poll(None, next_poll_in=max(0.0, (rows[0][2] - self._clock.now()) / SECOND) if rows else None)

    async def _claim_due(self) -> list[tuple[str, str, int]]:
        """Claim due timers that no other process has claimed, by postponing them for a lease."""

        def decide() -> CommandSteps[list[tuple[str, str, int]]]:
            now = self._clock.now()
            later = now + round(_LEASE_SECONDS * SECOND)
            claimed = yield ReadQuery("due_timers", {"now": now, "count": _PAGE_ROWS})
            writes: list[Statement] = [
                ("postpone_timer", {"kind": kind, "key": key, "due": due, "later": later}) for kind, key, due in claimed
            ]
            return WriteSet([(kind, key, later) for kind, key, _ in claimed], writes)

        return await self._store.run(Command("", (("timers",),), decide))

    async def _call_owner(self, kind: str, key: str) -> bool:
        """Call the handler of a timer; return whether it succeeded."""
        try:
            await self._owners[kind](key)
            crash_points.mark_reached("timer.done")
        except Exception:
            _log.exception("the handler of a timer failed; it is retried", extra={"timer": kind})
            self._failing.add((kind, key))
            return False
        if (kind, key) in self._failing:
            self._failing.discard((kind, key))
            _log.warning("the handler of a timer succeeded again", extra={"timer": kind})
        return True

    async def _postpone(self, failed: list[tuple[str, str, int]]) -> None:
        """Postpone failed timers, behind those that are due; one that was set again meanwhile stays as it is."""
        later = self._clock.now() + round(_RETRY_SECONDS * SECOND)
        writes: list[Statement] = [
            ("postpone_timer", {"kind": kind, "key": key, "due": due, "later": later}) for kind, key, due in failed
        ]
        await self._store.run(Command("", (("timers",),), partial(write_only, WriteSet(None, writes))))
