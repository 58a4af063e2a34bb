"""Letting time pass, and waiting for the end of whoever started us. Above: membership, channel, what runs agents and
bridges. Below: ground."""

import asyncio
import sys
from collections.abc import Callable

from molecule_core.common.clock import Clock


async def sleep(clock: Clock, seconds: float) -> None:
    """Waits so many seconds of that clock."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)


def is_cancelling() -> bool:
    """Whether who asks is being ended: what it waits for now, nothing ends a second time."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _StdinProtocol(asyncio.Protocol):
    """Standard input, of which only the end matters."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_closed()


async def on_stdin_closed(on_closed: Callable[[], None]) -> None:
    """Has it called when standard input ends, and with it whoever started this process."""
    await asyncio.get_running_loop().connect_read_pipe(lambda: _StdinProtocol(on_closed), sys.stdin)
