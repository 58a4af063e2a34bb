"""Wake-ups over PostgreSQL's LISTEN and NOTIFY: the default, nothing to install.

A notification is sent after the group's commit, on its own connection with asynchronous commit. In the group's own
transaction it would hold a lock shared by all of PostgreSQL until the disk has answered, so that groups of all
organisations would be serialised (figures: docs/decisions/0013).
"""

from collections.abc import Callable
from contextlib import suppress

import asyncpg

from molecule_core.store.bus import BusTransport, BusTransportLost

CHANNEL = "molecule"
# Detects a network that drops packets.
_TIMEOUT_SECONDS = 10.0
_CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


class PostgresTransport(BusTransport):
    """One connection that listens and notifies."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection | None = None

    async def connect(self, on_payload: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        try:
            self._connection = await asyncpg.connect(
                self._dsn,
                timeout=_TIMEOUT_SECONDS,
                command_timeout=_TIMEOUT_SECONDS,
                server_settings={"synchronous_commit": "off", "application_name": "molecule wake-ups"},
            )
            self._connection.add_termination_listener(lambda _connection: on_lost())
            await self._connection.add_listener(
                CHANNEL, lambda _connection, _pid, _channel, payload: on_payload(payload)
            )
        except _CONNECTION_ERRORS as error:
            raise BusTransportLost(type(error).__name__) from error

    async def send(self, payload: str) -> None:
        await self._execute("SELECT pg_notify($1, $2)", CHANNEL, payload)

    async def check(self) -> None:
        await self._execute("SELECT 1")

    async def _execute(self, sql: str, *values: str) -> None:
        if self._connection is None:
            raise BusTransportLost("not connected")
        try:
            await self._connection.execute(sql, *values)
        except _CONNECTION_ERRORS as error:
            raise BusTransportLost(type(error).__name__) from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(*_CONNECTION_ERRORS):
                await connection.close(timeout=1)
