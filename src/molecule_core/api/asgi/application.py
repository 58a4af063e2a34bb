"""ASGI 3 application: the whole API behind any ASGI server, or mounted in another ASGI application.

Two paths run the same application code (routing, authentication, rate limits, handlers, streams):

- our server calls `HttpApplication` directly (`api/http/connection.py`): no scope, no messages and, for a handler that
  answers at once, no task;
- an ASGI server calls `AsgiApplication`, which builds the same requests from scopes and messages.

Body sizes and body times are bounded on both paths. Bounds of a connection (headers, idle and unread connections,
pipelining, number of connections) are the server's own: see docs/explanation/http-server.md.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, Protocol

from molecule_core.api.asgi.exchange import serve_http
from molecule_core.api.asgi.messages import AsgiContext, Receive, Scope, Send
from molecule_core.api.asgi.websocket import serve_websocket
from molecule_core.api.http.application_protocol import HttpApplication, R
from molecule_core.common.errors import MoleculeError
from molecule_core.common.limits import Limits

# A hanging handler must not delay shutdown; the same time as for our own server.
_GRACE_SECONDS = 5.0


class AsgiLifespan(Protocol):
    """What the application needs while it serves."""

    async def open(self) -> None:
        """Open it. An error is reported to the ASGI server, which then does not serve."""

    def begin_shutdown(self) -> None:
        """End waiting requests."""

    async def close(self) -> None:
        """Close it."""


class AsgiApplication(Generic[R]):
    """ASGI 3 application: scopes `http`, `websocket` and `lifespan`.

    Where another application mounts this one and sends it no lifespan scope, that application enters `running`."""

    def __init__(self, application: HttpApplication[R], lifespan: AsgiLifespan, limits: Limits) -> None:
        self._context = AsgiContext(application, limits)
        self._lifespan = lifespan
        self._is_open = False
        self._exchanges: set[asyncio.Task[Any]] = set()
        """Tasks of the ASGI server that wait for this application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        match scope["type"]:
            case "lifespan":
                await self._serve_lifespan(receive, send)
            case "http":
                await self._serve(serve_http, scope, receive, send)
            case "websocket":
                await self._serve(serve_websocket, scope, receive, send)
            case kind:
                raise ValueError(f"ASGI scope {kind!r} is not supported. Use http, websocket or lifespan.")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the application for the time of the block, as a lifespan scope does."""
        await self.open()
        try:
            yield
        finally:
            await self.close()

    async def open(self) -> None:
        """Open the store and start the workers."""
        await self._lifespan.open()
        self._is_open = True

    async def close(self) -> None:
        """End streams and waits, wait for open requests for at most `_GRACE_SECONDS`, close the store."""
        self._is_open = False
        self._lifespan.begin_shutdown()
        for handler in list(self._context.stream_handlers):
            handler.on_shutdown()
        if self._exchanges:
            _, late = await asyncio.wait(self._exchanges, timeout=_GRACE_SECONDS)
            for each in late:
                each.cancel()
        await self._lifespan.close()

    async def _serve(
        self,
        serve: Callable[[AsgiContext[R], Scope, Receive, Send], Awaitable[None]],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if not self._is_open:
            raise RuntimeError("the application is not open. Send it a lifespan scope, or enter its running().")
        exchange = asyncio.current_task()
        if exchange is None:
            raise RuntimeError("the application must be called in a task. Use an ASGI server.")
        self._exchanges.add(exchange)
        try:
            await serve(self._context, scope, receive, send)
        finally:
            self._exchanges.discard(exchange)

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            await self.open()
        except MoleculeError as error:
            await send({"type": "lifespan.startup.failed", "message": error.text})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})
