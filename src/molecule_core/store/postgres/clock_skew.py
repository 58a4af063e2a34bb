"""The difference between this machine's clock and that of the database.

Leases, timers and deadlines are times of the process that wrote them, and other processes compare them with their own
clocks. So all processes of a database must agree, and the database's clock is the one that each can ask.
Called by server and cli.
"""

import asyncpg

from molecule_core.common.clock import SECOND, Clock

_TIMEOUT_SECONDS = 10.0
_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"


async def read_clock_skew(dsn: str, clock: Clock) -> float | None:
    """Return by how many seconds the clock is ahead of the database's (negative: behind).

    None: the database does not respond."""
    try:
        connection = await asyncpg.connect(dsn, timeout=_TIMEOUT_SECONDS, command_timeout=_TIMEOUT_SECONDS)
        try:
            await connection.fetchval(_NOW)  # prepares the statement, so that the next one takes one round trip
            before = clock.now()
            theirs = await connection.fetchval(_NOW)
            after = clock.now()
        finally:
            await connection.close()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        return None
    return skew_seconds(before, theirs, after)


def skew_seconds(before: int, theirs: int, after: int) -> float:
    """Return the difference of clocks in seconds that the time of a query (`before` to `after`) does not explain."""
    if theirs < before:
        return (before - theirs) / SECOND
    return min(0, after - theirs) / SECOND
