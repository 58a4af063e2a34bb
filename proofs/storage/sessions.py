"""Rounds of commands on PostgreSQL, which loses its connections or its life in their middle. Runs in a process of its
own, on a server of its own, which waits for its disk.

Above: proof.py. Below: asking.py and the server.
"""

import asyncio
import contextlib
import logging

import asyncpg
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.storage.asking import Asking, Lost
from proofs.storage.deeds import Deed
from testing.engines import new_database, postgres_server, stopped_at_once

_KILL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"
_OWN = "SELECT pg_backend_pid()"
# A round takes some hundred turns of the loop: the fault comes somewhere in it.
_MOST_TURNS = 300
# It seldom takes three rounds until a command fails by it.
_MOST_TRIES = 30
# Of so many faults one is the end of the whole server, without a word to anybody.
_ENDS_OF = 10


class Sessions:
    """The faults that befall a server of ours on PostgreSQL."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.people = Asking(setting)
        self._other: asyncpg.Connection | None = None

    async def play(self) -> None:
        """`setting.size` times all connections are gone, a tenth as many times the server is stopped with
        `-m immediate` and started again."""
        await self.people.open()
        with contextlib.suppress(Lost):  # it is counted; whoever comes behind it would only wait too
            for number in range(self._setting.size):
                await self._cut_off()
                if number % _ENDS_OF == _ENDS_OF - 1:
                    await self._stopped()
        await self.people.close()
        if self._other is not None:
            await self._other.close()

    async def _cut_off(self) -> None:
        """All connections to the database end, until some command has failed by it."""
        left: list[Deed] = []
        for _ in range(_MOST_TRIES):
            asking = asyncio.ensure_future(self.people.ask(self.people.crew.deeds()))
            await self._some_turns()
            await self._kill()
            left = await asking
            if left:
                break
        self.people.faults["connections cut"] += bool(left)
        await self.people.settle(left)

    async def _kill(self) -> None:
        if self._other is None or self._other.is_closed():
            self._other = await asyncpg.connect(self._setting.database)
        await self._other.fetchval(_KILL, await self._other.fetchval(_OWN))

    async def _stopped(self) -> None:
        """The server ends in the middle of what it does, and recovers by its log when it begins."""
        asking = asyncio.ensure_future(self.people.ask(self.people.crew.deeds()))
        await self._some_turns()
        async with stopped_at_once(self._setting.database):
            left = await asking
            left += await self.people.ask(self.people.crew.deeds())  # nobody is there
        self.people.faults["servers stopped"] += bool(left)
        await self.people.settle(left)

    async def _some_turns(self) -> None:
        for _ in range(self.people.dice.randrange(_MOST_TURNS)):
            await checkpoint()


async def run(setting: Setting) -> Verdict:
    """All faults, then the judgement of what the database holds. (The server that came with the setting serves others
    too, and does not wait for its disk.)"""
    logging.disable(logging.CRITICAL)
    servers = postgres_server(durable=True)
    try:
        sessions = Sessions(replace(setting, database=await new_database(next(servers))))
        await sessions.play()
        return await sessions.people.verdict({})
    finally:
        servers.close()


if __name__ == "__main__":
    as_a_child(run)
