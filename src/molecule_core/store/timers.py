"""Timers are rows: what is due when, and who is asked. A restart forgets none, a wall-clock jump loses none.

A slice sets one inside its own command (`set_timer`), and is called at the time. Being called is "at least once": the
owner sets the next time, or a time that never comes, in the command it then runs.
"""

import logging
from collections.abc import Awaitable, Callable

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.store.database import Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups

TIMERS = "timers"
"""The wake-up key to ring when a timer was set."""
# A far-off time is looked at again once a day: no event loop takes a wait of years.
_LONGEST_SLEEP_SECONDS = 86_400.0
_log = logging.getLogger("molecule.timers")
# After a failed call: long enough not to spin on a broken store, short enough to catch up quickly.
_RETRY_SECONDS = 5.0


def timer(kind: str, key: str, due: int) -> tuple[str, Params]:
    """The statement that asks to be called at a time; an earlier wish under the same key is replaced."""
    return "set_timer", {"kind": kind, "key": key, "due": due}


class Timers:
    """Sleeps until the next timer is due and calls its owner."""

    def __init__(self, store: Store, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._owners: dict[str, Callable[[str], Awaitable[None]]] = {}

    def owner(self, kind: str, on_due: Callable[[str], Awaitable[None]]) -> None:
        """Names who is called with the key of each due timer of a kind."""
        self._owners[kind] = on_due

    async def work(self) -> None:
        """Runs until the wake-ups close."""
        while not self._wakeups.closing:
            await self._wakeups.until(TIMERS, self._look, _LONGEST_SLEEP_SECONDS)

    async def _look(self) -> Look[bool]:
        rows = await self._store.rows("next_timers", {"count": 1})
        if not rows:
            return Look(None)
        kind, key, due = rows[0]
        early = (due - self._clock.now()) / SECOND
        if early > 0:
            return Look(None, again_in=early)
        try:
            await self._owners[kind](key)
        except Exception:
            _log.exception("a timer's owner failed; it is asked again")
            return Look(None, again_in=_RETRY_SECONDS)
        return Look(found=True)
