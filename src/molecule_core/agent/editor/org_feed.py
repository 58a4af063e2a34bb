"""Follows the live channel of the person's organisation, over restarts of the server."""

import asyncio
import logging
from typing import Any, Protocol

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.editor.account import PersonAccount
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.agent")
_HELLO = "hello"
_DENIED = (401, 403)


class FeedListener(Protocol):
    """What is called with the events of the organisation. Neither call may block."""

    def handle_event(self, name: str, workspace_id: str, payload: dict[str, Any]) -> None:
        """Handle an event."""

    def handle_connected(self) -> None:
        """Handle a new connection: what happened before it was missed."""


class OrgFeed:
    """The live channel. Events are hints and live text: what lasts is read from the server after each connection."""

    def __init__(self, account: PersonAccount, clock: Clock, back_off: BackOff) -> None:
        self._account = account
        self._clock = clock
        self._back_off = back_off
        self._listeners: list[FeedListener] = []
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        """Set while the channel is open."""

    def start(self) -> None:
        """Begin to follow, unless it is followed already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """End the channel."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, listener: FeedListener) -> None:
        """Call a listener with the events from now on."""
        self._listeners.append(listener)

    def remove(self, listener: FeedListener) -> None:
        """Call a listener no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_channel()
            except ApiError as error:
                if error.status in _DENIED:
                    _log.error("the live channel is refused: %s", error)
                    return
                _log.warning("the live channel failed: %s", error)
            except NoAnswerError as error:
                _log.warning("the live channel broke: %s", error)
            finally:
                self.connected.clear()
            await sleep(self._clock, self._back_off.next_delay())

    async def _read_channel(self) -> None:
        async for frame in self._account.api.events(**self._account.org_query):
            if frame.get("type") == _HELLO:
                self._back_off.reset()
                self.connected.set()
                for listener in tuple(self._listeners):
                    listener.handle_connected()
            elif isinstance(frame.get("event"), str):
                payload = frame.get("payload")
                for listener in tuple(self._listeners):
                    listener.handle_event(
                        frame["event"], str(frame.get("workspace_id", "")), payload if isinstance(payload, dict) else {}
                    )
