"""Base class of the live channels: WebSockets and event streams that send a subscriber's events.

Handler of a stream of the server (`api/http/response.py`); calls `api/live/hub.py`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from molecule_core.api.http.response import Channel
from molecule_core.api.live.hub import CLOSE_INTERNAL, CLOSE_LIMIT, DISCONNECT_REASONS, LiveHub
from molecule_core.api.live.subscribers import ChannelWork, LiveSubscriber
from molecule_core.common.errors import StoreUnavailable

_log = logging.getLogger("molecule.live")


class LiveConnection(ABC):
    """Live channel of one subscriber, over a channel of the server. Runs one task at a time for it."""

    kind = "stream"
    can_resubscribe = False
    has_snapshot = True
    _subscriber: LiveSubscriber
    _channel: Channel
    _first_task: "asyncio.Task[None]"
    _current_task: "asyncio.Task[None]"

    def __init__(self, live: LiveHub) -> None:
        self._live = live
        self._next_work: Callable[[], ChannelWork] | None = None
        self.encoding: object = None

    def _start_work(self, channel: Channel, first: Callable[[], ChannelWork]) -> None:
        """Run `first`, which `replace_work` does not interrupt."""
        self._channel = channel
        self.encoding = (type(self), type(channel))
        work = first if self._live.count_channel(self._subscriber) else self._close_surplus
        self._first_task = self._current_task = asyncio.get_running_loop().create_task(self._run_work(work))

    async def _close_surplus(self) -> None:
        self.disconnect(CLOSE_LIMIT, "the limit of live channels of one credential is reached; close one first")

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""
        self._channel.write(data)

    def unread_bytes(self) -> int:
        """Return the number of bytes that the client has not read yet."""
        return self._channel.unread_bytes()

    def delivered_bytes(self) -> int:
        """Return the number of bytes that the client has read."""
        return self._channel.delivered_bytes()

    async def wait_drained(self) -> None:
        """Wait until the client has read nearly everything."""
        await self._channel.wait_drained()

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Cancel the current work of this channel and run this instead. Of several before that, the last one runs."""
        is_replacing = self._next_work is not None
        self._next_work = work
        if not is_replacing:
            self._current_task = asyncio.get_running_loop().create_task(self._run_next(self._current_task))

    async def _run_next(self, previous: "asyncio.Task[None]") -> None:
        if previous is not self._first_task:
            previous.cancel()
        # Both: a cancelled task may not have waited for the first one, which sends the first frame.
        await asyncio.wait((previous, self._first_task))
        work, self._next_work = self._next_work, None
        if work is not None:
            await self._run_work(work)

    async def _run_work(self, work: Callable[[], ChannelWork]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            # Swallowed: a cancelled task keeps its stack with the page it was sending, and this connection, a local of
            # that stack, keeps the task. The garbage collector frees such cycles late.
            return
        except StoreUnavailable:
            self.disconnect(CLOSE_INTERNAL, "the store does not respond; resume")
        except Exception:
            _log.exception("a live channel failed and is closed")
            self.disconnect(CLOSE_INTERNAL, "the server failed; resume")

    def disconnect(self, code: int, reason: str) -> None:
        """Count the reason and close the channel."""
        self._live.disconnects[DISCONNECT_REASONS[code]] += 1
        self._close_protocol(code, reason)

    @abstractmethod
    def _close_protocol(self, code: int, reason: str) -> None:
        """Close the connection in the way of its protocol."""

    def on_lost(self) -> None:
        """Remove the subscriber and cancel its work."""
        self._live.remove_subscriber(self._subscriber)  # control: sink-leaves
        self._next_work = None
        # Both: the current task may wait for the first one, which would register the subscriber again.
        for task in (self._first_task, self._current_task):
            task.cancel()
