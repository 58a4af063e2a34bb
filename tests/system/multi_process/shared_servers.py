"""Two or three whole servers in the test's own process, on one database."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from testing.running_server import UNHURRIED, Running, running
from testing.waits import bounded

# Nobody looks again by himself while a test runs: what arrives has been brought by a wake-up.
ONLY_WAKE_UPS = replace(UNHURRIED, look_again_seconds=3600)
SOON = replace(UNHURRIED, look_again_seconds=1)


@asynccontextmanager
async def servers(
    place: str, folder: Path, count: int = 2, *, limits: Limits = ONLY_WAKE_UPS, clock: Clock | None = None, **more: Any
) -> AsyncIterator[list[Running]]:
    """So many servers on one database, until the block ends."""
    async with AsyncExitStack() as stack:
        opened: list[Running] = []
        for number in range(count):
            state = folder / f"server-{number}"
            state.mkdir()
            server = running("postgres", place, state, clock=clock, limits=limits, seed=number, **more)
            opened.append(await stack.enter_async_context(server))
        yield opened


def deafen(*deaf: Running) -> None:
    """From now on nothing that these ring reaches another process."""
    for each in deaf:
        assert each.server.runtime.bus is not None
        each.server.runtime.bus.publish = _nobody  # type: ignore[method-assign,assignment]


def _nobody(_keys: Iterable[str]) -> None:
    """Hears nothing."""


async def asked(place: str, sql: str) -> list[tuple[Any, ...]]:
    """What a session of somebody else's sees."""
    session = await asyncpg.connect(place)
    try:
        return [tuple(row) for row in await session.fetch(sql)]
    finally:
        await session.close()


async def told(place: str, sql: str, *values: Any) -> None:
    """What somebody else's session does."""
    session = await asyncpg.connect(place)
    try:
        await session.execute(sql, *values)
    finally:
        await session.close()


async def knows(server: Running, workspace_id: str, fact: Callable[[Any], bool]) -> None:
    """Returns once a server's memory has it."""

    async def look() -> None:
        while (seat := server.server.registry.workspace(workspace_id)) is None or not fact(seat):
            await checkpoint()

    await bounded(look())
