"""Opens a store in a process of its own, and, if asked to, dies of SIGKILL at one of the statements of the opening.

`python -m proofs.upgrade.opening PLACE [STATEMENT]`: PLACE is an address of PostgreSQL or the path of a file. Says
"opening", "statements N", "opened".
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import StateInUse, StoreUnavailable
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.limits import Limits
from molecule_core.store.database import Store
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.sqlite.store import SqliteStore

TRY_AGAIN = 3
"""The exit code of an opening that found its place still taken by the one before."""


class Count:
    """Counts statements; at one of them, the end."""

    def __init__(self, last: int) -> None:
        self.seen = 0
        self._last = last

    def statement(self, *_: Any) -> bool:
        """One more."""
        self.seen += 1
        if self.seen == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return True


def watch(count: Count, place: str) -> None:
    """Lets every statement of the engine be counted, before SQLite runs it and after PostgreSQL did."""
    if not _is_postgres(place):
        apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", count.statement))
        return
    for name in ("execute", "fetchval"):
        original = getattr(asyncpg.Connection, name)

        async def counted(self: Any, *args: Any, _original: Any = original, **more: Any) -> Any:
            found = await _original(self, *args, **more)
            count.statement()
            return found

        setattr(asyncpg.Connection, name, counted)


def _is_postgres(place: str) -> bool:
    return place.startswith("postgresql:")


def store_at(place: str) -> Store:
    """The store as the server makes it."""
    clock, limits = SystemClock(), Limits()
    ids = IdGenerator(clock, SystemRandomness())
    if _is_postgres(place):
        folder = Path(os.environ["COPIES"])
        return PostgresStore(
            place, clock=clock, ids=ids, limits=limits, notify=lambda _keys: None, backup_folder=folder
        )
    return SqliteStore(Path(place), clock=clock, ids=ids, limits=limits, notify=lambda _keys: None)


async def main(place: str, last: int) -> int:
    """Opens and closes."""
    count = Count(last)
    watch(count, place)
    store = store_at(place)
    sys.stdout.write("opening\n")
    sys.stdout.flush()
    try:
        await store.open()
    except (StateInUse, StoreUnavailable) as error:
        sys.stderr.write(f"{error}: {error.__cause__!r}\n")
        taken = isinstance(error, StateInUse)
        await store.close()
        return TRY_AGAIN if taken else 1
    sys.stdout.write(f"statements {count.seen}\nopened\n")
    sys.stdout.flush()
    await store.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
