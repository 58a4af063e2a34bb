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

from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.store.wakeups import MARK_LENGTH, Wakeups, mark_of

# PostgreSQL takes less than 8000 bytes.
MOST_MARKS = 990
_EVERYBODY = "*"
# After a lost connection: at once nearly, then ever more patiently; jitter keeps processes from knocking together.
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_log = logging.getLogger("molecule.wakeups")


class LinkLost(Exception):
    """The connection that carries wake-ups is gone, or cannot be made."""


class Link(Protocol):
    """A connection over which processes hear each other."""

    async def connect(self, heard: Callable[[str], None], lost: Callable[[], None]) -> None:
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
        self, link: Link, wakeups: Wakeups, *, process: str, clock: Clock, randomness: Randomness, check_seconds: float
    ) -> None:
        self.listening = False
        """Whether wake-ups of others reach this process now."""
        self._link = link
        self._wakeups = wakeups
        self._own = mark_of(process)
        self._clock = clock
        self._randomness = randomness
        self._check_seconds = check_seconds
        self._marks: set[str] = set()
        self._more = asyncio.Event()
        self._end = asyncio.Event()
        self._lost = False
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        """Notifications so far."""

    async def open(self) -> None:
        """Begins; returns once the first try to connect has ended, well or not."""
        tried = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._work(tried))
        await tried

    async def close(self) -> None:
        """Sends what is gathered, and hangs up."""
        self._end.set()
        self._more.set()
        if self._task is not None:
            await self._task

    def tell(self, keys: Iterable[str]) -> None:
        """Wakes those who wait for a key in other processes, soon."""
        if len(self._marks) <= MOST_MARKS:  # more are sent as "everybody"
            self._marks.update(map(mark_of, keys))
        if self._marks:
            self._more.set()

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _work(self, tried: "asyncio.Future[None]") -> None:
        pause, told = _FIRST_PAUSE_SECONDS, False
        while not self._end.is_set():
            try:
                self._lost = False
                await self._link.connect(self._heard, self._hung_up)
                self.listening, told, pause = True, False, _FIRST_PAUSE_SECONDS
                self._wakeups.ring_all()  # whatever was told meanwhile was missed
                _done(tried)
                await self._carry()
            except LinkLost as error:
                if not told:
                    _log.warning("wake-ups between processes are lost until it is back: %s", error)
                told = True
            except Exception:
                _log.exception("wake-ups between processes have stopped; the connection is made anew")
            finally:
                self.listening = False
                await self._link.close()
                _done(tried)
            jitter = 0.5 + self._randomness.bits(10) / 1024
            await self._clock.wait(self._end.wait(), pause * jitter)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _carry(self) -> None:
        """Sends until the connection is lost, or the bus is closed and all is sent."""
        while not self._lost and not (self._end.is_set() and not self._marks):
            if not await self._clock.wait(self._more.wait(), self._check_seconds):
                await self._link.check()
                continue
            self._more.clear()
            marks, self._marks = self._marks, set()
            if marks and not self._lost:
                self.sent += 1
                await self._link.send(self._own + (_EVERYBODY if len(marks) > MOST_MARKS else "".join(marks)))
        if self._lost:
            raise LinkLost("the other side has hung up")

    def _hung_up(self) -> None:
        self._lost = True
        self._more.set()

    def _heard(self, payload: str) -> None:
        """Another process has rung. What cannot be read rings everybody: looking again does no harm."""
        sender, marks = payload[:MARK_LENGTH], payload[MARK_LENGTH:]
        if sender == self._own:
            return
        if marks == _EVERYBODY or len(marks) % MARK_LENGTH:
            self._wakeups.ring_all()
        else:
            self._wakeups.ring_marks(marks[at : at + MARK_LENGTH] for at in range(0, len(marks), MARK_LENGTH))


def _done(tried: "asyncio.Future[None]") -> None:
    if not tried.done():
        tried.set_result(None)
