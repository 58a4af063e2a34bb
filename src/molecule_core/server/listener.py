"""Runs a server as a process: listener, signals, event loop.

Called by cli; calls `server/composition.py` and `api/http/connection.py`.
"""

import asyncio
import errno
import gc
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from molecule_core.api.http.connection import Connection
from molecule_core.api.routing import Request
from molecule_core.common import process_info
from molecule_core.common.clock import yield_to_others
from molecule_core.common.errors import BadSettings
from molecule_core.common.limits import SPARE_FILES
from molecule_core.server.composition import Server
from molecule_core.server.server_record import clear_server_record, write_server_record
from molecule_core.server.startup import open_server

# Steps of the event loop until a connection that was just accepted is in the registry, and can be shut down.
_ACCEPT_STEPS = 4
# Connections that are not accepted yet wait in the system's queue.
_BACKLOG = 2048
# A hanging handler must not delay shutdown.
_GRACE_SECONDS = 5.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("molecule.serving")


class HttpListener:
    """Listener of an opened server.

    On stop, long-polls and streams end at once, other requests after their response."""

    def __init__(self, server: Server) -> None:
        self.listening = asyncio.Event()
        self.grace_seconds: float | None = _GRACE_SECONDS
        """How long open requests may delay shutdown; None: until they end."""
        self._server = server
        self._registry = server.connection_registry
        # Where fewer files may be open than connections are allowed, the excess connections still get their 503.
        max_connections = min(server.settings.limits.connections, max(1, process_info.open_files_limit() - SPARE_FILES))
        self._limits = msgspec.structs.replace(server.settings.limits, connections=max_connections)
        self._on_ready: Callable[[Server], Awaitable[None]] | None = None
        self._stopping, self._force_stop = asyncio.Event(), asyncio.Event()

    def set_on_ready(self, on_ready: Callable[[Server], Awaitable[None]]) -> None:
        """Set the function that is called once the server listens."""
        self._on_ready = on_ready

    async def serve(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Serve until stopped, on bound sockets or where the settings say.

        Raises BadSettings if the address is not usable."""
        listeners = [await self._listen(sock=each) for each in sockets] or [await self._listen_configured()]
        for host, port, *_ in (each.getsockname() for listener in listeners for each in listener.sockets):
            write_server_record(self._server.settings, host, port)
            _log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
        self.listening.set()
        if self._on_ready is not None:
            await self._on_ready(self._server)
        await self._stopping.wait()
        _log.info("shutting down")
        for each in listeners:
            each.close()
        for _ in range(_ACCEPT_STEPS):
            await yield_to_others()
        self._registry.connections.shut_down_all()
        await self._wait_for_connections()
        clear_server_record(self._server.settings)

    def stop(self) -> None:
        """Begin shutdown; a second call does not wait for open requests."""
        if self._stopping.is_set():
            self._force_stop.set()
        self._stopping.set()
        self._server.wakeups.close()

    async def _listen_configured(self) -> asyncio.Server:
        settings = self._server.settings
        try:
            return await self._listen(host=settings.host, port=settings.port)
        except OSError as error:
            raise listen_error(settings.host, settings.port, error) from None

    async def _listen(self, **options: object) -> asyncio.Server:
        create_connection = partial(Connection[Request], self._server.app, self._limits, self._registry)
        made = asyncio.get_running_loop().create_server(create_connection, backlog=_BACKLOG, **options)  # type: ignore[call-overload]
        server: asyncio.Server = await made
        return server

    async def _wait_for_connections(self) -> None:
        """Wait for requests in progress, for at most `grace_seconds`, then cancel them and abort their connections."""
        waits = [asyncio.ensure_future(each) for each in (self._registry.wait_until_empty(), self._force_stop.wait())]
        done, _ = await asyncio.wait(waits, timeout=self.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if not done:
            late = len(self._registry.tasks)
            _log.error("%d requests were not answered in %g s and are cancelled", late, self.grace_seconds)
        for task in list(self._registry.tasks):
            task.cancel()
        self._registry.connections.abort_all()


def listen_error(host: str, port: int, error: OSError) -> BadSettings:
    """Describe an address that cannot be listened on, with advice."""
    if error.errno == errno.EADDRINUSE:
        return BadSettings(reason=f"port {port} is in use. Stop the program on it, or choose another port with --port.")
    detail = error.strerror or error
    return BadSettings(reason=f"the server cannot listen on {host}:{port} ({detail}). Choose another --host or --port.")


async def serve(
    server: Server,
    on_ready: Callable[[Server], Awaitable[None]] | None = None,
    before_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until a signal.

    `on_ready` is called once the server listens; `before_stop` after the first signal, while the server still serves. A
    second signal does not wait for it; after shutdown, signals are ignored. Raises BadSettings if the store cannot be
    opened or the address is not usable."""
    await open_server(server)
    try:
        http = HttpListener(server)
        if on_ready is not None:
            http.set_on_ready(on_ready)
        server.runtime.on_outdated = http.stop
        end = http.stop if before_stop is None else run_before(before_stop, http.stop)
        loop = asyncio.get_running_loop()
        # Not loop.add_signal_handler: the loop removes its handlers when it closes, and a later signal would kill.
        for each in _STOP_SIGNALS:
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(end))
        await http.serve()
    finally:
        try:
            await server.close()
        finally:
            # A second Ctrl-C must not kill the process at the end of a clean shutdown.
            for each in _STOP_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
    if server.runtime.outdated is not None:
        raise server.runtime.outdated


def run_before(first: Callable[[], Awaitable[None]], then: Callable[[], None]) -> Callable[[], None]:
    """Return a callback that calls `then` after `first` is done.

    Called again meanwhile, it calls `then` at once, and not a second time when `first` is done."""
    under_way: set[asyncio.Future[None]] = set()
    is_hurried = False

    def done(_: asyncio.Future[None]) -> None:
        if not is_hurried:
            then()

    def call() -> None:
        nonlocal is_hurried
        if under_way:
            is_hurried = True
            then()
        else:
            under_way.add(asyncio.ensure_future(first()))
            next(iter(under_way)).add_done_callback(done)

    return call


def run(
    server: Server,
    on_ready: Callable[[Server], Awaitable[None]] | None = None,
    before_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve in this process, on uvloop if available. `on_ready` and `before_stop` as in `serve`."""
    # Objects made at start live as long as the process: the collector should not scan them repeatedly, nor run after
    # every few hundred of the short-lived objects of a request (8 us of each message).
    process_info.raise_open_files_limit(server.settings.limits.connections + SPARE_FILES)
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        import uvloop
    except ImportError:  # not available on Windows
        asyncio.run(serve(server, on_ready, before_stop))
    else:
        uvloop.run(serve(server, on_ready, before_stop))
