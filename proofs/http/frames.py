"""Frames of JSON-RPC and of WebSockets with something broken in them."""

import asyncio
import base64
import json
from random import Random
from typing import Any

from websockets.frames import Frame, Opcode

from proofs.http.bending import bent_json
from proofs.http.lines import PATIENCE_SECONDS, Unanswered
from testing.live_clients import UPGRADE
from testing.raw_http import request

_TEXT = {"role": "user", "messageId": "m-1", "parts": [{"kind": "text", "text": "hello"}], "contextId": "c-1"}
_META = "io.modelcontextprotocol/"
A2A: tuple[dict[str, Any], ...] = (
    {"method": "message/send", "params": {"message": _TEXT, "configuration": {"blocking": False}}},
    {"method": "SendMessage", "params": {"message": {"role": "ROLE_USER", "parts": [{"text": "hello"}]}}},
    {"method": "tasks/get", "params": {"id": "nobody", "historyLength": 1}},
    {"method": "tasks/cancel", "params": {"id": "nobody"}},
    {"method": "message/stream", "params": {"message": _TEXT}},
)
MCP: tuple[dict[str, Any], ...] = (
    {
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    },
    {"method": "tools/list", "params": {"cursor": "1"}},
    {"method": "tools/call", "params": {"name": "list_peers", "arguments": {"x": 1}, "_meta": {"progressToken": 1}}},
    {"method": "tools/call", "params": {"name": "delegate_task", "arguments": {"target_id": "x", "task": "y"}}},
    {
        "method": "ping",
        "params": {"_meta": {f"{_META}protocolVersion": "2026-07-28", f"{_META}clientCapabilities": {}}},
    },
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}},
    {"method": "resources/read", "params": {"uri": "file:///etc/passwd"}},
)
_APP: tuple[dict[str, Any], ...] = (
    {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x"}, "cursor": "1"}},
    {"id": 2, "method": "thread/list", "params": {"limit": 3, "cursor": "x"}},
    {"id": 3, "method": "turn/start", "params": {"threadId": "x", "input": [{"type": "text", "text": "x"}]}},
)
_LIVE: tuple[dict[str, Any], ...] = ({"type": "subscribe", "after": 3, "epoch": "x"}, {"type": "ping"})
SOCKETS = {"/ws": _LIVE, "/threads/ws": _APP}
_INTERNAL_ERROR = 1011
_MASK = b"\x01\x02\x03\x04"


def broken_rpc(path: str, dice: Random) -> bytes:
    """The body of a broken call of what a path speaks."""
    frame = {"jsonrpc": "2.0", "id": dice.randrange(9), **dice.choice(MCP if path.endswith("/mcp") else A2A)}
    return bent_json([frame, frame] if dice.random() < 0.05 else frame, dice)


def broken_frame(path: str, dice: Random) -> bytes:
    """What a WebSocket of a path does not expect: broken at the level of frames, or of what stands in them."""
    good = json.dumps(dice.choice(SOCKETS[path])).encode()
    way = dice.randrange(12)
    if way < 5:
        return _masked(
            dice.choice((Opcode.TEXT, Opcode.TEXT, Opcode.BINARY)), bent_json(json.loads(good), dice)[:60_000]
        )
    return (
        bytes((0x80 | dice.choice((3, 7, 0xB, 0xF)), 0x80)) + _MASK,  # an opcode that nobody has given a meaning
        bytes((0x81 | dice.choice((0x10, 0x20, 0x40)), 0x80)) + _MASK,  # bits that nobody agreed on
        bytes((0x81, len(good) & 0x7D)) + good,  # without a mask
        _masked(
            dice.choice((Opcode.PING, Opcode.PONG, Opcode.CLOSE)), b"x" * 126
        ),  # longer than a control frame may be
        bytes((dice.choice((0x08, 0x09)), 0x80)) + _MASK,  # a control frame in pieces
        _masked(
            Opcode.CLOSE,
            dice.choice((b"\x03", b"\x00\x00", b"\x03\xed", b"\x03\xe8\xff\xfe", b"\xff\xff", b"\x0b\xb8")),
        ),
        bytes((0x81, 0xFF))
        + dice.choice((b"\xff" * 8, (1 << 40).to_bytes(8), (1 << 31).to_bytes(8)))
        + _MASK
        + b"x" * 99,
    )[way - 5] + (dice.randbytes(3) if dice.random() < 0.2 else b"")


def _masked(opcode: Opcode, data: bytes) -> bytes:
    """By hand: the library makes no frame that is wrong. A mask of zeros leaves the data as they are."""
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2)
    return bytes((0x80 | opcode,)) + size + bytes(4) + data


class Socket:
    """One WebSocket, kept as long as the server keeps it. Opens when it has to."""

    def __init__(self, port: int, path: str, token: str) -> None:
        self._port = port
        self._path = path
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.closes = 0

    async def send(self, frame: bytes) -> str | None:
        """Sends one frame, and sees that the server answers a ping behind it or closes. What is wrong with that.

        Raises Unanswered."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._send(frame)
        except TimeoutError:
            self.hang_up()
            raise Unanswered(f"{self._path} {frame[:80]!r}") from None

    async def _send(self, frame: bytes) -> str | None:
        if self._streams is None and (wrong := await self._open()) is not None:
            return wrong
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(frame + Frame(Opcode.PING, b"still there").serialize(mask=True))
        said_close = False
        try:
            while True:
                opcode, data = await _frame_from(reader)
                if opcode == Opcode.PONG and data == b"still there":
                    return None
                if opcode == Opcode.CLOSE:
                    said_close = True
                    if int.from_bytes(data[:2]) == _INTERNAL_ERROR:
                        return f"closed with {_INTERNAL_ERROR} {data[2:]!r} behind {frame[:120]!r}"
        except (OSError, EOFError):
            self.closes += 1
            self.hang_up()
        return None if said_close else self._unsaid(frame)

    def _unsaid(self, frame: bytes) -> str | None:
        """Who closes without a word must have been told to: a frame may be a good CLOSE."""
        return None if frame[0] & 0x0F == Opcode.CLOSE else f"closed without a word behind {frame[:120]!r}"

    async def _open(self) -> str | None:
        self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        key = base64.b64encode(b"0123456789abcdef").decode()
        writer.write(request("GET", self._path, token=self._token, headers={**UPGRADE, "Sec-WebSocket-Key": key}))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 101 "):
            return None
        self.hang_up()
        return f"{self._path} is not opened: {head[:60]!r}"

    def hang_up(self) -> None:
        """Ends it, if there is one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _frame_from(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8))
    return first & 0x0F, await reader.readexactly(size)
