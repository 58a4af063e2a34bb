"""Sends heartbeats of a demo agent: every few seconds, and at once when its task changes.

A lost heartbeat is made up for by the next."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock

# 3 s: three fit into the 10 s after which the demo counts an agent as silent.
HEARTBEAT_SECONDS = 3.0
_GONE = (401, 403, 404, 410)


class WorkspaceLostError(Exception):
    """The workspace was removed, or its token is no longer valid."""


class HeartbeatSender:
    """Sends the heartbeats of one agent."""

    def __init__(self, workspace_id: str, api: ApiClient, clock: Clock) -> None:
        self._id = workspace_id
        self._api = api
        self._clock = clock
        self._started = clock.monotonic()
        self._waiting: tuple[str, ...] = ()
        self._current_task: str | None = None
        self._changed = asyncio.Event()

    def set_waiting(self, tasks: Sequence[str]) -> None:
        """Set the tasks that the agent waits for."""
        if tuple(tasks) != self._waiting:
            self._waiting = tuple(tasks)
            self._changed.set()

    def set_current_task(self, task: str | None) -> None:
        """Set the current task; None: no task."""
        if task != self._current_task:
            self._current_task = task
            self._changed.set()

    async def send_heartbeats(self) -> None:
        """Send heartbeats for ever. Raises SeatLostError."""
        while True:
            self._changed.clear()
            with suppress(NoAnswerError):
                await self._send_heartbeat()
            await self._clock.wait(self._changed.wait(), HEARTBEAT_SECONDS)

    async def _send_heartbeat(self) -> None:
        try:
            await self._api.post("/registry/heartbeat", self._heartbeat_body())
        except ApiError as error:
            if error.status in _GONE:
                raise WorkspaceLostError(str(error)) from error

    def _heartbeat_body(self) -> dict[str, Any]:
        busy = [*self._waiting, *([] if self._current_task is None else [self._current_task])]
        return {
            "workspace_id": self._id,
            "active_tasks": len(busy),
            "current_task": busy[-1] if busy else None,
            "uptime_seconds": int(self._clock.monotonic() - self._started),
        }
