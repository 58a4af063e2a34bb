"""Clients that misbehave, in a process of their own.

    python -m benchmarks.nuisance

reads a plan (one line of JSON), opens all its connections, prints `ready`, and misbehaves until the next line comes;
then prints what it did (one line of JSON).

A flood asks as fast as it is answered, whatever the answer. A hanging agent takes what it is sent and never answers.
Slow sockets send a head, or a file, byte by byte, or never read the file, or the events, that they asked for; one that
the server hangs up on comes again at once. WebSockets that flood send a thousand small frames every 20 ms.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import NamedTuple

import msgspec
import uvloop
from msgspec import Struct

from benchmarks.listeners import socket_request
from benchmarks.load import Seat
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.live.reporter import LiveReporter
from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock

_BYTE_EVERY_SECONDS = 1.0
# A small window, so that what a slow reader leaves unread is the server's to keep, and not the kernel's.
_WINDOW = 4096
# A thousand frames each time and on each socket: many times what a caller may send; the processor is left to others.
_FRAMES_EVERY_SECONDS = 0.02
_FORM_BYTES = 1 << 20
_THOUSAND = 1000
# Frames of a client are masked: here with zeros, which change nothing.
_MASK = bytes(4)
_EMPTY_FRAGMENTS = (b"\x01\x80" + _MASK) + (b"\x00\x80" + _MASK) * (_THOUSAND - 1)
_SUBSCRIBE = b'{"type":"subscribe","after":0}'
_SUBSCRIPTIONS = (bytes((0x81, 0x80 | len(_SUBSCRIBE))) + _MASK + _SUBSCRIBE) * _THOUSAND
_FORM = b'--x\r\ncontent-disposition: form-data; name="files"; filename="slow.txt"\r\n\r\n'

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Nuisance(Struct, frozen=True, kw_only=True):
    """What to do. `flood`: requests, each on a connection of its own. `hanging`: the port of an agent that hangs.
    `slow`: how many slow sockets, of all four kinds, as `seat`; `file`: the path of a large file of its own.
    `frame_floods`: WebSockets of `seat` that flood with frames, half with empty fragments, half with subscriptions.
    `deltas`: pieces of text a second of a turn of `seat`."""

    port: int
    flood: list[str] = []
    hanging: int | None = None
    slow: int = 0
    frame_floods: int = 0
    deltas: int = 0
    seat: Seat | None = None
    file: str = ""


class Mischief(Struct, kw_only=True):
    """What came of it. `statuses`: how often the flood was answered with which; `cut`: how often the server hung up
    on a slow or flooding socket; `held`: calls that hang; `frames`: thousands of frames that were sent; `deltas`:
    pieces of text that were reported; `events`: bytes of live events."""

    statuses: dict[str, int] = {}
    cut: int = 0
    held: int = 0
    frames: int = 0
    deltas: int = 0
    events: int = 0


class Target(NamedTuple):
    """A workspace whose turns are reported."""

    id: str
    client: ApiClient

    def api(self) -> ApiClient:
        """Return its client."""
        return self.client


class Crew:
    """All that misbehave."""

    def __init__(self, plan: Nuisance) -> None:
        self._plan = plan
        self.did = Mischief()
        self._tasks: list[asyncio.Task[None]] = []
        self._standing = 0
        self._held: list[asyncio.StreamWriter] = []
        self.all_stand = asyncio.Event()

    async def start(self) -> None:
        """Begins; returns once every slow socket stands."""
        if self._plan.hanging is not None:
            await asyncio.start_server(self._hang, "127.0.0.1", self._plan.hanging)
        ways = (self._slow_head, self._slow_body, self._slow_file, self._slow_events)
        slow = islice(cycle(ways), self._plan.slow)
        self._tasks += [asyncio.create_task(self._again(way)) for way in slow]
        if self._tasks:
            await self.all_stand.wait()

    def go(self) -> None:
        """Floods."""
        self._tasks += [asyncio.create_task(self._flood(request.encode())) for request in self._plan.flood]
        kinds = islice(cycle((_EMPTY_FRAGMENTS, _SUBSCRIPTIONS)), self._plan.frame_floods)
        self._tasks += [asyncio.create_task(self._flood_frames(frames)) for frames in kinds]
        if self._plan.deltas:
            self._tasks += [asyncio.create_task(self._stream_turn()), asyncio.create_task(self._watch_turn())]

    async def stop(self) -> Mischief:
        """Ends it. Raises what ended a task of it before."""
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError):
                raise RuntimeError("a nuisance ended by itself") from outcome
        return self.did

    # -- one flooding, one hanging -------------------------------------------------------------------------------------

    async def _flood(self, request: bytes) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._plan.port)
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    writer.write(request)
                    await self._read_answer(reader)
            writer.close()

    async def _flood_frames(self, frames: bytes) -> None:
        """Opens a WebSocket and sends frames; opens the next one when the server has closed it."""
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._plan.port)
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                writer.write(socket_request(self._plan.port, self._seat().token))
                head = await reader.readuntil(b"\r\n\r\n")
                status = head[9:12].decode()
                self.did.statuses[status] = self.did.statuses.get(status, 0) + 1
                drops = asyncio.create_task(self._drop_input(reader))
                try:
                    while status == "101" and not (drops.done() or writer.transport.is_closing()):
                        writer.write(frames)
                        await writer.drain()
                        self.did.frames += 1
                        await asyncio.sleep(_FRAMES_EVERY_SECONDS)
                finally:
                    drops.cancel()
            self.did.cut += 1
            writer.transport.abort()
            await asyncio.sleep(_FRAMES_EVERY_SECONDS)

    async def _stream_turn(self) -> None:
        """Reports the text of a turn as fast as a model writes it."""
        seat = self._seat()
        async with ApiClient(f"http://127.0.0.1:{self._plan.port}", seat.token) as api:
            reporter = LiveReporter(Target(seat.id, api), SystemClock(), AgentSettings())
            turn = reporter.begin("streams")
            try:
                start = asyncio.get_running_loop().time()
                while True:
                    turn.text("word ")
                    self.did.deltas += 1
                    due = start + self.did.deltas / self._plan.deltas
                    await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            finally:
                await reporter.close()

    async def _watch_turn(self) -> None:
        """Reads the live events of the agent that streams."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._plan.port)
        writer.write(socket_request(self._plan.port, self._seat().token))
        while data := await reader.read(1 << 16):
            self.did.events += len(data)

    async def _drop_input(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass

    async def _read_answer(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = head[9:12].decode()
        self.did.statuses[status] = self.did.statuses.get(status, 0) + 1
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))

    async def _hang(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.did.held += 1
        self._held.append(writer)
        await reader.read(1)

    # -- slow sockets --------------------------------------------------------------------------------------------------

    async def _again(self, way: Callable[[Streams], Awaitable[None]]) -> None:
        first = True
        while True:
            streams = await self._open()
            if first:
                first = False
                self._standing += 1
                if self._standing == self._plan.slow:
                    self.all_stand.set()
            with contextlib.suppress(ConnectionError):
                await way(streams)
            self.did.cut += 1
            streams[1].close()

    async def _open(self) -> Streams:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WINDOW)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", self._plan.port))
        return await asyncio.open_connection(sock=small, limit=_WINDOW)

    async def _slow_head(self, streams: Streams) -> None:
        streams[1].write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
        await self._trickle(streams)

    async def _slow_body(self, streams: Streams) -> None:
        seat = self._seat()
        kind = "content-type: multipart/form-data; boundary=x"
        head = self._head("POST", f"/workspaces/{seat.id}/chat/uploads", f"{kind}\r\ncontent-length: {_FORM_BYTES}\r\n")
        streams[1].write(head + _FORM)
        await self._trickle(streams)

    async def _slow_file(self, streams: Streams) -> None:
        streams[1].write(self._head("GET", self._plan.file))
        await self._sip(streams)

    async def _slow_events(self, streams: Streams) -> None:
        streams[1].write(socket_request(self._plan.port, self._seat().token))
        await self._sip(streams)

    async def _trickle(self, streams: Streams) -> None:
        """A byte now and then, until the server has enough of it."""
        reader, writer = streams
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while not gone.done():
                writer.write(b"x")
                await asyncio.wait((gone,), timeout=_BYTE_EVERY_SECONDS)
        finally:
            gone.cancel()

    async def _sip(self, streams: Streams) -> None:
        """Reads a byte now and then."""
        reader, _writer = streams
        while await reader.read(1):  # noqa: ASYNC110 - no event to wait for: it is slow
            await asyncio.sleep(_BYTE_EVERY_SECONDS)

    def _head(self, method: str, path: str, more: str = "") -> bytes:
        place = f"127.0.0.1:{self._plan.port}"
        token = self._seat().token
        return f"{method} {path} HTTP/1.1\r\nhost: {place}\r\nauthorization: Bearer {token}\r\n{more}\r\n".encode()

    def _seat(self) -> Seat:
        assert self._plan.seat is not None
        return self._plan.seat


async def _misbehave(plan: Nuisance) -> None:
    crew, loop = Crew(plan), asyncio.get_running_loop()
    await crew.start()
    print("ready", flush=True)
    crew.go()
    await loop.run_in_executor(None, sys.stdin.readline)
    print(msgspec.json.encode(await crew.stop()).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(_misbehave(msgspec.json.decode(sys.stdin.readline(), type=Nuisance)))
