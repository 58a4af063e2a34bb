"""Clients of the live channels: a WebSocket of the `websockets` package, one written by hand, and an event stream."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import msgspec
from anyio.lowlevel import checkpoint
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from molecule_core.wire.schemas.events import EVENTS
from molecule_core.wire.schemas.live import EventFrame
from testing.raw_http import Reply, Wire, request
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import IN_PROCESS_SECONDS, bounded, eventually

# The most a WebSocket's message may hold here: a person's message in full.
_LARGEST = 8 << 20
_ANY_JSON = {"agent_card", "request_body", "response_body", "tool_trace"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
Headers = Mapping[str, str]


class Bye(NamedTuple):
    """How a channel ended."""

    code: int | None
    reason: str


class Channel:
    """A WebSocket that remembers what it was told. Every wait is bounded."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.frames: list[dict[str, Any]] = []

    async def frame(self) -> dict[str, Any]:
        """The next frame."""
        text = await bounded(self._connection.recv())
        self.frames.append(msgspec.json.decode(text))
        return self.frames[-1]

    async def control(self, kind: str | None = None) -> dict[str, Any]:
        """The next frame that is no event, of this kind if one is named."""
        while "type" not in (frame := await self.frame()) or frame["type"] != (kind or frame["type"]):
            pass
        return frame

    async def event(self, name: str | None = None) -> dict[str, Any]:
        """The next journaled event, of this name if one is given."""
        while "seq" not in (frame := await self.frame()) or frame["event"] != (name or frame["event"]):
            pass
        return frame

    async def progress(self) -> dict[str, Any]:
        """The next word of how far some work is: told, and not journaled."""
        while "seq" in (frame := await self.frame()) or frame.get("event") != "DELEGATION_STATUS":
            pass
        return frame

    async def upto(self, seq: int) -> list[dict[str, Any]]:
        """The journaled events that come, until the one with this number."""
        events: list[dict[str, Any]] = []
        while not events or events[-1]["seq"] < seq:
            events.append(await self.event())
        return events

    async def say(self, **frame: Any) -> None:
        """A frame of JSON."""
        await bounded(self._connection.send(json.dumps(frame)))

    async def subscribe(self, after: int | None = None, epoch: str | None = None) -> None:
        """Asks for what is behind a number."""
        await self.say(type="subscribe", after=after, epoch=epoch)

    async def send(self, data: str | bytes | list[str]) -> None:
        """A text frame, a binary one, or one message in fragments."""
        await bounded(self._connection.send(data))

    async def pong(self) -> None:
        """Pings with the protocol's own frame, and waits for the answer."""
        await bounded(await self._connection.ping())

    async def bye(self) -> Bye:
        """Reads on until the server closes."""
        try:
            while True:
                await self.frame()
        except ConnectionClosed:
            return Bye(self._connection.close_code, self._connection.close_reason or "")

    async def close(self) -> None:
        """Says goodbye."""
        await bounded(self._connection.close())


@contextlib.asynccontextmanager
async def dialed(
    server: Running, token: str | None = ADMIN_TOKEN, *, query: str = "", headers: Headers | None = None
) -> AsyncIterator[Channel]:
    """A WebSocket that has not read its hello."""
    sent = {} if token is None else {"Authorization": f"Bearer {token}"}
    opening = connect(
        f"ws://127.0.0.1:{server.port}/ws{query}",
        additional_headers={**sent, **(headers or {})},
        compression=None,
        proxy=None,
        ping_interval=None,
        max_size=_LARGEST,
        close_timeout=1,
    )
    connection = await bounded(opening.__aenter__())
    try:
        yield Channel(connection)
    finally:
        await bounded(connection.close())


@contextlib.asynccontextmanager
async def channel(
    server: Running, token: str | None = ADMIN_TOKEN, *, query: str = "", headers: Headers | None = None
) -> AsyncIterator[Channel]:
    """A WebSocket that has read its hello, which is `frames[0]`."""
    async with dialed(server, token, query=query, headers=headers) as opened:
        hello = await opened.frame()
        assert hello["type"] == "hello", hello
        yield opened


async def token_of(server: Running, role: str = "operator", org_id: str | None = None) -> str:
    """The token of a new person."""
    org_id = org_id or (await server.admin.get("/orgs"))[0]["id"]
    answer = await server.admin.post(f"/orgs/{org_id}/people", {"name": f"A {role}", "role": role})
    return str(answer["auth_token"])


async def all_live(server: Running) -> None:
    """Waits until every channel has caught up: from here on it is told also what is only broadcast."""

    async def look() -> bool:
        await checkpoint()
        listeners = server.server.live_hub._subscribers()
        return listeners != [] and all(listener.is_live for listener in listeners)

    await eventually(look, bool)


async def head_of(server: Running, token: str = ADMIN_TOKEN, *, query: str = "") -> int:
    """The number of the last event of an organisation."""
    async with channel(server, token, query=query) as opened:
        return int(opened.frames[0]["head"])


async def snapshot_at_rest(server: Running) -> dict[str, Any]:
    """A snapshot of the first organisation that nothing came into: the next one stands at its place in the journal.
    (What a snapshot shows may be newer than its place; the events behind it then change nothing.)"""
    path = f"/orgs/{server.server.registry.orgs()[0].id}/snapshot"
    before: dict[str, Any] = await bounded(server.admin.get(path))
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        while (behind := await server.admin.get(path))["as_of"] != before["as_of"]:
            before = behind
    return before


async def journal_of(
    server: Running, token: str = ADMIN_TOKEN, *, after: int = 0, upto: int | None = None, query: str = ""
) -> list[dict[str, Any]]:
    """The journaled events that a caller may see, by a resume: up to one that it sees, or to the head."""
    async with channel(server, token, query=query) as opened:
        upto = opened.frames[0]["head"] if upto is None else upto
        await opened.subscribe(after)
        assert (await opened.control())["type"] in ("resumed", "current")
        return await opened.upto(upto) if upto > after else []


def check_chain(events: list[dict[str, Any]], start: int) -> None:
    """No gap and no repeat: each event names the one before it on its channel."""
    for event in events:
        assert event["prev"] == start, (event["prev"], start)
        assert event["seq"] > start
        start = event["seq"]


def told(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without what belongs to the channel they came on."""
    return [{name: value for name, value in event.items() if name != "prev"} for event in events]


def check_shape(frame: dict[str, Any]) -> EventFrame:
    """An event with exactly the members that the wire's table declares."""
    shape = EVENTS[frame["event"]]
    read = msgspec.json.decode(msgspec.json.encode(frame), type=EventFrame)
    assert set(frame) <= set(EventFrame.__struct_fields__), frame
    # msgspec writes `Raw | None` but cannot read it: what may be any JSON is checked by its name alone.
    anything = {name for name in _ANY_JSON & set(frame["payload"]) if frame["event"] != "AGENT_CARD_UPDATED"}
    msgspec.json.decode(msgspec.json.encode({**frame["payload"], **dict.fromkeys(anything)}), type=shape.payload)
    assert set(frame["payload"]) <= set(shape.payload.__struct_fields__), frame["payload"]
    # How far work is is told under the name of a journaled event, and not journaled.
    is_progress = frame["event"] == "DELEGATION_STATUS" and "seq" not in frame
    assert ("seq" in frame) == ("prev" in frame) == (shape.journaled and not is_progress)
    assert set(frame["entity"]) == {"kind", "id", "rev"}
    return read


# -- by hand -----------------------------------------------------------------------------------------------------------


class HandMade(Wire):
    """A WebSocket or an event stream whose bytes the test writes and reads itself."""

    async def handshake(self, token: str | None = ADMIN_TOKEN, *, more: bytes = b"", **headers: str) -> Reply:
        """Asks for a WebSocket; `more` goes out in the same packet."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send(request("GET", "/ws", token=token, headers={**UPGRADE, **named}) + more)
        return await self.reply()

    async def frame(self) -> tuple[int, bytes]:
        """(opcode, data) of the next frame."""
        async with asyncio.timeout(5):
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2))
            elif size == 127:
                size = int.from_bytes(await self._reader.readexactly(8))
            return first & 0x0F, await self._reader.readexactly(size)

    async def told(self) -> dict[str, Any]:
        """The next text frame."""
        opcode, data = await self.frame()
        assert opcode == Opcode.TEXT, (opcode, data)
        found: dict[str, Any] = msgspec.json.decode(data)
        return found

    async def block(self) -> dict[str, str]:
        """The next block of an event stream, comments left out."""
        while True:
            text = (await bounded(self._reader.readuntil(b"\n\n"))).decode()
            fields = dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":"))
            if fields:
                return fields

    async def head(self) -> Reply:
        """The head of an answer without an end."""
        text = (await bounded(self._reader.readuntil(b"\r\n\r\n"))).decode("latin-1")
        first, *lines = text.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Reply(int(first.split()[1]), headers, b"")


def packed(data: str | bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    """One frame of a client."""
    return Frame(opcode, data.encode() if isinstance(data, str) else data, fin=fin).serialize(mask=True)


def subscribe_frame(after: int | None = None, epoch: str | None = None) -> bytes:
    """The wish to go on behind a number."""
    return packed(json.dumps({"type": "subscribe", "after": after, "epoch": epoch}))


@contextlib.asynccontextmanager
async def hand_made(server: Running, *, reads: int | None = None) -> AsyncIterator[HandMade]:
    """A connection to a server. `reads`: how many bytes the system takes for it before the test reads them."""
    line = socket.socket()
    if reads is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
    line.setblocking(False)
    await bounded(asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", server.port)))
    reader, writer = await asyncio.open_connection(sock=line, limit=1 << 16 if reads is None else reads)
    opened = HandMade(reader, writer)
    try:
        yield opened
    finally:
        writer.transport.abort()
        await opened.close()


@contextlib.asynccontextmanager
async def streaming(
    server: Running, path: str = "/events/stream", token: str | None = ADMIN_TOKEN, **headers: str
) -> AsyncIterator[HandMade]:
    """An event stream whose head has been read."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with hand_made(server) as opened:
        await opened.send(request("GET", path, token=token, headers=named))
        head = await opened.head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield opened
