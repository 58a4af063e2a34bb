"""Limits how often progress is written, while agents may report it as often as they like.

Called by `api/delegations/reports.py`; calls the writer of delegations.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from molecule_core.common.clock import Clock
from molecule_core.common.errors import MoleculeError
from molecule_core.delegations.model import Delegation, ProgressReport
from molecule_core.messages.model import Sender

ProgressWriter = Callable[[Delegation, Sender, ProgressReport], Awaitable[Delegation]]
# 0.25 s between two writes of one delegation: live channels send progress no more often.
_MIN_INTERVAL_SECONDS = 0.25
_log = logging.getLogger("molecule.delegations")


class _PendingReport(NamedTuple):
    row: Delegation
    by: Sender
    progress: ProgressReport


class _WriteWindow:
    """Interval after a write, with the newest report made during it and the task that writes that report."""

    def __init__(self) -> None:
        self.newest: _PendingReport | None = None
        self.task: asyncio.Task[None] | None = None


class ProgressThrottle:
    """Writer of the newest report of each delegation, at most four per second.

    Pending reports are only in memory: they are lost with the process, as progress may be.
    """

    def __init__(self, write: ProgressWriter, *, clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._windows: dict[str, _WriteWindow] = {}
        self._closing = asyncio.Event()

    async def report(self, row: Delegation, by: Sender, progress: ProgressReport) -> Delegation:
        """Write a worker's report, now or soon if another was just written. Raises what the writer raises."""
        window = self._windows.get(row.key)
        if window is not None:
            before = ProgressReport() if window.newest is None else window.newest.progress
            window.newest = _PendingReport(row, by, before.merge(progress))
            return row
        window = self._windows[row.key] = _WriteWindow()
        try:
            return await self._write(row, by, progress)
        finally:
            window.task = asyncio.create_task(self._flush_window(row.key, window))

    async def _flush_window(self, key: str, window: _WriteWindow) -> None:
        """Write the newest report after each interval, until there is none."""
        while True:
            await self._clock.wait(self._closing.wait(), _MIN_INTERVAL_SECONDS)
            pending, window.newest = window.newest, None
            if pending is None:
                del self._windows[key]
                return
            try:
                await self._write(*pending)
            except MoleculeError as error:
                _log.warning("progress of delegation %s was not stored: %s", pending.row.id, error)
            except Exception:  # a bug costs one report, not all that follow it
                _log.exception("progress of delegation %s was not stored", pending.row.id)

    def count_open_windows(self) -> int:
        """Return the number of delegations that were just written."""
        return len(self._windows)

    async def close(self) -> None:
        """Write all pending reports."""
        self._closing.set()
        while tasks := [window.task for window in self._windows.values() if window.task is not None]:
            await asyncio.gather(*tasks)
