"""Reports of progress, as often as agents like, and written no oftener than anybody looks.

Above: `edges/reporting.py`. Below: the writer of delegations.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from molecule_core.delegations.model import Delegation, Progress
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import MoleculeError
from molecule_core.messages.model import Sender

Write = Callable[[Delegation, Sender, Progress], Awaitable[Delegation]]
# Between two writes of one delegation. Channels tell progress no oftener.
_PAUSE_SECONDS = 0.25
_log = logging.getLogger("molecule.delegations")


class _Kept(NamedTuple):
    row: Delegation
    by: Sender
    said: Progress


class _Window:
    """The time behind a write, in which another one waits: what was said last in it, and who writes that."""

    def __init__(self) -> None:
        self.newest: _Kept | None = None
        self.task: asyncio.Task[None] | None = None


class Pace:
    """Writes the newest report of each delegation, at most four a second. What is kept back is in memory alone: it is
    lost with the process, as progress may be."""

    def __init__(self, write: Write, *, clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._windows: dict[str, _Window] = {}
        self._closing = asyncio.Event()

    async def report(self, row: Delegation, by: Sender, said: Progress) -> Delegation:
        """Takes a report of who works on it: written when this returns, or soon if another one just was. Raises as the
        writer does."""
        window = self._windows.get(row.key)
        if window is not None:
            window.newest = _Kept(row, by, said)
            return row
        window = self._windows[row.key] = _Window()
        try:
            return await self._write(row, by, said)
        finally:
            window.task = asyncio.create_task(self._keep(row.key, window))

    async def _keep(self, key: str, window: _Window) -> None:
        """Writes what was said last within each pause, until nothing was."""
        while True:
            await self._clock.wait(self._closing.wait(), _PAUSE_SECONDS)
            kept, window.newest = window.newest, None
            if kept is None:
                del self._windows[key]
                return
            try:
                await self._write(*kept)
            except MoleculeError as error:
                _log.warning("progress of delegation %s was not kept: %s", kept.row.id, error)
            except Exception:  # a mistake of ours costs one report, and not all that follow it
                _log.exception("progress of delegation %s was not kept", kept.row.id)

    def under_way(self) -> int:
        """Delegations of which something was just written."""
        return len(self._windows)

    async def close(self) -> None:
        """Writes what is kept back."""
        self._closing.set()
        while tasks := [window.task for window in self._windows.values() if window.task is not None]:
            await asyncio.gather(*tasks)
