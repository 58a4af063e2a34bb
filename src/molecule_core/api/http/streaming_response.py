"""An answer that is sent bit by bit, as fast as its client takes it: a file, which must not stand in memory.

Above: `api/http/connection.py` hands the connection over; it ends with the answer. Below: what the bits are read from.
"""

import asyncio
import logging
from typing import Any, Protocol

from molecule_core.api.http.response_head import render_head
from molecule_core.api.http.routing import Response
from molecule_core.api.http.socket_options import limit_unsent_bytes

# Read and sent at once: large enough that a file is not thousands of turns, small enough for many downloads.
_CHUNK_BYTES = 64 << 10
# Pieces under way at once, of all downloads together: between two turns of the loop no more than that is copied, so a
# crowd that begins at the same moment does not hold up everybody else.
_CONCURRENT_CHUNKS = 2
_log = logging.getLogger("molecule.http")


class ByteSource(Protocol):
    """Where the bits come from."""

    size: int

    async def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end."""

    def close(self) -> None:
        """Nothing more is read."""


def new_send_semaphore() -> asyncio.Semaphore:
    """What all that a server sends in this way shares: they take turns, piece by piece."""
    return asyncio.Semaphore(_CONCURRENT_CHUNKS)


class StreamingResponse(asyncio.Protocol):
    """Sends the head of an answer and then a source. A client that takes nothing for `patience` seconds is cut off."""

    def __init__(
        self, response: Response, source: ByteSource, semaphore: asyncio.Semaphore, *, stall_seconds: float
    ) -> None:
        self._response = response
        self._source = source
        self._semaphore = semaphore
        self._stall_seconds = stall_seconds
        self._drained: asyncio.Future[None] | None = None
        self._abort_timer: asyncio.TimerHandle | None = None

    def to_response(self) -> Response:
        """The answer that turns the connection into this."""
        return Response(b"", upgrade=self._take_over)

    def _take_over(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        """Begins. (What a client says behind its question is not listened to.)"""
        del data
        self._transport, self._connections = transport, connections
        limit_unsent_bytes(transport)
        self._head = render_head(self._response, b"", rate, keep_alive=False, length=self._source.size)
        transport.set_protocol(self)
        connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            self._transport.write(self._head)
            remaining = self._source.size
            while remaining > 0 and await self._wait_drained():
                async with self._semaphore:
                    chunk = await self._source.read(min(_CHUNK_BYTES, remaining))
                    self._transport.write(chunk)
                if not chunk:  # cut short meanwhile: the client sees by the length that it has not got all
                    break
                remaining -= len(chunk)
            if remaining > 0:
                self._transport.abort()
            else:
                self._close_gracefully()
        except asyncio.CancelledError:
            return  # its outcome would keep the piece, and this keeps the task
        except Exception:
            _log.exception("a file could not be read to its end")
            self._transport.abort()
        finally:
            self._source.close()

    async def _wait_drained(self) -> bool:
        """Waits until the client has taken nearly all; False: it takes nothing, or is gone."""
        if self._drained is not None:
            await asyncio.wait((self._drained,), timeout=self._stall_seconds)
        return self._drained is None and not self._transport.is_closing()

    def _close_gracefully(self) -> None:
        """Closes once the client has taken the rest; one that does not is cut off."""
        self._abort_timer = asyncio.get_running_loop().call_later(self._stall_seconds, self._transport.abort)
        self._transport.close()

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The client has read."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client is gone, or has all."""
        self._connections.discard(self)
        self._task.cancel()
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def shutdown(self) -> None:
        """The server stops: an answer that has begun may be taken to its end, as long as the server waits."""
