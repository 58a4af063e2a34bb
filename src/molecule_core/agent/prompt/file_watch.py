"""Tells of changes to files below a folder, as the operating system tells of them. The one door to the watcher.

Above: rebuilding. Below: the disk.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from watchfiles import Change, awatch

# Editors write in several steps: what comes so soon behind each other is one change.
_DEBOUNCE_MS, _STEP_MS = 200, 50


async def watch_files(folder: Path, is_relevant: Callable[[str], bool]) -> AsyncIterator[list[str]]:
    """Paths below a folder (a real one, no link) that have changed, those that concern somebody, as they change; for
    ever. Raises FileNotFoundError if it is not there."""
    root = folder

    def wanted(_change: Change, path: str) -> bool:
        return Path(path).is_relative_to(root) and is_relevant(Path(path).relative_to(root).as_posix())

    async for changed in awatch(root, watch_filter=wanted, debounce=_DEBOUNCE_MS, step=_STEP_MS):
        yield sorted({Path(path).relative_to(root).as_posix() for _, path in changed})
