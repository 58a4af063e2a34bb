"""Wake-ups over NATS, for deployments that already run one. Needs the optional extra `nats`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from molecule_core.store.bus import BusTransport, BusTransportLost

_TIMEOUT_SECONDS = 10
# What the client raises, also when the port belongs to another service.
_CONNECTION_ERRORS = (Error, OSError, TimeoutError, ValueError, EOFError)


class NatsTransport(BusTransport):
    """One connection to a NATS server. `epoch` is the store's: several stores may share a server.

    The client's own reconnects are off: `bus.py` reconnects for both transports, because all waiters must poll again
    after a gap."""

    def __init__(self, url: str, epoch: str) -> None:
        self._url = url
        self._subject = f"molecule.{epoch}"
        self._client: Client | None = None
        self._closed: asyncio.Future[None] | None = None

    async def connect(self, on_payload: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        async def on_message(message: Msg) -> None:
            on_payload(message.data.decode("ascii", "replace"))

        self._closed = closed = asyncio.get_running_loop().create_future()

        async def on_close() -> None:
            if not closed.done():
                closed.set_result(None)
            on_lost()

        async def on_error(_error: Exception) -> None:
            """Ignore the error: `on_close` reports it, and the client would log it with the server's address."""

        try:
            self._client = await nats.connect(
                self._url,
                name="molecule",
                allow_reconnect=False,
                max_reconnect_attempts=1,  # else the first connection is retried for ever, whatever the line above says
                reconnect_time_wait=0,
                connect_timeout=_TIMEOUT_SECONDS,
                closed_cb=on_close,
                error_cb=on_error,
            )
            await self._client.subscribe(self._subject, cb=on_message)
        except _CONNECTION_ERRORS as error:
            raise BusTransportLost(type(error).__name__) from error
        await self.check()

    async def send(self, payload: str) -> None:
        client, _ = self._require_connection()
        try:
            await client.publish(self._subject, payload.encode())
        except _CONNECTION_ERRORS as error:
            raise BusTransportLost(type(error).__name__) from error
        await self.check()  # a dead connection is detected only by sending

    async def check(self) -> None:
        client, closed = self._require_connection()
        # The client would keep waiting for a response that a closed connection can no longer deliver.
        flushed = asyncio.ensure_future(client.flush(_TIMEOUT_SECONDS))
        await asyncio.wait((flushed, closed), return_when=asyncio.FIRST_COMPLETED)
        if not flushed.done():
            flushed.cancel()
            raise BusTransportLost("the other side closed the connection")
        try:
            flushed.result()
        except _CONNECTION_ERRORS as error:
            raise BusTransportLost(type(error).__name__) from error

    def _require_connection(self) -> "tuple[Client, asyncio.Future[None]]":
        if self._client is None or self._closed is None:
            raise BusTransportLost("not connected")
        return self._client, self._closed

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_CONNECTION_ERRORS):
                await client.close()
