"""Opens a server, and says why it cannot start if its store cannot be used."""

from molecule_core.common.errors import StartFailed, StoreUnavailable
from molecule_core.server.composition import Server
from molecule_core.store.write_health import engine_words


async def open_server(server: Server) -> None:
    """Check the clock, open the store, load the registry, start the workers. Raises BadSettings, StartFailed."""
    try:
        if server.settings.database:
            await _check_clock(server)
        await server.open()
    except StoreUnavailable as error:
        # The text of StoreUnavailable is for senders, who should retry.
        raise StartFailed(
            reason=f"the store cannot be opened ({engine_words(error)}). Run `molecule doctor` for details."
        ) from None


async def _check_clock(server: Server) -> None:
    """Reject a clock that differs from the database's: leases and deadlines of processes would not agree.

    Raises StartFailed. A database that does not respond is reported by the store."""
    skew, limit = await server.runtime.read_clock_skew(), server.settings.limits.clock_skew_seconds
    if abs(skew) > limit:
        way = "ahead of" if skew > 0 else "behind"
        raise StartFailed(
            reason=f"the clock of this machine is {abs(skew):,.0f} s {way} the clock of the database; at most "
            f"{limit} s are allowed (MOLECULE_LIMIT_CLOCK_SKEW_SECONDS). Set the clocks of both machines "
            "(timedatectl set-ntp true)."
        )
