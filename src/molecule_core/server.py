"""The only place where things are wired: store, journal, readers, writers, edges, workers."""

import asyncio
import contextlib
import gc
import importlib.metadata
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import uvicorn

from molecule_core.access.pruning import AccessPruning
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.app import App
from molecule_core.edges.auth import Guards
from molecule_core.edges.canvas import CanvasEdge
from molecule_core.edges.events import EventEdge
from molecule_core.edges.live import Live
from molecule_core.edges.messages import MessageEdge
from molecule_core.edges.operations import OperationsEdge, RetentionFigures, Sources, StoreFigures
from molecule_core.edges.orgs import OrgEdge
from molecule_core.edges.protocol import connection_class
from molecule_core.edges.registry import RegistryEdge
from molecule_core.edges.routes import Route, Routes
from molecule_core.edges.sessions import SessionEdge
from molecule_core.edges.system import SystemEdge
from molecule_core.edges.workspaces import WorkspaceEdge
from molecule_core.ground import machine
from molecule_core.ground.clock import Clock, SystemClock
from molecule_core.ground.ids import Ids, Randomness, SystemRandomness
from molecule_core.ground.limits import SPARE_FILES
from molecule_core.ground.logs import hide
from molecule_core.ground.metrics import MessageMeter, RouteMeter
from molecule_core.ground.settings import Settings, environment
from molecule_core.ground.tracing import Tracing, tracing_to
from molecule_core.messages.pruning import MessagePruning
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.pruning import HeartbeatPruning
from molecule_core.org.reader import OrgReader, load_registry
from molecule_core.org.registry import Registry
from molecule_core.org.writer import SWEEP, OrgWriter
from molecule_core.store.database import Store
from molecule_core.store.pruning import RETENTION, JournalPruning, Retention
from molecule_core.store.sqlite import DATABASE_FILE, SqliteStore
from molecule_core.store.timers import Timers
from molecule_core.store.wakeups import Wakeups
from molecule_core.views.feed import Feed
from molecule_core.views.snapshot import SnapshotReader

FIRST_ORG = "Default"
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
        tracing: Tracing | None = None,
    ) -> None:
        self.settings = settings
        if settings.metrics_token:
            hide(settings.metrics_token)
        self._first_org = first_org
        self.version = importlib.metadata.version("molecule-core")
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._ids = Ids(self._clock, self._randomness)
        self.wakeups = Wakeups(self._clock)
        self._tracing = tracing or tracing_to(settings.otel_endpoint, environment(), self.version)
        self.store = self._choose_store()
        self.registry = Registry()
        self._wire(admin_token)
        self._timers = Timers(self.store, self._clock, self.wakeups)
        self._timers.owner(SWEEP, self._org.sweep)
        self._timers.owner(RETENTION, self._retention.on_due)
        self._worker: asyncio.Task[None] | None = None

    def _choose_store(self) -> Store:
        limits, ring = self.settings.limits, self.wakeups.ring
        if self.settings.database:
            from molecule_core.store.postgres import PostgresStore

            return PostgresStore(
                self.settings.database,
                clock=self._clock,
                ids=self._ids,
                limits=limits,
                ring=ring,
                copies=self.settings.state,
            )
        path = self.settings.state / DATABASE_FILE
        return SqliteStore(path, clock=self._clock, ids=self._ids, limits=limits, ring=ring)

    def _wire(self, admin_token: str) -> None:
        settings, store, registry, wakeups = self.settings, self.store, self.registry, self.wakeups
        clock, ids, limits = self._clock, self._ids, settings.limits
        access_reader = AccessReader(store, clock, admin_token, settings.metrics_token)
        access_writer = AccessWriter(store, clock=clock, ids=ids, randomness=self._randomness, limits=limits)
        self._org = org_writer = OrgWriter(
            store, registry, access_writer, wakeups.ring, clock=clock, ids=ids, limits=limits
        )
        org = OrgReader(registry)
        writer = MessageWriter(store, org, wakeups, clock=clock, ids=ids, limits=limits)
        reader = MessageReader(store, org, wakeups, limits=limits, public_url=settings.url)
        self._retention = Retention(
            store,
            (
                JournalPruning(store, lambda: [each.id for each in org.orgs()]),
                MessagePruning(store, org, limits=limits),
                AccessPruning(store),
                HeartbeatPruning(store),
            ),
            clock=clock,
            limits=limits,
        )
        guards = Guards(access_reader, org, self._hosts(), settings.cookie)
        feed = Feed(store, wakeups, org, reader)
        snapshots = SnapshotReader(store, feed, org, reader, clock=clock, limits=limits)
        self.live = Live(feed, org, clock=clock, limits=limits)
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
        message_edge = MessageEdge(writer, reader, clock=clock, limits=limits, tracing=self._tracing)
        refused = RouteMeter()
        edges = (
            CanvasEdge(),
            SystemEdge(partial(store.rows, "meta_value", {"name": "schema"}), self.version, self._table),
            OrgEdge(org_writer, access_writer, access_reader, org),
            WorkspaceEdge(org_writer, org, public_url=settings.url),
            RegistryEdge(org_writer, org, guards, clock=clock, limits=limits),
            message_edge,
            EventEdge(self.live, feed, snapshots, org, guards),
            self._sessions,
            self._operations(org, reader, message_edge.counted, refused),
        )
        self.routes = Routes(route for edge in edges for route in edge.routes())
        self.app = App(self.routes, guards, refused, ids=ids, limits=limits, access_log=settings.access_log)

    def _operations(
        self, org: OrgReader, messages: MessageReader, counted: MessageMeter, refused: RouteMeter
    ) -> OperationsEdge:
        store, retention = self.store, self._retention
        figures = RetentionFigures(
            retention.gone,
            lambda: retention.rounds,
            retention.would_go,
            lambda: retention.before,
            partial(retention.begin, 0),
        )
        sources = Sources(
            org=org,
            messages=messages,
            live=self.live,
            counted=counted,
            store=StoreFigures(store.dialect, store.meter, lambda: store.waiting),
            retention=figures,
            waits=lambda: self.wakeups.asleep,
            table=self._table,
            refused=refused,
        )
        return OperationsEdge(sources, clock=self._clock, version=self.version)

    def _table(self) -> list[Route]:
        return self.routes.rows

    def _hosts(self) -> frozenset[str]:
        """The host names this server answers for."""
        public = self.settings.url.split("://", 1)[-1].split("/", 1)[0].rsplit(":", 1)[0]
        names = (*_LOOPBACK, self.settings.host, public, *self.settings.allowed_hosts)
        return frozenset(name.lower() for name in names)

    async def open(self) -> None:
        """Opens the store, loads the registry, starts the workers. A first start makes an organisation."""
        await self.store.open()
        await load_registry(self.store, self.registry)
        if not self.registry.orgs():
            await self._org.create_org(self._first_org)
        await asyncio.gather(self._org.sweep(""), self._retention.begin())  # in one commit: a start should be quick
        self._worker = asyncio.create_task(self._timers.work())

    async def login_link(self) -> str:
        """A link that lets the first owner of the first organisation in, once."""
        return (await self._sessions.owner_link(self.registry.orgs()[0].id)).url

    async def close(self) -> None:
        """Lets waits end, finishes what was accepted, closes the store."""
        self.wakeups.close()
        await self.live.close()
        if self._worker is not None:
            await self._worker
            await self._org.sweep("")
        await self.store.close()


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
    # Where fewer files may be open than connections are allowed, the later ones get their 503 all the same.
    fewer = min(settings.limits.connections, max(1, machine.open_files_limit() - SPARE_FILES))
    limits = msgspec.structs.replace(settings.limits, connections=fewer)
    config = uvicorn.Config(
        _no_asgi,
        host=settings.host,
        port=settings.port,
        http=connection_class(server.app, limits),
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
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, http.stop)
        await http.serve()
    finally:
        await server.close()


def run(server: Server, ready: Callable[[Server], Awaitable[None]] | None = None) -> None:
    """Serves in this process, on the fastest event loop there is. `ready` is called once the server listens."""
    # What start-up made lives as long as the process: the collector need not walk it again and again, nor look for
    # garbage after every few hundred of the short-lived objects that a request makes (8 us of each message).
    machine.allow_open_files(server.settings.limits.connections + SPARE_FILES)
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        import uvloop
    except ImportError:  # not available on Windows
        asyncio.run(serve(server, ready))
    else:
        uvloop.run(serve(server, ready))
