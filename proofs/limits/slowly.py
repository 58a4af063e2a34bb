"""Clients that say a little now and then, or nothing, or take no answer: so many at once, and each must be let go."""

import asyncio
import socket
from random import Random

from proofs.workload.company import Seat
from testing.raw_http import chunk, request

# As often as a slow one says a little.
_TRICKLE_SECONDS = 0.5
_READS_BYTES = 4096
_PIPELINED = 200


class Slow:
    """One of them. `is_here`: it is connected and has begun; `ended`: the server has closed the connection."""

    def __init__(self, port: int, seat: Seat, dice: Random) -> None:
        self._port = port
        self._seat = seat
        self.kind = dice.choice(("silent", "head", "body", "chunks", "deaf"))
        self.is_here = self.ended = False

    async def bother(self, seconds: float) -> None:
        """Until the server has had enough, or so long."""
        line = socket.socket()
        line.setblocking(False)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READS_BYTES)
        await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", self._port))
        begun, piece = self._words()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_sendall(line, begun)
                self.is_here = True
                await self._trickle(line, piece)
        except ConnectionError:
            self.ended = True
        except TimeoutError:
            pass
        finally:
            self.is_here = False
            line.close()

    async def _trickle(self, line: socket.socket, piece: bytes) -> None:
        """Says a little more, until what was said cannot arrive any more. What is answered is read by those that are
        not deaf, so that the end is seen."""
        loop = asyncio.get_running_loop()
        over: asyncio.Task[None] | None = None if self.kind == "deaf" else asyncio.create_task(_to_the_end(line))
        waited = [over] if over is not None else [loop.create_future()]
        try:
            while not waited[0].done():
                await asyncio.wait(waited, timeout=_TRICKLE_SECONDS)
                if piece and not waited[0].done():
                    await loop.sock_sendall(line, piece)
            self.ended = True
        finally:
            waited[0].cancel()

    def _words(self) -> tuple[bytes, bytes]:
        path, token = f"/workspaces/{self._seat.id}/a2a", self._seat.token
        if self.kind == "silent":
            return b"", b""
        if self.kind == "head":
            return b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"a"
        if self.kind == "body":
            return request("POST", path, token=token, headers={"Content-Length": "100000"}) + b"{", b" "
        if self.kind == "chunks":
            return request("POST", path, token=token, headers={"Transfer-Encoding": "chunked"}), chunk(b" ")
        return request("GET", "/openapi.json", token=token) * _PIPELINED, b"\r\n"


async def _to_the_end(line: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(line, _READS_BYTES):
        pass
