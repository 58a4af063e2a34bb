"""A bad line: a port in front of another one, whose bytes come late, come twice, come by halves or do not come.

It knows nothing of what it carries, but for one thing: a whole request that comes in one piece can be said twice.
"""

import asyncio
import contextlib
import re
from collections import Counter
from random import Random

# Of all pieces of a stream; the goals of the sheet.
_DELAYED, _LONGEST_DELAY_SECONDS = 0.10, 2.0
_DOUBLED = 0.05
_HALF_CLOSED = 0.05
_PIECE_BYTES = 1 << 16
# Whoever gets the second answer waits no longer for it; nobody else does.
_ECHO_SECONDS = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CALLS = (b"GET ", b"POST ")
_UPGRADE = b"upgrade: websocket"


class Link:
    """One connection through a line: two streams each way."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)
        self.is_doomed = False
        """The next piece is cut in its middle."""
        self.gone = asyncio.Event()

    def cut(self) -> None:
        """Ends both connections at once, without a word."""
        self.gone.set()
        for end in self._ends:
            end.transport.abort()


class Line:
    """Everybody who connects to it is connected with a port. `figures` counts what goes wrong."""

    def __init__(self, dice: Random, figures: Counter[str]) -> None:
        self._dice = dice
        self._figures = figures
        self._to = 0
        self._door: asyncio.Server | None = None
        self._links: list[Link] = []
        self._echoes: set[asyncio.Task[None]] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._requests = self._passed = 0
        self.is_fair = False
        """The weather has cleared up: nothing goes wrong any more."""

    async def open(self, to: int) -> int:
        """Opens it in front of a port of this machine; tells its own."""
        self._to = to
        self._door = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        port: int = self._door.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Ends all that goes through it."""
        if self._door is None:
            return
        self._door.close()
        for link in [*self._links]:
            link.cut()
        for echo in self._echoes:
            echo.cancel()
        await asyncio.gather(*self._echoes, *self._carrying, return_exceptions=True)
        await self._door.wait_closed()

    def cut_one(self) -> bool:
        """Dooms one of its connections: it is cut within the next piece. False if there is none."""
        whole = [link for link in self._links if not link.is_doomed]
        if whole:
            self._dice.choice(whole).is_doomed = True
        return bool(whole)

    def _begin(self, from_near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        carrying = asyncio.create_task(self._carry(from_near, to_near))
        self._carrying.add(carrying)
        carrying.add_done_callback(self._carrying.discard)

    async def _carry(self, from_near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        try:
            from_far, to_far = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            to_near.transport.abort()
            return
        link = Link(to_near, to_far)
        self._links.append(link)
        try:
            there = self._pass_on(link, from_near, to_far, is_asking=True)
            back = self._pass_on(link, from_far, to_near, is_asking=False)
            await asyncio.gather(there, back)
        except OSError:
            pass
        finally:
            link.cut()
            self._links.remove(link)

    async def _pass_on(
        self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_asking: bool
    ) -> None:
        while piece := await source.read(_PIECE_BYTES):
            if link.is_doomed:
                sink.write(piece[: self._dice.randrange(len(piece))])
                await sink.drain()
                self._figures["cuts"] += 1
                link.cut()
                return
            if is_asking:
                await self._ask(link, piece)
            elif self._throw(_DELAYED, "delayed"):
                await self._delay(link)
            if link.gone.is_set():
                return
            sink.write(piece)
            await sink.drain()
            if self._throw(_HALF_CLOSED, "half-closed"):
                break
        with contextlib.suppress(OSError):
            sink.write_eof()

    async def _ask(self, link: Link, piece: bytes) -> None:
        """A piece on its way there: if it is a request, it may be overtaken by others, or come twice."""
        self._requests += 1
        mine = self._requests
        if self._throw(_DELAYED, "delayed"):
            await self._delay(link)
        self._figures["overtaken"] += mine < self._passed
        self._passed = max(self._passed, mine)
        if _is_whole(piece) and not link.gone.is_set() and self._throw(_DOUBLED, "doubled"):
            echo = asyncio.create_task(self._say_again(piece))
            self._echoes.add(echo)
            echo.add_done_callback(self._echoes.discard)

    def _throw(self, share: float, what: str) -> bool:
        """Whether it happens this time."""
        happens = not self.is_fair and self._dice.random() < share
        self._figures[what] += happens
        return happens

    async def _delay(self, link: Link) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._dice.random() * _LONGEST_DELAY_SECONDS):
                await link.gone.wait()

    async def _say_again(self, request: bytes) -> None:
        """The same request over a connection of its own, whose answer nobody gets."""
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._to)
            try:
                writer.write(request)
                async with asyncio.timeout(_ECHO_SECONDS):
                    await reader.read(1)
            finally:
                writer.transport.abort()


def _is_whole(piece: bytes) -> bool:
    """Whether a piece is one request from its first byte to its last. A WebSocket is none."""
    head, end, body = piece.partition(b"\r\n\r\n")
    if not end or not head.startswith(_CALLS) or _UPGRADE in head.lower():
        return False
    found = _LENGTH.search(head + b"\r\n")
    return len(body) == (int(found[1]) if found else 0)
