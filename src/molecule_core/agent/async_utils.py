"""Asyncio helpers: sleep on a clock, detect cancellation and the end of standard input."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from molecule_core.common.clock import Clock

T = TypeVar("T")


async def sleep(clock: Clock, seconds: float) -> None:
    """Sleep for `seconds` of `clock`."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)


def is_cancelling() -> bool:
    """Return whether the current task is being cancelled; what it awaits now is not cancelled a second time."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def unless_set(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of some work; None if the event is set before it ends, which cancels it."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        return None if event.is_set() else working.result()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.wait((working, waiting))


class _StdinProtocol(asyncio.Protocol):
    """Protocol on standard input that only reports its end."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_closed()


async def on_stdin_closed(on_closed: Callable[[], None]) -> None:
    """Call `on_closed` when standard input closes, i.e. when the parent process has exited."""
    await asyncio.get_running_loop().connect_read_pipe(lambda: _StdinProtocol(on_closed), sys.stdin)
