"""Named points at which a test may kill the process, to prove that nothing is lost there.

`mark_reached` does nothing unless a watcher is set; only proofs set one.
"""

from collections.abc import Callable
from typing import Final

POINTS: Final = (
    "sqlite.opened",
    "registry.loaded",
    "timers.begun",
    "request.admitted",
    "group.taken",
    "sqlite.begun",
    "events.dispatching",
    "events.dispatched",
    "sqlite.decided",
    "sqlite.written",
    "sqlite.on_disk",
    "group.committed",
    "group.resolved",
    "group.notified",
    "request.answered",
    "waiter.woken",
    "claim.decided",
    "push.taken",
    "push.answered",
    "push.settled",
    "timers.due",
    "timer.done",
    "wait.begun",
    "wait.over",
    "result.waited",
)
"""All points, each at one place of the package: start, request and commit, later work."""

_watcher: Callable[[str], None] | None = None


def mark_reached(point: str) -> None:
    """Report that the process is at this point."""
    if _watcher is not None:
        _watcher(point)


def set_watcher(watcher: Callable[[str], None] | None) -> None:
    """Set the function that is called at every point; None removes it."""
    global _watcher  # noqa: PLW0603 - one process, one watcher; passing it in would touch every constructor
    _watcher = watcher
