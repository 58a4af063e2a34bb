"""The servers of a process on which scripts are played, and their time, which the scripts move.

Above: sides.py. Below: the server as tests run it.
"""

import contextlib
import re
from pathlib import Path
from typing import Any

import asyncpg
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.store.database import Command, CommandSteps, Store, WriteSet
from molecule_core.store.timers import TimerWorker
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, running
from testing.waits import bounded

ALIGNED = 10 * SECOND
"""Scripts begin when the watch over silent agents has just had its turn."""
_LIMITS = replace(UNHURRIED, sweep_seconds=ALIGNED // SECOND)
TICK = SECOND // 10
"""Whoever sleeps is woken at whole tenths of a second."""
# So often is looked whether timers that are due have been called.
_PATIENCE = 200
# So often in a row nothing must be seen to happen: where processes share a store, a wake-up takes its way through it.
_QUIET = 3


class Busy:
    """Knows whether the timers of a server are being looked after. Where processes share timers, one that is looked
    after does not look due meanwhile."""

    def __init__(self, timers: TimerWorker) -> None:
        self.left = 0
        self._claims, self._calls = timers._claim_due, timers._call_owner
        timers._claim_due, timers._call_owner = self._claim, self._call  # type: ignore[method-assign]

    async def _claim(self) -> list[tuple[str, str, int]]:
        self.left += 1
        found: list[tuple[str, str, int]] = []
        try:
            found = await self._claims()
        finally:
            self.left += len(found) - 1
        return found

    def go_before(self, pushing: PushClaims, store: Store, clock: FakeClock) -> None:
        """From now on timers that are due in the same moment as a push come first. In the product neither does."""
        due_before = pushing.due_targets

        async def due(count: int) -> list[tuple[str, int]]:
            for _ in range(_PATIENCE):
                rows = await store.rows("next_timers", {"count": 1})
                if not self.left and not any(at <= clock.now() for *_, at in rows):
                    break
                await settle()
            return await due_before(count)

        pushing.due_targets = due  # type: ignore[method-assign]

    async def _call(self, kind: str, key: str) -> bool:
        try:
            return await self._calls(kind, key)
        finally:
            self.left = max(0, self.left - 1)


class Servers:
    """The servers of a process, made when they are needed."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        self._database = database
        self._stack = contextlib.AsyncExitStack()
        self._made: dict[tuple[Engine, str], tuple[MessageWorld, str]] = {}
        self._scripts = 0
        self.busy: dict[int, Busy] = {}
        """By port: whose timers are being looked after."""

    async def __aenter__(self) -> "Servers":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    def next(self) -> int:
        """The number of a script."""
        self._scripts += 1
        return self._scripts

    async def world(self, engine: Engine, side: str) -> tuple[MessageWorld, str]:
        """A server of an engine, and where its store is."""
        if (engine, side) not in self._made:
            folder = self._folder / f"{side}-{engine}"
            folder.mkdir(mode=0o700, parents=True)
            place = str(folder / "molecule.db")
            if engine == "postgres":
                place = await _one_more(self._database, f"{side}_{self._folder.name}")
            clock, net = FakeClock(), PushNetwork()
            told: dict[str, Any] = {
                "push_instructions_enabled": True,
                "clock": clock,
                "fetcher": net,
                "limits": _LIMITS,
            }
            server = await self._stack.enter_async_context(running(engine, place, folder, **told))
            # How long a pause is within its bounds is thrown; what was thrown before differs on the two sides.
            server.server.delivery.push_dispatcher._push_claims._recorder._randomness = _Halfway()
            # The use of /mcp is presence and that of REST is not (decision 0072), on purpose: the rest is compared.
            server.server.org_writer.record_presence = _ignore_presence  # type: ignore[assignment, method-assign]
            self.busy[server.port] = busy = Busy(server.server._timers)
            busy.go_before(server.server.delivery.push_dispatcher._push_claims, server.server.store, clock)
            self._made[engine, side] = MessageWorld(server, server.admin, clock, net), place
        return self._made[engine, side]


async def _one_more(database: str, side: str) -> str:
    """Another empty database beside a given one."""
    connection = await asyncpg.connect(database)
    try:
        name = f"{await connection.fetchval('SELECT current_database()')}_{side}"
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return re.sub(r"/[^/?]+\?", f"/{name}?", database, count=1)


async def _ignore_presence(_workspace_id: str, _tools: list[Any] | None = None) -> None:
    """Record nothing."""


class _Halfway(SeededRandomness):
    """Always the middle."""

    def bits(self, count: int) -> int:
        return 1 << (count - 1)


def _nothing() -> CommandSteps[None]:
    yield from ()
    return WriteSet(None)


# -- time --------------------------------------------------------------------------------------------------------------


async def pass_time(world: MessageWorld, busy: Busy, end: int) -> None:
    """Time passes from one thing that is due to the next, so that what happens in one moment was due in that moment."""
    store, clock = world.server.server.store, world.clock
    await rest(world, busy)
    while clock.now() < end:
        timers = await store.rows("next_timers", {"count": 1000})
        targets = await store.rows("due_targets", {"count": 1000})
        due = [at for at in [*(row[2] for row in timers), *(row[1] for row in targets)] if at > clock.now()]
        step = min([*(-(-at // TICK) * TICK for at in due), end])
        await clock.advance((step - clock.now()) / SECOND)
        await rest(world, busy)


async def rest(world: MessageWorld, busy: Busy) -> None:
    """Waits until nothing is due or under way, and whatever was written has been heard of."""
    store, quiet = world.server.server.store, 0
    while quiet < (_QUIET if store.is_shared else 1):
        await world.rest()
        seen = store.meter.commands
        await bounded(store.run(Command("", (), _nothing)))
        await settle()
        quiet = 0 if busy.left or store.meter.commands != seen + 1 else quiet + 1
