"""Deadline timer of a connection, and the detection of clients that stop reading."""

import asyncio
from collections.abc import Callable

# Long enough for the event loop to read the socket once.
_READ_GRACE_SECONDS = 0.001


class Deadline:
    """Single timer, counted from the last `restart`.

    It may fire early for a stage that began since, so `on_due` must check `has_passed`. Bytes that have arrived but are
    still unread count as in time: an event loop that was blocked (by a disk, say) runs its timers first, so a due timer
    lets the loop read once before it calls `on_due`."""

    __slots__ = ("_due", "_loop", "_on_due", "_since", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._since = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def restart(self) -> None:
        """Start counting from now."""
        self._since = self._loop.time()

    def arm(self, seconds: float) -> None:
        """Fire at most `seconds` after the start."""
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
        """Return the seconds since the start."""
        return self._loop.time() - self._since

    def has_passed(self, seconds: float) -> bool:
        """Return whether `seconds` have passed since the start."""
        return self.elapsed() >= seconds

    def run_after(self, action: Callable[[], None], seconds: float) -> None:
        """Replace the timer by an action that runs in `seconds`, unless it is stopped."""
        self.stop()
        self._timer = self._loop.call_later(seconds, action)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WriteBacklog:
    """Written data beyond the transport's high-water mark, which the client has yet to read."""

    __slots__ = ("_idle_checks", "_last_size", "_transport")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._last_size = transport.get_write_buffer_size()
        self._idle_checks = 0

    def is_stuck(self) -> bool:
        """Return whether the client read nothing during the last three checks (the constructor counts as one).

        Two checks would cut slow links: the kernel reports progress only when a third of its buffer is free again."""
        previous, self._last_size = self._last_size, self._transport.get_write_buffer_size()
        self._idle_checks = self._idle_checks + 1 if self._last_size == previous else 0
        return self._idle_checks >= 2
