"""A PostgreSQL server for a measurement: a program of its own, whose CPU time counts on nobody's side."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from testing.engines import new_database, postgres_server


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server that waits for its disk, as it does unless somebody says otherwise."""
    servers = postgres_server(durable=True)
    try:
        yield next(servers)
    finally:
        servers.close()


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
