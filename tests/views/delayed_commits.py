"""A server whose writer can be held between its commit and what comes behind it: the tree in memory, the wake-ups.

PostgreSQL makes this gap at every commit (its answer is on the way), SQLite where the commit waits in a thread."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.store.journal import org_key
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.sqlite.store import SqliteStore
from testing.clocks import settle
from testing.engines import Engine
from testing.running_server import Running, running

_TURNS = 100


class Lag:
    """What happens in the gap behind the next commit. `happened`: it did."""

    def __init__(self) -> None:
        self.then: Callable[[], Awaitable[None]] | None = None
        self.happened = False


@asynccontextmanager
async def lagging(
    engine: Engine, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Running, Lag]]:
    """A server and its gap."""
    store: type[Any] = PostgresStore if engine == "postgres" else SqliteStore
    commit, lag = store._commit, Lag()

    async def held(self: Any, group: list[Any]) -> None:
        await commit(self, group)
        if lag.then is not None:
            then, lag.then = lag.then, None
            await then()
            lag.happened = True

    monkeypatch.setattr(store, "_commit", held)
    async with running(engine, place, tmp_path) as server:
        yield server, lag


async def woken_early(server: Running) -> None:
    """Wakes whoever reads the journal, as the wake-up of an earlier group may, and lets them read."""
    server.server.wakeups.notify([org_key(org.id) for org in server.server.registry.orgs()])
    for _ in range(_TURNS):
        await settle()
        await server.server.store.rows("meta_value", {"name": "schema"})
