"""Where a store keeps what it has: read as bytes, by nobody of the product; and broken for a while."""

import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import asyncpg

from proofs.harness.settings import Setting
from proofs.secrets.canaries import Place

# One byte on: of a place between two segments the function would name the older one.
_AT_END = "SELECT file_name, file_offset FROM pg_walfile_name_offset(pg_current_wal_lsn() + 1)"
_AWAY, _BACK = "memory_keys RENAME TO memory_keys_gone", "memory_keys_gone RENAME TO memory_keys"


class Keeping:
    """SQLite: all lies in the state folder, which is searched anyway."""

    async def opens(self) -> None:
        """Before the first server starts."""

    @contextlib.asynccontextmanager
    async def broken(self, state: Path) -> AsyncIterator[None]:
        """A table is gone within the block."""
        with contextlib.closing(apsw.Connection(str(state / "molecule.db"))) as other:
            other.set_busy_timeout(5_000)
            other.execute(f"ALTER TABLE {_AWAY}")
            yield
            other.execute(f"ALTER TABLE {_BACK}")

    async def read(self, files: Place, rows: Place, log: Place) -> None:
        """Adds what lies elsewhere."""


class PostgresKeeping(Keeping):
    """PostgreSQL: the files of the database and of its write-ahead log, every row as text (in the files a long value is
    compressed), and the server's own log, to which every statement with its parameters is written in this database."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._data, self._own = Path(), ""
        self._logged, self._first = 0, ""

    async def opens(self) -> None:
        """From here on all is logged. What was written before belongs to others."""
        async with self._asking() as connection:
            name = await connection.fetchval("SELECT current_database()")
            await connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
            self._own = str(await connection.fetchval("SELECT oid FROM pg_database WHERE datname = $1", name))
            self._data = Path(await connection.fetchval("SHOW data_directory"))
            await connection.execute("SELECT pg_switch_wal()")
            self._first = str(await connection.fetchval(_AT_END))
        self._logged = (self._data / "log").stat().st_size

    @contextlib.asynccontextmanager
    async def broken(self, state: Path) -> AsyncIterator[None]:
        """A table is gone within the block."""
        async with self._asking() as other:
            await other.execute(f"ALTER TABLE {_AWAY}")
            yield
            await other.execute(f"ALTER TABLE {_BACK}")

    async def read(self, files: Place, rows: Place, log: Place) -> None:
        """Adds what lies in the server's folder."""
        async with self._asking() as connection:
            await connection.execute("CHECKPOINT")
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for (table,) in tables:
                text = io.BytesIO()
                await connection.copy_from_table(table, output=text)
                rows.add(text.getvalue())
            last, length = await connection.fetchrow(_AT_END)
        for path in (self._data / "base" / self._own).iterdir():
            files.add(path.read_bytes())
        # A segment is an older one under a new name: behind its end lies what was written for others.
        for path in (self._data / "pg_wal").iterdir():
            if self._first <= path.name <= last:
                files.add(path.read_bytes()[: length if path.name == last else None])
        with (self._data / "log").open("rb") as told:
            told.seek(self._logged)
            log.add(told.read())

    @contextlib.asynccontextmanager
    async def _asking(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self._database)
        try:
            yield connection
        finally:
            await connection.close()


def keeping_of(setting: Setting) -> Keeping:
    """Of the engine of a run."""
    return PostgresKeeping(setting.database) if setting.engine == "postgres" else Keeping()
