"""Wake-ups between the processes of one store: "look again", and for whom. No data, and none is missed for long.

What a group rings is gathered and sent as one notification, never more than one at a time; what comes meanwhile goes
with the next. A key travels as a mark of eight letters, so that nearly any group fits one notification. Losing any or
all of them costs latency only: whoever waits looks again after `limits.look_again_seconds`.

Above: the server. Below: the two links, `listen.py` (PostgreSQL) and `nats.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.store.wakeups import CHANNEL_ID_LENGTH, Notifier, channel_id_of

# PostgreSQL takes less than 8000 bytes.
MAX_CHANNEL_IDS = 990
_ALL_CHANNELS = "*"
# After a lost connection: at once nearly, then ever more patiently; jitter keeps processes from knocking together.
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
_log = logging.getLogger("molecule.wakeups")


class BusTransportLost(Exception):
    """The connection that carries wake-ups is gone, or cannot be made."""


class BusTransport(Protocol):
    """A connection over which processes hear each other."""

    async def connect(self, on_payload: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        """Connects and listens. Raises LinkLost."""

    async def send(self, payload: str) -> None:
        """Tells all processes, this one too. Raises LinkLost."""

    async def check(self) -> None:
        """Finds out whether the other side is still there. Raises LinkLost."""

    async def close(self) -> None:
        """Hangs up; no harm if there is no connection."""


class Bus:
    """Sends what this process rings, and rings what others send. `process` is this process's own id."""

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
        """Whether wake-ups of others reach this process now."""
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
        """Notifications so far."""

    async def open(self) -> None:
        """Begins; returns once the first try to connect has ended, well or not."""
        first_attempt = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(first_attempt))
        await first_attempt

    async def close(self) -> None:
        """Sends what is gathered, and hangs up."""
        self._closing.set()
        self._has_pending.set()
        if self._task is not None:
            await self._task

    def publish(self, keys: Iterable[str]) -> None:
        """Wakes those who wait for a key in other processes, soon."""
        if len(self._pending_ids) <= MAX_CHANNEL_IDS:  # more are sent as "everybody"
            self._pending_ids.update(map(channel_id_of, keys))
        if self._pending_ids:
            self._has_pending.set()

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _run(self, first_attempt: "asyncio.Future[None]") -> None:
        pause, is_logged = _FIRST_PAUSE_SECONDS, False
        while not self._closing.is_set():
            try:
                self._is_lost = False
                await self._transport.connect(self._receive, self._mark_lost)
                self.listening, is_logged, pause = True, False, _FIRST_PAUSE_SECONDS
                self._wakeups.notify_all()  # whatever was told meanwhile was missed
                _resolve_once(first_attempt)
                await self._send_pending()
            except BusTransportLost as error:
                if not is_logged:
                    _log.warning("wake-ups between processes are lost until it is back: %s", error)
                is_logged = True
            except Exception:
                _log.exception("wake-ups between processes have stopped; the connection is made anew")
            finally:
                self.listening = False
                await self._transport.close()
                _resolve_once(first_attempt)
            jitter = 0.5 + self._randomness.bits(10) / 1024
            await self._clock.wait(self._closing.wait(), pause * jitter)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def _send_pending(self) -> None:
        """Sends until the connection is lost, or the bus is closed and all is sent."""
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
            raise BusTransportLost("the other side has hung up")

    def _mark_lost(self) -> None:
        self._is_lost = True
        self._has_pending.set()

    def _receive(self, payload: str) -> None:
        """Another process has rung. What cannot be read rings everybody: looking again does no harm."""
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
