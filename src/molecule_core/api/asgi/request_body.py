"""Body of an ASGI request, bounded in size and in the time that the client takes to send it."""

import asyncio

from molecule_core.api.asgi.messages import Receive
from molecule_core.common.errors import BodyTimeout, BodyTooLarge
from molecule_core.common.limits import Limits


class ClientDisconnected(asyncio.CancelledError):
    """The client is gone. In the task of a handler this ends the task, as our own server does."""


class AsgiBody:
    """Async iterator over the chunks of a body, for a single reader."""

    def __init__(self, receive: Receive, limits: Limits, max_bytes: int) -> None:
        self._receive = receive
        self._limits = limits
        self._max_bytes = max_bytes
        self._received = 0
        self._waited = 0.0
        self._complete = asyncio.Event()
        self.is_disconnected = False
        self.is_given_up = False
        """Whether the client took too long; the server should not wait for the rest."""

    def __aiter__(self) -> "AsgiBody":
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk. Raises BodyTooLarge, BodyTimeout, ClientDisconnected."""
        chunk = b""
        while not chunk:
            if self._complete.is_set():
                raise StopAsyncIteration
            chunk = await self._next_chunk()
        return chunk

    async def _next_chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            async with asyncio.timeout(self._remaining_seconds()):
                message = await self._receive()
        except TimeoutError:
            self.is_given_up = True
            raise BodyTimeout(seconds=self._limits.body_seconds) from None
        self._waited += loop.time() - start
        if message["type"] == "http.disconnect":
            self.is_disconnected = True
            self._complete.set()
            raise ClientDisconnected
        chunk: bytes = message.get("body", b"")
        self._received += len(chunk)
        if self._received > self._max_bytes:
            raise BodyTooLarge(limit=self._max_bytes)
        if not message.get("more_body", False):
            self._complete.set()
        return chunk

    def _remaining_seconds(self) -> float:
        """Return how long the next chunk may take: each `body_bytes` of the body has `body_seconds`."""
        allowed = self._limits.body_seconds * (1 + self._received // self._limits.body_bytes)
        return max(0.0, allowed - self._waited)

    async def wait_disconnected(self) -> None:
        """Wait until the client is gone. The body belongs to its reader until it is complete."""
        await self._complete.wait()
        while not self.is_disconnected:
            self.is_disconnected = (await self._receive())["type"] == "http.disconnect"
