"""Letting time pass, and waiting for the end of whoever started us. Above: membership, channel, what runs agents and
bridges. Below: ground."""

import asyncio
import sys
from collections.abc import Callable

from molecule_core.ground.clock import Clock


async def pause(clock: Clock, seconds: float) -> None:
    """Waits so many seconds of that clock."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)


def cancelled() -> bool:
    """Whether who asks is being ended: what it waits for now, nothing ends a second time."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _Lifeline(asyncio.Protocol):
    """Standard input, of which only the end matters."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self._ends = ends

    def connection_lost(self, exc: Exception | None) -> None:
        self._ends()


async def at_eof(ends: Callable[[], None]) -> None:
    """Has it called when standard input ends, and with it whoever started this process."""
    await asyncio.get_running_loop().connect_read_pipe(lambda: _Lifeline(ends), sys.stdin)
