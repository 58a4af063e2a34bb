"""A body of hundreds of megabytes, announced or in pieces, of which no more is sent at first than may be needed."""

import asyncio
import contextlib
from pathlib import Path

from anyio.lowlevel import checkpoint

from molecule_core.common.limits import Limits
from testing.raw_http import Reply, Wire, chunk, request

_PIECE, _OVER = 1 << 16, 1 << 20
_DEFAULTS = Limits()
# Reading and writing, as Linux lets a socket grow; elsewhere both are smaller than this.
_BUFFERS = tuple(Path("/proc/sys/net/ipv4", name) for name in ("tcp_rmem", "tcp_wmem"))
_USUAL_BUFFER = 64 << 20


def most_sent() -> int:
    """So much of a body that is refused can leave a client: what the server may read of it, and what kernels hold."""
    held = sum(int(path.read_text().split()[-1]) if path.exists() else _USUAL_BUFFER for path in _BUFFERS)
    return _DEFAULTS.body_bytes + _OVER + _DEFAULTS.refused_bytes + held


class Flood:
    """One of them. `sent`: so much of it has left."""

    def __init__(self, connection: Wire, size: int, *, is_announced: bool) -> None:
        self._connection = connection
        self._size = size
        self._is_announced = is_announced
        self.sent = 0

    async def begin(self, path: str, token: str) -> None:
        """The head; and of a body in pieces so much that it must be refused by then."""
        said = {"Content-Length": str(self._size)} if self._is_announced else {"Transfer-Encoding": "chunked"}
        await self._connection.send(request("POST", path, token=token, headers=said))
        with contextlib.suppress(ConnectionError):
            while not self._is_announced and self.sent < _DEFAULTS.body_bytes + _OVER:
                await self._send_piece()

    async def is_answered(self, seconds: float) -> bool:
        """Whether something comes back within so many seconds, with no more of it sent."""
        self._answer = asyncio.create_task(self._connection.reply(seconds))
        await asyncio.wait([self._answer])
        return self._answer.exception() is None

    async def go_on(self) -> None:
        """Sends the rest, until the connection is cut."""
        try:
            while self.sent < self._size:
                await self._send_piece()
                # Who never reads while it sends finds no answer, only the end of the connection.
                await checkpoint()
            if not self._is_announced:
                await self._connection.send(chunk(b""))
        except ConnectionError:
            pass

    async def _send_piece(self) -> None:
        piece = b" " * _PIECE
        await self._connection.send(piece if self._is_announced else chunk(piece))
        self.sent += _PIECE

    async def reply(self, seconds: float) -> Reply:
        """The answer, now if there was none before. Raises OSError, EOFError or TimeoutError."""
        if self._answer.exception() is None:
            return self._answer.result()
        return await self._connection.reply(seconds)
