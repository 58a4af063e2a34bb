"""Watches files below a folder; the only module that imports the watcher library."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from watchfiles import Change, awatch

# Editors write in several steps: changes this close together are one change.
_DEBOUNCE_MS, _STEP_MS = 200, 50


async def watch_files(folder: Path, is_relevant: Callable[[str], bool]) -> AsyncIterator[list[str]]:
    """Yield relevant paths below a folder (not a link) as they change, without end.

    Raises FileNotFoundError if the folder is missing.
    """
    root = folder

    def is_wanted(_change: Change, path: str) -> bool:
        return Path(path).is_relative_to(root) and is_relevant(Path(path).relative_to(root).as_posix())

    async for changed in awatch(root, watch_filter=is_wanted, debounce=_DEBOUNCE_MS, step=_STEP_MS):
        yield sorted({Path(path).relative_to(root).as_posix() for _, path in changed})
