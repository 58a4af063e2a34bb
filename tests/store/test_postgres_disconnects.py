"""PostgreSQL hangs up, also while another session still holds what was the server's: refused for a moment, not lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from molecule_core.client.api import ApiClient
from testing.engines import Engine
from testing.running_server import Running, running
from testing.waits import IN_PROCESS_SECONDS, bounded, eventually, refused
from tests.requirements import requirement

_WRITER = """
    SELECT l.pid, l.classid::bigint << 32 | l.objid::bigint
    FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()
"""


@pytest.fixture
def engine() -> Engine:
    """This is about PostgreSQL alone."""
    return "postgres"


@asynccontextmanager
async def session(place: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else's."""
    connection = await asyncpg.connect(place)
    try:
        yield connection
    finally:
        await connection.close()


async def sent(person: ApiClient, workspace_id: str, message_id: str) -> bool:
    """Whether a message was accepted at last, however often it had to be sent."""

    async def once() -> str:
        try:
            return str((await person.send(workspace_id, "hi", message_id=message_id))["status"])
        except Exception as error:
            return str(getattr(error, "status", error))

    return await eventually(once, lambda answer: answer == "queued") == "queued"


@pytest.fixture
async def mortal(place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that may die of what is done to it: then its end must not hold up the others' tests."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(4 * IN_PROCESS_SECONDS), running("postgres", place, tmp_path) as server:
            yield server


@requirement("P1", "M14")
async def test_the_server_goes_on_after_all_its_sessions_were_ended(mortal: Running, place: str) -> None:
    ops, person = await mortal.seat("Ops"), await mortal.person()
    await person.send(ops.id, "before")

    async with session(place) as other:
        await other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert await sent(person, ops.id, "m-1")
    rows = await ops.api.claim(ops.id)
    assert [row["summary"] for row in rows] == ["before", "hi"]


@requirement("P1", "M14")
async def test_a_lock_that_a_dead_session_still_holds_is_a_refusal_and_not_the_end(mortal: Running, place: str) -> None:
    """After a network break PostgreSQL keeps the old session, and its lock, until it notices."""
    ops, person = await mortal.seat("Ops"), await mortal.person()
    async with session(place) as rival, session(place) as killer:
        ((writer, key),) = await killer.fetch(_WRITER)
        taking = asyncio.create_task(rival.execute("SELECT pg_advisory_lock($1)", key))
        await eventually(
            lambda: killer.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
            lambda waiting: waiting == 1,
        )
        await killer.execute("SELECT pg_terminate_backend($1)", writer)
        await bounded(taking)

        errors = [await bounded(refused(person.send(ops.id, "hi", message_id="m-1"))) for _ in range(2)]
        assert [(error.status, error.code) for error in errors] == [(503, "platform_unavailable")] * 2
        assert await bounded(ops.api.get(f"/workspaces/{ops.id}/activity")) == []

    assert await sent(person, ops.id, "m-1")
    assert len(await ops.api.claim(ops.id)) == 1
