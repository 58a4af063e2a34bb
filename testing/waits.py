"""Wait in tests for a state or a parked request: always bounded, never by sleeping.

A wait that reaches its bound is a failure, never a pause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from molecule_core.client.api import ApiError
from molecule_core.org.writer import HEARTBEATS
from molecule_core.server.composition import Server
from molecule_core.store.cache_sync import CHANGES_KEY
from molecule_core.store.journal import PUSHES_KEY
from molecule_core.store.timers import TIMERS_KEY
from molecule_core.store.wakeups import Notifier, Waiter
from molecule_core.webhooks.model import WEBHOOKS_KEY

IN_PROCESS_SECONDS = 20.0  # a bound of failures, not a pause: shared machines stop for seconds at a time
PROCESS_START_SECONDS = 60.0

T = TypeVar("T")
_WORKERS = frozenset({TIMERS_KEY, CHANGES_KEY, PUSHES_KEY, WEBHOOKS_KEY, HEARTBEATS})
"""The keys on which the server's own workers sleep."""
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
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while not _are_asleep(server.wakeups, count):
            await checkpoint()


def _are_asleep(wakeups: Notifier, count: int) -> bool:
    """Whether so many long-polls sleep, and all workers, but for the one that saves heartbeats: it may pause."""
    asleep, awake = set[Waiter](), set[str]()
    for key, waiters in wakeups._waiters.items():
        for each in waiters:
            if each._future is None:
                awake.add(key)
            elif key not in _WORKERS:
                asleep.add(each)
    return len(asleep) == count and not awake & (_WORKERS - {HEARTBEATS})


async def refused(work: Awaitable[Any]) -> ApiError:
    """The refusal that a call must end with."""
    try:
        answer = await work
    except ApiError as error:
        return error
    raise AssertionError(f"this should have been refused, but was answered: {answer!r}")
