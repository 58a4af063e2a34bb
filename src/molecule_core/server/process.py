"""Base services of a server process: clock, randomness, store, wake-ups, and the bus to other processes.

Called by `server/composition.py`; calls store and common.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from molecule_core.common.clock import Clock, SystemClock
from molecule_core.common.errors import BadSettings, MoleculeError, ServerBusy, StoreUnavailable
from molecule_core.common.extras import install_advice
from molecule_core.common.ids import IdGenerator, Randomness, SystemRandomness
from molecule_core.common.settings import Settings
from molecule_core.server.server_record import read_server_record
from molecule_core.store.bus import Bus, BusTransport
from molecule_core.store.cache_sync import CacheSync
from molecule_core.store.database import Store
from molecule_core.store.sqlite.store import DATABASE_FILE, SqliteStore
from molecule_core.store.wakeups import Notifier, Poll

# Between two saves of heartbeats: other processes see them soon, and the store is not busy with them.
_SAVE_SECONDS = 1.0
_DAY_SECONDS = 86_400.0
# Pause before retrying a store that does not respond.
_RETRY_SECONDS = 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_log = logging.getLogger("molecule.server")


class ProcessRuntime:
    """Store chosen by the settings, its wake-ups, and the bus to other processes."""

    def __init__(self, settings: Settings, *, clock: Clock | None, randomness: Randomness | None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.randomness = randomness or SystemRandomness()
        self.ids = IdGenerator(self.clock, self.randomness)
        self.process_id = f"{self.randomness.bits(40):010x}"
        """Distinguishes this process from others of the same store."""
        self.closing = asyncio.Event()
        self.outdated: MoleculeError | None = None
        """Set if this process can only end: a newer Molecule has migrated the store."""
        self.on_outdated: Callable[[], None] = lambda: None
        poll_seconds = settings.limits.look_again_seconds if settings.database else None
        self.wakeups = Notifier(self.clock, look_again_seconds=poll_seconds)
        self.bus: Bus | None = None
        self.commit_observers: list[Callable[[Sequence[str]], None]] = []
        """Called after each commit of this process with its wake-up keys."""
        self.cache_sync = CacheSync(self.wakeups.notify)
        self.store = self._create_store()

    async def save_periodically(self, key: str, save: Callable[[], Awaitable[bool]]) -> None:
        """Save the heartbeats that this process received, with each sweep.

        Also soon after a change of task, which notifies `key`, but at most once a second."""

        async def save_heartbeats() -> Poll[bool]:
            try:
                if await save():
                    await self.clock.wait(self.closing.wait(), _SAVE_SECONDS)
            except (StoreUnavailable, ServerBusy):
                return Poll(None, next_poll_in=_RETRY_SECONDS)
            return Poll(None, next_poll_in=self.settings.limits.sweep_seconds)

        while not self.wakeups.closing:
            await self.wakeups.wait_until(key, save_heartbeats, _DAY_SECONDS)

    def allowed_hosts(self) -> frozenset[str]:
        """Return the host names that this server answers for."""
        public = self.settings.url.split("://", 1)[-1].split("/", 1)[0].rsplit(":", 1)[0]
        names = (*_LOOPBACK, self.settings.host, public, *self.settings.allowed_hosts)
        return frozenset(name.lower() for name in names)

    def _create_store(self) -> Store:
        limits = self.settings.limits
        if self.settings.database:
            from molecule_core.store.postgres.store import PostgresStore

            return PostgresStore(
                self.settings.database,
                clock=self.clock,
                ids=self.ids,
                limits=limits,
                notify=self._notify_all_processes,
                cache_sync=self.cache_sync,
                on_outdated=self._stop_as_outdated,
                backup_folder=self.settings.state_folder,
            )
        if self.settings.nats:
            raise BadSettings(reason="nats requires a PostgreSQL database. Set database too, or remove nats.")
        path = self.settings.state_folder / DATABASE_FILE
        return SqliteStore(path, clock=self.clock, ids=self.ids, limits=limits, notify=self._notify_process)

    async def read_clock_skew(self) -> float:
        """Return by how many seconds this clock is ahead of the database's; 0 if the database does not respond."""
        from molecule_core.store.postgres.clock_skew import read_clock_skew

        return await read_clock_skew(self.settings.database, self.clock) or 0.0

    def _create_transport(self) -> BusTransport:
        """Create the transport of wake-ups to other processes."""
        if self.settings.nats:
            try:
                from molecule_core.store.nats import NatsTransport
            except ImportError:
                raise BadSettings(reason=f"nats requires a package. {install_advice('nats')}") from None
            return NatsTransport(self.settings.nats, self.store.epoch)
        from molecule_core.store.postgres.notify import PostgresTransport

        return PostgresTransport(self.settings.database)

    def _notify_process(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self.wakeups.notify(keys)
        for observer in self.commit_observers:
            observer(keys)

    def _notify_all_processes(self, keys: Iterable[str]) -> None:
        keys = list(dict.fromkeys(keys))
        self._notify_process(keys)
        if self.bus is not None:
            self.bus.publish(keys)

    def _stop_as_outdated(self, error: MoleculeError) -> None:
        if self.outdated is None:
            self.outdated = error
            _log.error("the process exits: %s", error.text)
            self.on_outdated()

    async def open_bus(self) -> None:
        """Connect to the bus: wake-ups are exchanged with other processes from now on."""
        self.bus = Bus(
            self._create_transport(),
            self.wakeups,
            process=self.process_id,
            clock=self.clock,
            randomness=self.randomness,
            check_seconds=self.settings.limits.look_again_seconds,
        )
        await self.bus.open()

    def bus_status(self) -> str | None:
        """Return the bus state for `/ready`; None without other processes."""
        if self.bus is None:
            return None
        degraded = f"degraded: checking again every {self.settings.limits.look_again_seconds} s"
        return "listening" if self.bus.listening else degraded


def log_recovery(runtime: ProcessRuntime) -> None:
    """Log that the previous server of the state folder was killed: it left its record, and has the lock no more."""
    record = None if runtime.store.is_shared else read_server_record(runtime.settings.state_folder)
    if record is not None:
        _log.warning(
            "the previous server (process %d) did not stop cleanly; the store has everything that it acknowledged",
            record.pid,
        )
