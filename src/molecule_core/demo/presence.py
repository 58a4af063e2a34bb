"""That an agent of the company is there: a heartbeat every few seconds, and at once when its work changes.

Above: agent, pushed. Below: client. A beat that is lost is made up by the next.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.clock import Clock

# Three of them fit into the ten seconds after which the demo counts an agent as silent.
BEAT_SECONDS = 3.0
_GONE = (401, 403, 404, 410)


class SeatGone(Exception):
    """The seat was removed, or its token counts no more."""


class Presence:
    """What one agent says of itself."""

    def __init__(self, workspace_id: str, api: Api, clock: Clock) -> None:
        self._id = workspace_id
        self._api = api
        self._clock = clock
        self._started = clock.monotonic()
        self._waiting: tuple[str, ...] = ()
        self._doing: str | None = None
        self._changed = asyncio.Event()

    def waits(self, tasks: Sequence[str]) -> None:
        """What it waits for."""
        if tuple(tasks) != self._waiting:
            self._waiting = tuple(tasks)
            self._changed.set()

    def does(self, task: str | None) -> None:
        """What it is at work on; None: on nothing."""
        if task != self._doing:
            self._doing = task
            self._changed.set()

    async def beat(self) -> None:
        """Says so for ever. Raises SeatGone."""
        while True:
            self._changed.clear()
            with suppress(NoAnswer):
                await self._say()
            await self._clock.wait(self._changed.wait(), BEAT_SECONDS)

    async def _say(self) -> None:
        try:
            await self._api.post("/registry/heartbeat", self._pulse())
        except ApiError as error:
            if error.status in _GONE:
                raise SeatGone(str(error)) from error

    def _pulse(self) -> dict[str, Any]:
        busy = [*self._waiting, *([] if self._doing is None else [self._doing])]
        return {
            "workspace_id": self._id,
            "active_tasks": len(busy),
            "current_task": busy[-1] if busy else None,
            "uptime_seconds": int(self._clock.monotonic() - self._started),
        }
