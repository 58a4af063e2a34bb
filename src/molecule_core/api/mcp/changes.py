"""Follows the journal for MCP clients: a subscriber of the live hub that passes on the ids of what has changed.

Called by `api/mcp/tool_host.py`; calls `api/live/hub.py`, which ends it with the credential, the workspace or the
server.
"""

import asyncio
from collections.abc import Callable

import msgspec

from molecule_core.access.model import Caller
from molecule_core.api.live.hub import DISCONNECT_REASONS, LiveHub
from molecule_core.api.live.subscribers import ChannelWork, LiveSubscriber
from molecule_core.common.clock import Clock
from molecule_core.org.reader import OrgReader
from molecule_core.tools.mcp_features import Changes, changed_ids, coalesce
from molecule_core.views.feed import EncodedEvent

# Unread sets of ids; with more, all that is followed is checked instead.
_MAX_QUEUED = 1000


class ChangeTransport:
    """Transport of one follower: what the hub writes is queued in memory. Implements `EventTransport`."""

    kind = "mcp"
    can_resubscribe = False
    has_snapshot = False
    encoding: object = "changes"

    def __init__(self, live: LiveHub) -> None:
        self.queue: asyncio.Queue[frozenset[str] | None] = asyncio.Queue()
        self._live = live
        self._task: asyncio.Task[None] | None = None

    def encode_event(self, _prev: int, event: EncodedEvent) -> bytes:
        """Return the payload, which holds the ids."""
        return event.payload

    def encode_control(self, _frame: msgspec.Struct, _at: int) -> bytes:
        """Return an empty object: after the greeting, or where events are missing, anything may have changed."""
        return b"{}"

    def encode_ping(self, _sent: int) -> bytes:
        """Return nothing: there is no connection to keep alive."""
        return b""

    def write(self, data: bytes) -> None:
        """Queue the ids of an event."""
        if not data:
            return
        ids = frozenset[str]() if data == b"{}" else changed_ids(msgspec.json.decode(data))
        if data != b"{}" and not ids:
            return
        if self.queue.qsize() >= _MAX_QUEUED:
            while not self.queue.empty():
                self.queue.get_nowait()
            ids = frozenset()
        self.queue.put_nowait(ids)

    def unread_bytes(self) -> int:
        """Return 0: the queue is short."""
        return 0

    def delivered_bytes(self) -> int:
        """Return 0, as nothing is unread."""
        return 0

    async def wait_drained(self) -> None:
        """Return at once."""

    def replace_work(self, work: Callable[[], ChannelWork]) -> None:
        """Run the work of the hub for this subscriber."""
        self.stop()
        self._task = asyncio.create_task(work())

    def disconnect(self, code: int, _reason: str) -> None:
        """End the follower."""
        self._live.disconnects[DISCONNECT_REASONS[code]] += 1
        self.queue.put_nowait(None)

    def stop(self) -> None:
        """Cancel the work of the hub."""
        if self._task is not None:
            self._task.cancel()


class JournalChanges:
    """Follows the journal as its live channels do, within the same limits."""

    def __init__(self, live: LiveHub, org: OrgReader, clock: Clock) -> None:
        self._live = live
        self._org = org
        self._clock = clock

    def follow(self, caller: Caller, credential: str) -> Changes:
        """Follow the journal, at most so often as what changes may be read."""
        return coalesce(self._follow(caller, credential), self._clock)

    async def _follow(self, caller: Caller, credential: str) -> Changes:
        """Yield the ids of what changes, until the credential, the workspace or the server ends.

        Yields nothing if the credential has too many live channels."""
        transport = ChangeTransport(self._live)
        subscriber = LiveSubscriber(caller, self._org.active_workspace(caller.id).org_id, transport, credential)
        closing = asyncio.create_task(self._live.wait_closing())
        closing.add_done_callback(lambda _: transport.queue.put_nowait(None))
        try:
            if not self._live.count_channel(subscriber):
                return
            await self._live.open(subscriber)
            while (ids := await transport.queue.get()) is not None:
                yield ids
        finally:
            closing.cancel()
            transport.stop()
            self._live.remove_subscriber(subscriber)
