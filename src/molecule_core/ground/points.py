"""Named places at which a process may die, so that it can be shown of each that nothing is lost there.

A call of `reached` does nothing unless somebody watches, and only proofs do."""

from collections.abc import Callable

_watcher: Callable[[str], None] | None = None


def reached(point: str) -> None:
    """The process is at this point; each has its name at one place of the package."""
    if _watcher is not None:
        _watcher(point)


def watch(watcher: Callable[[str], None] | None) -> None:
    """From now on the watcher is told of every point that is reached; None: nobody."""
    global _watcher  # noqa: PLW0603 - one process, one watcher; handing it in would touch every constructor
    _watcher = watcher
