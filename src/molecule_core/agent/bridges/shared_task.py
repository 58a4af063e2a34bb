"""A piece of work that several callers wait for, and that goes on if one of them is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedTask(Generic[T]):
    """At most one piece of work at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    async def join(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the running work, or of new work if none runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(work())
            self._task.add_done_callback(_note_failure)
        return await asyncio.shield(self._task)

    async def cancel(self) -> None:
        """Cancel the work, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _note_failure(task: "asyncio.Task[Any]") -> None:
    """Mark a failure as seen: every caller may have been cancelled."""
    if not task.cancelled():
        task.exception()
