"""Named places at which a process may die, so that it can be shown of each that nothing is lost there.

A call of `reached` does nothing unless somebody watches, and only proofs do."""

from collections.abc import Callable
from typing import Final

POINTS: Final = (
    "sqlite.opened",
    "registry.loaded",
    "timers.begun",
    "request.admitted",
    "group.taken",
    "sqlite.begun",
    "facts.said",
    "facts.heard",
    "sqlite.decided",
    "sqlite.written",
    "sqlite.on_disk",
    "group.committed",
    "group.told",
    "group.rung",
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
"""All of them, each at one place of the package: a start, a request and its commit, and what is done later."""

_watcher: Callable[[str], None] | None = None


def mark_reached(point: str) -> None:
    """The process is at this point; each has its name at one place of the package."""
    if _watcher is not None:
        _watcher(point)


def set_watcher(watcher: Callable[[str], None] | None) -> None:
    """From now on the watcher is told of every point that is reached; None: nobody."""
    global _watcher  # noqa: PLW0603 - one process, one watcher; handing it in would touch every constructor
    _watcher = watcher
