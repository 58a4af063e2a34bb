"""Somebody who watches over a WebSocket written by hand, reads as fast as it can, or now and then not at all.

A protocol without tasks of its own: two hundred of them are read in one process, millions of frames in all.
"""

import asyncio
import base64
import json
import socket
from random import Random

import msgspec
from msgspec import Struct
from websockets.frames import Frame, Opcode

HEALTHY, SLUGGISH, STALLED = "healthy", "sluggish", "stalled"
# What the system takes for one that does not read must not hide it. Segments are as small as they are on a network:
# loopback's, of 64 KiB, do not fit into so small a window: the system would send one a probe, also to who reads.
_READS_BYTES, _SEGMENT_BYTES = 32 << 10, 1460
_PING = Frame(Opcode.PING, b"").serialize(mask=True)
_PING_SECONDS = 0.25
_NAP_SECONDS = (0.2, 0.7)
# A sluggish one naps after so many frames, a stalled one falls asleep for good after so many.
_NAPS_AFTER, _SLEEPS_AFTER = (50, 150), (50, 1_500)
_BACK_SECONDS = 0.05


class _Frame(Struct):
    """As much of a frame as says where in the journal it stands."""

    seq: int | None = None
    type: str | None = None


_FRAME = msgspec.json.Decoder(_Frame)


class Watcher(asyncio.Protocol):
    """One of them, over all its connections. `last`: the number it was told of last; it must be told of every one."""

    def __init__(self, port: int, token: str, kind: str, dice: Random) -> None:
        self._port = port
        self._token = token
        self.began_as = kind
        self.kind = HEALTHY if kind == SLUGGISH else kind
        self._dice = dice
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._is_open = self._is_behind = False
        self._wakes_after = 0
        self._pinging: asyncio.TimerHandle | None = None
        self._slept_at = 0.0
        self.is_leaving = False
        self.first = self.last = 0
        self.told = self.wrong = self.lost = self.cuts = self.sleeps = 0
        self.longest_sleep = 0.0
        self.begun = asyncio.get_running_loop().create_future()

    async def connect(self) -> None:
        """Comes, or comes back."""
        loop = asyncio.get_running_loop()
        line = socket.socket()
        if self.began_as != HEALTHY:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READS_BYTES)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
        line.setblocking(False)
        await loop.sock_connect(line, ("127.0.0.1", self._port))
        await loop.create_connection(lambda: self, sock=line)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._buffer = transport, b""
        self._is_open, self._is_behind = False, bool(self.last)
        self._set_alarm()
        key = base64.b64encode(self._dice.randbytes(16)).decode()
        lines = ("GET /ws HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade", "Upgrade: websocket")
        more = ("Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", f"Authorization: Bearer {self._token}")
        transport.write("\r\n".join((*lines, *more, "", "")).encode())
        if self.last:
            wish = json.dumps({"type": "subscribe", "after": self.last}).encode()
            transport.write(Frame(Opcode.TEXT, wish).serialize(mask=True))

    def _set_alarm(self) -> None:
        first, last = _NAPS_AFTER if self.kind == SLUGGISH else _SLEEPS_AFTER
        self._wakes_after = 0 if self.kind == HEALTHY else self.told + self._dice.randint(first, last)

    # -- what it is told -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            _, is_whole, rest = self._buffer.partition(b"\r\n\r\n")
            if not is_whole:
                return
            self._is_open, self._buffer = True, rest
        place, end = 0, len(self._buffer)
        while end - place >= 2:
            size, start = self._buffer[place + 1], place + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                size, start = int.from_bytes(self._buffer[start : start + width]), start + width
            if start + size > end:
                break
            if self._buffer[place] & 0x0F == Opcode.TEXT:
                self._hear(_FRAME.decode(self._buffer[start : start + size]))
            place = start + size
        self._buffer = self._buffer[place:]
        if self._wakes_after and self.told >= self._wakes_after and not self.is_leaving:
            self._sleep()

    def _hear(self, frame: _Frame) -> None:
        if frame.seq is not None and not self._is_behind:
            self.wrong += frame.seq != self.last + 1
            self.last = frame.seq
            self.told += 1
        elif frame.type in ("resumed", "current"):
            self._is_behind = False
        elif frame.type == "snapshot_required":
            self.lost += 1

    def start_at(self, head: int) -> None:
        """Where the journal stood when it came: from there on it must be told of everything."""
        self.first = self.last = head

    # -- sleep ---------------------------------------------------------------------------------------------------------

    def _sleep(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()
        self.sleeps += 1
        self._wakes_after = 0
        loop = asyncio.get_running_loop()
        if self.kind == SLUGGISH:
            loop.call_later(self._dice.uniform(*_NAP_SECONDS), self.wake)
        else:
            self._slept_at = loop.time()
            self._feel()

    def _feel(self) -> None:
        """Says something now and then: whose line was cut cannot."""
        if self._transport is not None and not self._transport.is_closing() and self._slept_at:
            self._transport.write(_PING)
            self._pinging = asyncio.get_running_loop().call_later(_PING_SECONDS, self._feel)

    @property
    def is_asleep(self) -> bool:
        """Whether it reads nothing, until it is cut or woken."""
        return self._slept_at > 0

    def begin_to_nod(self) -> None:
        """It reads as fast as it can no more."""
        self.kind = SLUGGISH
        self._set_alarm()

    def stay_awake(self) -> None:
        """It does not fall asleep any more; who sleeps, sleeps on."""
        self.kind = HEALTHY
        self._wakes_after = 0

    def wake(self) -> None:
        """Reads again."""
        self._slept_at = 0.0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        loop = asyncio.get_running_loop()
        if self._slept_at:
            self.longest_sleep = max(self.longest_sleep, loop.time() - self._slept_at)
            self._slept_at = 0.0
        self._transport = None
        if not self.is_leaving:
            self.cuts += 1
            loop.call_later(_BACK_SECONDS, self._come_back)

    def _come_back(self) -> None:
        self._coming = asyncio.ensure_future(self.connect())

    def leave(self) -> None:
        """Goes for good."""
        self.is_leaving = True
        if self._transport is not None:
            self._transport.abort()
