"""What tests leave behind in the PostgreSQL server of their run."""

import asyncio

import asyncpg

from testing.engines import databases_dropped, new_database


def test_a_database_that_was_made_within_goes_and_one_from_before_stays(postgres: str) -> None:
    before = asyncio.run(new_database(postgres))
    with databases_dropped():
        within = asyncio.run(new_database(postgres))
        assert asyncio.run(_there(postgres)) >= {_name(before), _name(within)}
    assert _name(before) in asyncio.run(_there(postgres))
    assert _name(within) not in asyncio.run(_there(postgres))


def _name(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


async def _there(server: str) -> set[str]:
    connection = await asyncpg.connect(server)
    try:
        return {row[0] for row in await connection.fetch("SELECT datname FROM pg_database")}
    finally:
        await connection.close()
