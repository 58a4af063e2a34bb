"""Reports of progress, as often as agents like, and written no oftener than anybody looks.

Above: `api/delegations/reporting.py`. Below: the writer of delegations.
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
# Between two writes of one delegation. Channels tell progress no oftener.
_MIN_INTERVAL_SECONDS = 0.25
_log = logging.getLogger("molecule.delegations")


class _PendingReport(NamedTuple):
    row: Delegation
    by: Sender
    progress: ProgressReport


class _WriteWindow:
    """The time behind a write, in which another one waits: what was said last in it, and who writes that."""

    def __init__(self) -> None:
        self.newest: _PendingReport | None = None
        self.task: asyncio.Task[None] | None = None


class ProgressThrottle:
    """Writes the newest report of each delegation, at most four a second. What is kept back is in memory alone: it is
    lost with the process, as progress may be."""

    def __init__(self, write: ProgressWriter, *, clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._windows: dict[str, _WriteWindow] = {}
        self._closing = asyncio.Event()

    async def report(self, row: Delegation, by: Sender, progress: ProgressReport) -> Delegation:
        """Takes a report of who works on it: written when this returns, or soon if another one just was. Raises as the
        writer does."""
        window = self._windows.get(row.key)
        if window is not None:
            window.newest = _PendingReport(row, by, progress)
            return row
        window = self._windows[row.key] = _WriteWindow()
        try:
            return await self._write(row, by, progress)
        finally:
            window.task = asyncio.create_task(self._flush_window(row.key, window))

    async def _flush_window(self, key: str, window: _WriteWindow) -> None:
        """Writes what was said last within each pause, until nothing was."""
        while True:
            await self._clock.wait(self._closing.wait(), _MIN_INTERVAL_SECONDS)
            pending, window.newest = window.newest, None
            if pending is None:
                del self._windows[key]
                return
            try:
                await self._write(*pending)
            except MoleculeError as error:
                _log.warning("progress of delegation %s was not kept: %s", pending.row.id, error)
            except Exception:  # a mistake of ours costs one report, and not all that follow it
                _log.exception("progress of delegation %s was not kept", pending.row.id)

    def open_windows(self) -> int:
        """Delegations of which something was just written."""
        return len(self._windows)

    async def close(self) -> None:
        """Writes what is kept back."""
        self._closing.set()
        while tasks := [window.task for window in self._windows.values() if window.task is not None]:
            await asyncio.gather(*tasks)
