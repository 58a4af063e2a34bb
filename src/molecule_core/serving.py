"""A wired server in a process of its own: the listener, signals, the event loop.

Above: the command line. Below: `server`, `edges/protocol.py`.
"""

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import uvicorn

from molecule_core.edges.protocol import connection_class
from molecule_core.ground import machine
from molecule_core.ground.limits import SPARE_FILES
from molecule_core.server import Server


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


async def serve(
    server: Server,
    ready: Callable[[Server], Awaitable[None]] | None = None,
    before_end: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serves until a signal comes. `ready` is called once the server listens; `before_end` after the first signal, and
    what it does is done while the server still serves. A second signal does not wait for that."""
    await server.open()
    try:
        http = http_server(server)
        if ready is not None:
            http.when_listening(ready)
        server.when_outdated = http.stop
        end = http.stop if before_end is None else _after(before_end, http.stop)
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, end)
        await http.serve()
    finally:
        await server.close()
    if server.outdated is not None:
        raise server.outdated


def _after(first: Callable[[], Awaitable[None]], then: Callable[[], None]) -> Callable[[], None]:
    """What to call to have `then` called once `first` is done; called again meanwhile, `then` follows at once."""
    under_way: set[asyncio.Future[None]] = set()

    def call() -> None:
        if under_way:
            then()
        else:
            under_way.add(asyncio.ensure_future(first()))
            next(iter(under_way)).add_done_callback(lambda _: then())

    return call


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
