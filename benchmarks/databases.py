"""A PostgreSQL server for a measurement: a program of its own, whose CPU time counts on nobody's side."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.engines import new_database, postgres_server

_DURABLE = ("fsync", "full_page_writes", "synchronous_commit")


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server that waits for its disk, as it does unless somebody says otherwise."""
    servers = postgres_server()
    try:
        address = next(servers)
        asyncio.run(_wait_for_the_disk(address))
        yield address
    finally:
        servers.close()  # type: ignore[attr-defined]


async def _wait_for_the_disk(address: str) -> None:
    connection = await asyncpg.connect(address)
    try:
        for setting in _DURABLE:
            await connection.execute(f"ALTER SYSTEM RESET {setting}")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()


def empty_database(server: str) -> str:
    """The address of a new database."""
    return asyncio.run(new_database(server))


def count_in(address: str, question: str) -> int:
    """What a question about a database answers, beside the servers that use it."""

    async def ask() -> int:
        connection = await asyncpg.connect(address)
        try:
            return int(await connection.fetchval(question))
        finally:
            await connection.close()

    return asyncio.run(ask())
