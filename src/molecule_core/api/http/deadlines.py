"""The one timer of a connection: it rings no later than the deadline of the stage that the connection is in. And what
its client leaves unread meanwhile.

Above: `api/http/connection.py`. Below: the event loop.
"""

import asyncio
from collections.abc import Callable

# Long enough that the loop reads once before it is over.
_READ_GRACE_SECONDS = 0.001


class Deadline:
    """Counts from the last `begin`. Ringing may be early for a stage that has begun since: who is called looks.

    Nobody is late whose bytes lie here unread. A loop that was held up (by a disk, say) looks at its timers first, so a
    timer that rings lets it read before anybody is called."""

    __slots__ = ("_due", "_loop", "_on_due", "_since", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._since = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def restart(self) -> None:
        """Time counts from now."""
        self._since = self._loop.time()

    def arm(self, seconds: float) -> None:
        """Rings no later than so many seconds after the beginning."""
        due = self._since + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._loop.call_later(_READ_GRACE_SECONDS, self._on_recheck)

    def _on_recheck(self) -> None:
        self._timer = None
        self._on_due()

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time() - self._since

    def has_passed(self, seconds: float) -> bool:
        """Whether so many seconds have gone by since the beginning."""
        return self.elapsed() >= seconds

    def run_after(self, action: Callable[[], None], seconds: float) -> None:
        """Instead of ringing, does something in so many seconds, unless it is stopped."""
        self.stop()
        self._timer = self._loop.call_later(seconds, action)

    def stop(self) -> None:
        """Rings no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WriteBacklog:
    """More than the transport wants to hold was written, and its client has yet to take it."""

    __slots__ = ("_idle_checks", "_last_size", "_transport")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._last_size = transport.get_write_buffer_size()
        self._idle_checks = 0

    def is_stuck(self) -> bool:
        """Whether nothing was taken between the last three times that this was looked at, its beginning among them.

        Twice would be too strict for a slow line: the kernel tells only when a third of its buffer is free again."""
        previous, self._last_size = self._last_size, self._transport.get_write_buffer_size()
        self._idle_checks = self._idle_checks + 1 if self._last_size == previous else 0
        return self._idle_checks >= 2
