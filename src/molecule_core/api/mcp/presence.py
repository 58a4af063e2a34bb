"""Records the use of the MCP endpoint as presence of the workspace's agent.

At each message, and at intervals while a request of the workspace is open: an agent that waits for a message is online.
Called by `api/mcp/routes.py`; calls the org writer.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol

from molecule_core.api.live.transient_events import clock_sleep
from molecule_core.common.clock import Clock
from molecule_core.common.errors import MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.org.rules import PRESENCES_PER_SILENCE

_log = logging.getLogger("molecule.mcp")


class PresenceRecorder(Protocol):
    """Writer of presence."""

    def record_presence(self, workspace_id: str, tools: list[Any] | None = None) -> Awaitable[None]:
        """Record that an agent uses its workspace, and the tools that it has loaded."""


class EndpointPresence:
    """Presence of the agents that use the endpoint."""

    def __init__(
        self,
        recorder: PresenceRecorder,
        open_workspace_ids: Callable[[], Collection[str]],
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        """Initialize with `open_workspace_ids`, which returns the workspaces that have a request or a stream open."""
        self._recorder = recorder
        self._open_workspace_ids = open_workspace_ids
        self._clock = clock
        self._interval_seconds = limits.silence_seconds / PRESENCES_PER_SILENCE
        self._refresh_task: asyncio.Task[None] | None = None

    async def record_use(self, workspace_id: str, tools: list[Any] | None = None) -> None:
        """Record a use. A failure is logged only: what the agent asked for may still work."""
        try:
            await self._recorder.record_presence(workspace_id, tools)
        except MoleculeError as error:
            _log.warning("the presence of workspace %s was not recorded: %s", workspace_id, error.text)

    def keep_fresh(self) -> None:
        """Record the open workspaces at intervals, until none is open."""
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = asyncio.create_task(self._refresh_loop())

    async def _refresh_loop(self) -> None:
        while self._open_workspace_ids():
            await clock_sleep(self._clock, self._interval_seconds)
            for each in self._open_workspace_ids():
                await self.record_use(each)

    async def close(self) -> None:
        """Stop the task."""
        if self._refresh_task is not None:
            self._refresh_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refresh_task
