"""The only place where things are wired: store, journal, readers, writers, edges, workers."""

import asyncio
import contextlib
import gc
import importlib.metadata
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import uvicorn

from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.app import App
from molecule_core.edges.auth import Guards
from molecule_core.edges.canvas import CanvasEdge
from molecule_core.edges.events import EventEdge
from molecule_core.edges.live import Live
from molecule_core.edges.messages import MessageEdge
from molecule_core.edges.orgs import OrgEdge
from molecule_core.edges.protocol import connection_class
from molecule_core.edges.registry import RegistryEdge
from molecule_core.edges.routes import Route, Routes
from molecule_core.edges.sessions import SessionEdge
from molecule_core.edges.system import SystemEdge
from molecule_core.edges.workspaces import WorkspaceEdge
from molecule_core.ground.clock import Clock, SystemClock
from molecule_core.ground.errors import BadSettings, MoleculeError, ServerBusy, StoreUnavailable
from molecule_core.ground.ids import Ids, Randomness, SystemRandomness
from molecule_core.ground.settings import Settings
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgMirror, OrgReader, load_registry
from molecule_core.org.registry import Registry
from molecule_core.org.writer import PULSES, SWEEP, OrgWriter
from molecule_core.store.bus import Bus, Link
from molecule_core.store.database import Store
from molecule_core.store.mirrors import Mirrors, follow
from molecule_core.store.sqlite import DATABASE_FILE, SqliteStore
from molecule_core.store.timers import Timers
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.views.feed import Feed
from molecule_core.views.snapshot import SnapshotReader

FIRST_ORG = "Default"
# Between two saves of what agents say, so that other processes know it soon and the store is not busy with it.
_SAVE_SECONDS = 1.0
_DAY_SECONDS = 86_400.0
# A store that does not answer is asked again after so long.
_RETRY_SECONDS = 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_log = logging.getLogger("molecule.server")


class Server:
    """One Molecule server process. `open` before serving, `close` after. `first_org` names the organisation that a
    first start makes."""

    def __init__(
        self,
        settings: Settings,
        *,
        admin_token: str,
        first_org: str = FIRST_ORG,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.settings = settings
        self._first_org = first_org
        self.version = importlib.metadata.version("molecule-core")
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._ids = Ids(self._clock, self._randomness)
        self.process = f"{self._randomness.bits(40):010x}"
        """Tells this process from others of the same store."""
        self.outdated: MoleculeError | None = None
        """Why this process can only end: a newer Molecule has brought the store forward."""
        self.when_outdated: Callable[[], None] = lambda: None
        again = settings.limits.look_again_seconds if settings.database else None
        self.wakeups = Wakeups(self._clock, look_again_seconds=again)
        self._closing = asyncio.Event()
        self.bus: Bus | None = None
        self._mirrors = Mirrors(self.wakeups.ring)
        self.store = self._choose_store()
        self.registry = Registry()
        self._wire(admin_token)
        self._timers = Timers(self.store, self._clock, self.wakeups)
        self._timers.owner(SWEEP, self._org.sweep)
        self._worker: asyncio.Task[None] | None = None
        self._followers: list[asyncio.Task[None]] = []

    def _choose_store(self) -> Store:
        limits = self.settings.limits
        if self.settings.database:
            from molecule_core.store.postgres import PostgresStore

            return PostgresStore(
                self.settings.database,
                clock=self._clock,
                ids=self._ids,
                limits=limits,
                ring=self._ring_everywhere,
                mirrors=self._mirrors,
                outdated=self._end_as_outdated,
            )
        if self.settings.nats:
            raise BadSettings(reason="nats wakes other processes on one PostgreSQL; set database too, or leave it out")
        path = self.settings.state / DATABASE_FILE
        return SqliteStore(path, clock=self._clock, ids=self._ids, limits=limits, ring=self.wakeups.ring)

    def _choose_link(self) -> Link:
        """What carries wake-ups to other processes."""
        if self.settings.nats:
            try:
                from molecule_core.store.nats import NatsLink
            except ImportError:
                raise BadSettings(reason="nats needs a package: pip install 'molecule-core[nats]'") from None
            return NatsLink(self.settings.nats, self.store.epoch)
        from molecule_core.store.listen import PostgresLink

        return PostgresLink(self.settings.database)

    def _ring_everywhere(self, keys: Iterable[str]) -> None:
        keys = set(keys)
        self.wakeups.ring(keys)
        if self.bus is not None:
            self.bus.tell(keys)

    def _end_as_outdated(self, error: MoleculeError) -> None:
        if self.outdated is None:
            self.outdated = error
            _log.error("this process ends: %s", error.text)
            self.when_outdated()

    def _wire(self, admin_token: str) -> None:
        settings, store, registry, wakeups = self.settings, self.store, self.registry, self.wakeups
        clock, ids, limits = self._clock, self._ids, settings.limits
        access_reader = AccessReader(store, clock, admin_token)
        access_writer = AccessWriter(store, clock=clock, ids=ids, randomness=self._randomness, limits=limits)
        self._org = org_writer = OrgWriter(
            store, registry, access_writer, wakeups.ring, clock=clock, ids=ids, limits=limits
        )
        org = OrgReader(registry)
        self._mirrors.keep(OrgMirror(registry), *OrgMirror.KINDS)
        self._mirrors.keep(access_reader, *AccessReader.KINDS)
        writer = MessageWriter(store, org, wakeups, clock=clock, ids=ids, limits=limits)
        reader = MessageReader(store, org, wakeups, limits=limits, public_url=settings.url)
        catch_up = store.catch_up if store.shared else None
        guards = Guards(access_reader, org, self._hosts(), settings.cookie, catch_up)
        feed = Feed(store, wakeups, org, reader)
        snapshots = SnapshotReader(store, feed, org, reader, clock=clock, limits=limits)
        self.live = Live(feed, org, clock=clock, limits=limits)
        access_reader.when_ended(self.live.end_session)
        self._sessions = SessionEdge(
            access_writer,
            access_reader,
            org,
            guards,
            self.live,
            clock=clock,
            settings=settings,
            version=self.version,
        )
        edges = (
            CanvasEdge(),
            SystemEdge(
                partial(store.rows, "meta_value", {"name": "schema"}),
                self._how_others_are_heard,
                version=self.version,
                process=self.process,
                table=self._table,
            ),
            OrgEdge(org_writer, access_writer, access_reader, org),
            WorkspaceEdge(org_writer, org, public_url=settings.url),
            RegistryEdge(org_writer, org, guards, clock=clock, limits=limits),
            MessageEdge(writer, reader, clock=clock, limits=limits),
            EventEdge(self.live, feed, snapshots, org, guards),
            self._sessions,
        )
        self.routes = Routes(route for edge in edges for route in edge.routes())
        self.app = App(self.routes, guards, ids=ids, limits=limits)

    def _table(self) -> list[Route]:
        return self.routes.rows

    def _how_others_are_heard(self) -> str | None:
        """What `/ready` says of wake-ups by other processes; nothing where there are none."""
        if self.bus is None:
            return None
        every = f"degraded: looking again every {self.settings.limits.look_again_seconds} s"
        return "listening" if self.bus.listening else every

    def _hosts(self) -> frozenset[str]:
        """The host names this server answers for."""
        public = self.settings.url.split("://", 1)[-1].split("/", 1)[0].rsplit(":", 1)[0]
        names = (*_LOOPBACK, self.settings.host, public, *self.settings.allowed_hosts)
        return frozenset(name.lower() for name in names)

    async def open(self) -> None:
        """Opens the store, loads the registry, starts the workers. A first start makes an organisation."""
        await self.store.open()
        _log.info("process %s opens the store", self.process)
        if self.store.shared:
            await self._open_to_others()
        await load_registry(self.store, self.registry)
        if not self.registry.orgs():
            await self._org.first_org(self._first_org)
        await self._org.sweep("")
        self._worker = asyncio.create_task(self._timers.work())
        if self.store.shared:
            self._followers = [
                asyncio.create_task(follow(self.store, self.wakeups)),
                asyncio.create_task(self._keep_saving()),
            ]

    async def _open_to_others(self) -> None:
        """From here on this process hears what others ring, and they hear it."""
        self.bus = Bus(
            self._choose_link(),
            self.wakeups,
            process=self.process,
            clock=self._clock,
            randomness=self._randomness,
            check_seconds=self.settings.limits.look_again_seconds,
        )
        await self.bus.open()

    async def _keep_saving(self) -> None:
        """Saves what agents say to this process: soon if they work on something else now, else with each sweep."""

        async def look() -> Look[bool]:
            try:
                if await self._org.save_pulses():
                    await self._clock.wait(self._closing.wait(), _SAVE_SECONDS)
            except (StoreUnavailable, ServerBusy):
                return Look(None, again_in=_RETRY_SECONDS)
            return Look(None, again_in=self.settings.limits.sweep_seconds)

        while not self.wakeups.closing:
            await self.wakeups.until(PULSES, look, _DAY_SECONDS)

    async def login_link(self) -> str:
        """A link that lets the first owner of the first organisation in, once."""
        return (await self._sessions.owner_link(self.registry.orgs()[0].id)).url

    async def close(self) -> None:
        """Lets waits end, finishes what was accepted, closes the store."""
        self.wakeups.close()
        self._closing.set()
        await self.live.close()
        if self._worker is not None:
            await asyncio.gather(self._worker, *self._followers)
            if self.outdated is None:
                await self._org.save_pulses()
        await self.store.close()
        if self.bus is not None:
            await self.bus.close()


class HttpServer(uvicorn.Server):
    """uvicorn, but a signal lets held requests end at once, and the process then ends with exit code 0."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._molecule = server
        self._ready: Callable[[Server], Awaitable[None]] | None = None

    def when_listening(self, ready: Callable[[Server], Awaitable[None]]) -> None:
        """What to do once the server listens."""
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
        self.listening.set()
        if self._ready is not None:
            await self._ready(self._molecule)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are taken by `serve`; uvicorn would raise them again once it has ended."""
        yield

    def stop(self) -> None:
        """Begins to end; a second call does not wait for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._molecule.wakeups.close()


def http_server(server: Server) -> HttpServer:
    """The listener of an opened server, not yet listening."""
    settings = server.settings
    config = uvicorn.Config(
        _no_asgi,
        host=settings.host,
        port=settings.port,
        http=connection_class(server.app, settings.limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,  # a hung handler must not hold up the shutdown
    )
    return HttpServer(config, server)


async def _no_asgi(scope: dict[str, Any], _receive: object, _send: object) -> None:
    """Stands where uvicorn wants an ASGI application: requests never leave our own connection class."""
    raise LookupError(scope["type"])


async def serve(server: Server, ready: Callable[[Server], Awaitable[None]] | None = None) -> None:
    """Serves until a signal comes. `ready` is called once the server listens."""
    await server.open()
    try:
        http = http_server(server)
        if ready is not None:
            http.when_listening(ready)
        server.when_outdated = http.stop
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, http.stop)
        await http.serve()
    finally:
        await server.close()
    if server.outdated is not None:
        raise server.outdated


def run(server: Server, ready: Callable[[Server], Awaitable[None]] | None = None) -> None:
    """Serves in this process, on the fastest event loop there is. `ready` is called once the server listens."""
    # What start-up made lives as long as the process: the collector need not walk it again and again, nor look for
    # garbage after every few hundred of the short-lived objects that a request makes (8 us of each message).
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        import uvloop
    except ImportError:  # not available on Windows
        asyncio.run(serve(server, ready))
    else:
        uvloop.run(serve(server, ready))
