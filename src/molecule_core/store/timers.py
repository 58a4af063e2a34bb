"""Timers are rows: what is due when, and who is asked. A restart forgets none, a wall-clock jump loses none.

A slice sets one inside its own command (`set_timer`), and is called at the time. Being called is "at least once": the
owner sets the next time, or takes the timer away (`no_timer`), in the command it then runs. Where several processes
share the store, one of them claims what is due by putting it off for a lease; if it dies, the others find it due again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Row, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll

TIMERS_KEY = "timers"
"""The wake-up key to ring when a timer was set."""
# A far-off time is looked at again once a day: no event loop takes a wait of years.
_MAX_SLEEP_SECONDS = 86_400.0
_log = logging.getLogger("molecule.timers")
# After a failed call: long enough not to spin on a broken store, short enough to catch up quickly.
_RETRY_SECONDS = 5.0
# Where processes share the timers: longer than an owner takes, so that no other process calls it meanwhile.
_LEASE_SECONDS = 30.0
# So many of what is due first are looked at together.
_PAGE_ROWS = 100


def set_timer(kind: str, key: str, due: int) -> tuple[str, Params]:
    """The statement that asks to be called at a time; an earlier wish under the same key is replaced."""
    return "set_timer", {"kind": kind, "key": key, "due": due}


def set_timer_if_earlier(kind: str, key: str, due: int) -> tuple[str, Params]:
    """The statement that asks to be called at a time; an earlier wish under the same key stays."""
    return "bring_timer_forward", {"kind": kind, "key": key, "due": due}


def cancel_timer(kind: str, key: str) -> tuple[str, Params]:
    """The statement that takes a wish back."""
    return "forget_timer", {"kind": kind, "key": key}


class TimerWorker:
    """Sleeps until the next timer is due and calls its owner."""

    def __init__(self, store: Store, clock: Clock, wakeups: Notifier) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._owners: dict[str, Callable[[str], Awaitable[None]]] = {}

    def register(self, kind: str, on_due: Callable[[str], Awaitable[None]]) -> None:
        """Names who is called with the key of each due timer of a kind."""
        self._owners[kind] = on_due

    async def run(self) -> None:
        """Runs until the wake-ups close."""
        crash_points.mark_reached("timers.begun")
        while not self._wakeups.closing:
            await self._wakeups.wait_until(TIMERS_KEY, self._poll, _MAX_SLEEP_SECONDS)

    async def _poll(self) -> Poll[bool]:
        """Calls the owners of what is due. One that fails is put off, and so holds up nobody."""
        try:
            rows = await self._store.rows("next_timers", {"count": _PAGE_ROWS})
            due_now = self._filter_due(rows)
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

    def _filter_due(self, rows: Sequence[Row]) -> list[tuple[str, str, int]]:
        return [(kind, key, due) for kind, key, due in rows if due <= self._clock.now()]

    async def _claim_due(self) -> list[tuple[str, str, int]]:
        """What is due and no other process has taken, put off for as long as its owner may take."""

        def decide() -> CommandSteps[list[tuple[str, str, int]]]:
            now = self._clock.now()
            later = now + round(_LEASE_SECONDS * SECOND)
            claimed = yield ReadQuery("due_timers", {"now": now, "count": _PAGE_ROWS})
            writes: list[tuple[str, Params]] = [
                ("put_off_timer", {"kind": kind, "key": key, "due": due, "later": later}) for kind, key, due in claimed
            ]
            return WriteSet([(kind, key, later) for kind, key, _ in claimed], writes)

        return await self._store.run(Command("", (("timers",),), decide))

    async def _call_owner(self, kind: str, key: str) -> bool:
        """Whether the owner of a timer did what it was to do."""
        try:
            await self._owners[kind](key)
            crash_points.mark_reached("timer.done")
        except Exception:
            _log.exception("the owner of a timer failed; it is asked again", extra={"timer": kind})
            return False
        return True

    async def _postpone(self, failed: list[tuple[str, str, int]]) -> None:
        """In the table, where they then stand behind what is due; but not where a new wish came meanwhile."""
        later = self._clock.now() + round(_RETRY_SECONDS * SECOND)
        writes: list[tuple[str, Params]] = [
            ("put_off_timer", {"kind": kind, "key": key, "due": due, "later": later}) for kind, key, due in failed
        ]

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, writes)

        await self._store.run(Command("", (("timers",),), decide))
