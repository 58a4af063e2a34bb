"""Waiting in tests: for a state to come, for a request to be parked. Always bounded, never by sleeping."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from molecule_core.client.api import ApiError
from molecule_core.server.composition import Server
from tests.waits import IN_PROCESS_SECONDS

T = TypeVar("T")
_EAGER_LOOKS = 200
"""So many looks come one after the other: what is under way in this process is seen by then."""
_BETWEEN_LOOKS_SECONDS = 0.01
"""Before each further look: looking without a pause takes the processor from the process that is waited for."""


async def bounded(work: Awaitable[T]) -> T:
    """The result of something that must come within IN_PROCESS_SECONDS."""
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        return await work


async def eventually(
    look: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], seconds: float = IN_PROCESS_SECONDS
) -> T:
    """Looks again and again until what is seen is as wanted; fails with what was seen last. `seconds`: more where a
    process has to start first."""
    found, looks = await look(), 1
    try:
        async with asyncio.timeout(seconds):
            while not wanted(found):
                await checkpoint()  # a look that never waits would else keep the time from passing
                if looks >= _EAGER_LOOKS:
                    with anyio.move_on_after(_BETWEEN_LOOKS_SECONDS):
                        await anyio.Event().wait()
                found, looks = await look(), looks + 1
    except TimeoutError:
        raise AssertionError(f"never seen as wanted; last: {found!r}") from None
    return found


async def until_waiting(server: Server, count: int) -> None:
    """Until so many long-polls sleep. The server's own workers sleep too: timers, pushes and, where others may write to
    the store, what follows them and what saves heartbeats for them."""
    own = 4 if server.store.is_shared else 2
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while server.wakeups.sleeping != own + count:
            await checkpoint()


async def refused(work: Awaitable[Any]) -> ApiError:
    """The refusal that a call must end with."""
    try:
        answer = await work
    except ApiError as error:
        return error
    raise AssertionError(f"this should have been refused, but was answered: {answer!r}")
