"""Wake-ups between the processes of one store: which keys to poll again. They carry no data.

The keys of a group are collected and sent as one notification, at most one at a time; keys that arrive meanwhile go
with the next. A key is sent as a channel id of eight characters, so that nearly any group fits one notification. A lost
notification costs latency only: waiters poll again after `limits.look_again_seconds`.

Called by the server; calls one of two transports, `postgres/notify.py` or `nats.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.store.wakeups import CHANNEL_ID_LENGTH, Notifier, channel_id_of

# PostgreSQL's limit is below 8000 bytes.
MAX_CHANNEL_IDS = 990
_ALL_CHANNELS = "*"
# After a lost connection: almost at once, then with growing pauses; jitter spreads the reconnects of processes.
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
_log = logging.getLogger("molecule.wakeups")


class BusTransportLost(Exception):
    """The connection for wake-ups is lost or cannot be made."""


class BusTransport(Protocol):
    """Connection over which processes notify each other."""

    async def connect(self, on_payload: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        """Connect and listen. Raises BusTransportLost."""

    async def send(self, payload: str) -> None:
        """Notify all processes, including this one. Raises BusTransportLost."""

    async def check(self) -> None:
        """Check that the connection is alive. Raises BusTransportLost."""

    async def close(self) -> None:
        """Close the connection, if there is one."""


class Bus:
    """Publishes wake-ups of this process and applies those of others. `process` is the id of this process."""

    def __init__(
        self,
        transport: BusTransport,
        wakeups: Notifier,
        *,
        process: str,
        clock: Clock,
        randomness: Randomness,
        check_seconds: float,
    ) -> None:
        self.listening = False
        """Whether wake-ups of other processes reach this one now."""
        self._transport = transport
        self._wakeups = wakeups
        self._own_id = channel_id_of(process)
        self._clock = clock
        self._randomness = randomness
        self._check_seconds = check_seconds
        self._pending_ids: set[str] = set()
        self._has_pending = asyncio.Event()
        self._closing = asyncio.Event()
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        """Number of notifications sent."""

    async def open(self) -> None:
        """Start; return after the first attempt to connect, successful or not."""
        first_attempt = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(first_attempt))
        await first_attempt

    async def close(self) -> None:
        """Send pending wake-ups and disconnect."""
        self._closing.set()
        self._has_pending.set()
        if self._task is not None:
            await self._task

    def publish(self, keys: Iterable[str]) -> None:
        """Wake waiters of these keys in other processes, soon."""
        if len(self._pending_ids) <= MAX_CHANNEL_IDS:  # more are sent as "all channels"
            self._pending_ids.update(map(channel_id_of, keys))
        if self._pending_ids:
            self._has_pending.set()

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _run(self, first_attempt: "asyncio.Future[None]") -> None:
        pause, is_logged = _FIRST_PAUSE_SECONDS, False  # whether a lost connection is in the log
        while not self._closing.is_set():
            try:
                self._is_lost = False
                await self._transport.connect(self._receive, self._mark_lost)
                if is_logged:
                    _log.warning("the connection for wake-ups between processes is restored")
                self.listening, is_logged, pause = True, False, _FIRST_PAUSE_SECONDS
                self._wakeups.notify_all()  # wake-ups during the gap were lost
                _resolve_once(first_attempt)
                await self._send_pending()
            except BusTransportLost as error:
                if not is_logged:
                    _log.warning("wake-ups between processes are lost until the connection is restored: %s", error)
                is_logged = True
            except Exception:
                _log.exception("wake-ups between processes have stopped; reconnecting")
                is_logged = True
            finally:
                self.listening = False
                await self._transport.close()
                _resolve_once(first_attempt)
            jitter = 0.5 + self._randomness.bits(10) / 1024
            await self._clock.wait(self._closing.wait(), pause * jitter)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def _send_pending(self) -> None:
        """Send until the connection is lost, or the bus is closed and everything is sent."""
        while not self._is_lost and not (self._closing.is_set() and not self._pending_ids):
            if not await self._clock.wait(self._has_pending.wait(), self._check_seconds):
                await self._transport.check()
                continue
            self._has_pending.clear()
            channel_ids, self._pending_ids = self._pending_ids, set()
            if channel_ids and not self._is_lost:
                self.sent += 1
                await self._transport.send(
                    self._own_id + (_ALL_CHANNELS if len(channel_ids) > MAX_CHANNEL_IDS else "".join(channel_ids))
                )
        if self._is_lost:
            raise BusTransportLost("the other side closed the connection")

    def _mark_lost(self) -> None:
        self._is_lost = True
        self._has_pending.set()

    def _receive(self, payload: str) -> None:
        """Apply a notification of another process. An unreadable one wakes all waiters: an extra poll does no harm."""
        sender, channel_ids = payload[:CHANNEL_ID_LENGTH], payload[CHANNEL_ID_LENGTH:]
        if sender == self._own_id:
            return
        if channel_ids == _ALL_CHANNELS or len(channel_ids) % CHANNEL_ID_LENGTH:
            self._wakeups.notify_all()
        else:
            self._wakeups.notify_remote(
                channel_ids[at : at + CHANNEL_ID_LENGTH] for at in range(0, len(channel_ids), CHANNEL_ID_LENGTH)
            )


def _resolve_once(first_attempt: "asyncio.Future[None]") -> None:
    if not first_attempt.done():
        first_attempt.set_result(None)
