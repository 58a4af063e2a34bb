"""Tracks which threads are being driven, each at most once at a time.

A thread whose drive failed unexpectedly waits before the next try: the server reports its open turn again at once, and
a persistent error would otherwise use up all requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from molecule_core.agent.async_utils import is_cancelling, sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness

_log = logging.getLogger("molecule.engine")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0


class ActiveDrives:
    """Threads that are being driven. `drive`: drives one thread to the end of its open turn."""

    def __init__(self, drive: Callable[[str], Awaitable[None]], *, clock: Clock, randomness: Randomness) -> None:
        self._drive = drive
        self._clock = clock
        self._randomness = randomness
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._back_offs: dict[str, BackOff] = {}

    def __contains__(self, thread_id: object) -> bool:
        return thread_id in self._tasks

    @property
    def tasks(self) -> list["asyncio.Task[None]"]:
        """Return the running tasks."""
        return list(self._tasks.values())

    def start_drive(self, thread_id: str) -> None:
        """Start to drive a thread that is not driven yet."""
        task = self._tasks[thread_id] = asyncio.create_task(self._run_drive(thread_id))
        task.add_done_callback(partial(self._on_done, thread_id))

    async def wait_for_any(self, thread_ids: Collection[str], seconds: float) -> None:
        """Wait until one of these threads is done, at most `seconds`."""
        running = [task for thread_id, task in self._tasks.items() if thread_id in thread_ids]
        if running:
            await self._clock.wait(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED), seconds)

    def _on_done(self, thread_id: str, _: "asyncio.Task[None]") -> None:
        self._tasks.pop(thread_id, None)

    async def _run_drive(self, thread_id: str) -> None:
        try:
            await self._drive(thread_id)
        except Exception as error:  # an unexpected error must delay only this thread
            if is_cancelling():
                raise
            back_off = self._back_offs.setdefault(thread_id, BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness))
            wait = back_off.next_delay()
            _log.error("thread %s cannot be driven; trying again in %.1f seconds", thread_id, wait, exc_info=error)
            await sleep(self._clock, wait)
        else:
            self._back_offs.pop(thread_id, None)
