"""Wake-ups by NATS, for who runs one anyway and wants them off the database. Needs the extra `nats`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from molecule_core.store.bus import Link, LinkLost

_ANSWER_SECONDS = 10
# What the client raises, and what connecting to somebody else's port may.
_BROKEN = (Error, OSError, TimeoutError, ValueError, EOFError)


class NatsLink(Link):
    """One connection to a NATS server. Its own attempts to connect again are off: `bus.py` does that for both links,
    because after a gap everybody has to look again. `epoch` is the store's: several stores may share a server."""

    def __init__(self, url: str, epoch: str) -> None:
        self._url = url
        self._subject = f"molecule.{epoch}"
        self._client: Client | None = None
        self._closed: asyncio.Future[None] | None = None

    async def connect(self, heard: Callable[[str], None], lost: Callable[[], None]) -> None:
        async def on_message(message: Msg) -> None:
            heard(message.data.decode("ascii", "replace"))

        self._closed = closed = asyncio.get_running_loop().create_future()

        async def on_close() -> None:
            if not closed.done():
                closed.set_result(None)
            lost()

        async def on_error(_error: Exception) -> None:
            """Said by `lost` already; the client would write it, with its address, to the log."""

        try:
            self._client = await nats.connect(
                self._url,
                name="molecule",
                allow_reconnect=False,
                max_reconnect_attempts=1,  # else the first connection is tried for ever, whatever the line above says
                reconnect_time_wait=0,
                connect_timeout=_ANSWER_SECONDS,
                closed_cb=on_close,
                error_cb=on_error,
            )
            await self._client.subscribe(self._subject, cb=on_message)
        except _BROKEN as error:
            raise LinkLost(type(error).__name__) from error
        await self.check()

    async def send(self, payload: str) -> None:
        client, _ = self._connected()
        try:
            await client.publish(self._subject, payload.encode())
        except _BROKEN as error:
            raise LinkLost(type(error).__name__) from error
        await self.check()  # a server that hears nothing any more is found out by what is said to it

    async def check(self) -> None:
        client, closed = self._connected()
        # The client goes on waiting for an answer that a closed connection can no longer bring.
        answered = asyncio.ensure_future(client.flush(_ANSWER_SECONDS))
        await asyncio.wait((answered, closed), return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            answered.cancel()
            raise LinkLost("the other side has hung up")
        try:
            answered.result()
        except _BROKEN as error:
            raise LinkLost(type(error).__name__) from error

    def _connected(self) -> "tuple[Client, asyncio.Future[None]]":
        if self._client is None or self._closed is None:
            raise LinkLost("not connected")
        return self._client, self._closed

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_BROKEN):
                await client.close()
