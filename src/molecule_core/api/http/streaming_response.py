"""Sends a response body in chunks at the client's speed, for files that must not be held in memory.

Takes the connection over from `api/http/connection.py` and closes it at the end.
"""

import asyncio
import logging
from typing import Any

from molecule_core.api.http.response import ByteSource, Response
from molecule_core.api.http.response_head import render_head
from molecule_core.api.http.socket_options import limit_unsent_bytes

# Large enough that a file does not take thousands of reads, small enough for many concurrent downloads.
SEND_CHUNK_BYTES = 64 << 10
# Chunks read at once by all downloads together: bounds the copying between two iterations of the event loop, so
# that many downloads starting together do not block other connections.
_CONCURRENT_CHUNKS = 2
_log = logging.getLogger("molecule.http")


def new_send_semaphore() -> asyncio.Semaphore:
    """Return the semaphore that all streamed responses of a server share."""
    return asyncio.Semaphore(_CONCURRENT_CHUNKS)


class StreamingResponse(asyncio.Protocol):
    """Protocol that sends a response head, then a source. Aborts if the client reads nothing for `stall_seconds`."""

    def __init__(
        self, response: Response, source: ByteSource, semaphore: asyncio.Semaphore, *, stall_seconds: float
    ) -> None:
        self._response = response
        self._source = source
        self._semaphore = semaphore
        self._stall_seconds = stall_seconds
        self._drained: asyncio.Future[None] | None = None
        self._abort_timer: asyncio.TimerHandle | None = None

    def take_over(self, transport: asyncio.Transport, connections: set[Any], rate: bytes) -> None:
        """Start sending. Further input of the client is ignored."""
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
                    chunk = await self._source.read(min(SEND_CHUNK_BYTES, remaining))
                    self._transport.write(chunk)
                if not chunk:  # the source was cut short: the client notices by the content length
                    break
                remaining -= len(chunk)
            if remaining > 0:
                self._transport.abort()
            else:
                self._close_gracefully()
        except asyncio.CancelledError:
            return  # re-raised, the exception would keep the chunk alive, and this object keeps the task
        except Exception:
            _log.exception("a file could not be read to its end")
            self._transport.abort()
        finally:
            self._source.close()

    async def _wait_drained(self) -> bool:
        """Wait until the client has read nearly all. False if it stalls or disconnects."""
        if self._drained is not None:
            await asyncio.wait((self._drained,), timeout=self._stall_seconds)
        return self._drained is None and not self._transport.is_closing()

    def _close_gracefully(self) -> None:
        """Close once the client has read the rest; abort it if it does not."""
        self._abort_timer = asyncio.get_running_loop().call_later(self._stall_seconds, self._transport.abort)
        self._transport.close()

    def pause_writing(self) -> None:
        """Note that the client reads slowly."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Continue sending."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Clean up, after a disconnect as after the last byte."""
        self._connections.discard(self)
        self._task.cancel()
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def shutdown(self) -> None:
        """Do nothing: a started response may finish within the server's shutdown time."""

    def abort(self) -> None:
        """Close the connection at once, without the rest of the response."""
        self._transport.abort()
