"""The live channel as a WebSocket: the `websockets` package keeps the protocol, frames of events are made once for all.

Above: `edges/protocol.py` hands the connection over. Below: `edges/sinks.py`, `edges/live.py`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from molecule_core.edges.listeners import Listener
from molecule_core.edges.live import Live
from molecule_core.edges.routes import Answer, Call
from molecule_core.edges.sinks import FAREWELL_SECONDS, RESTARTING, LiveConnection
from molecule_core.ground.errors import WebSocketNeeded
from molecule_core.views.feed import Notice
from molecule_core.wire.live import Ping, Subscribe


class _Said(msgspec.Struct):
    """Any frame of a client: a decoder of one kind alone would take a frame of no kind for it."""

    type: str


_SAID, _WISH = msgspec.json.Decoder(_Said), msgspec.json.Decoder(Subscribe)


class Socket(LiveConnection):
    """One client's WebSocket, and the sink of its listener."""

    kind = "websocket"
    resubscribes = True

    def __init__(
        self, live: Live, call: Call, org_id: str, credential: str, retold: Callable[[Notice], Notice] | None = None
    ) -> None:
        """Answers the handshake. Raises WebSocketNeeded: it is none, or of another version."""
        super().__init__(live)
        self._listener = Listener(call.by, org_id, self, credential, retold=retold)
        self._is_text, self._pieces = False, list[bytes]()
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in call.headers.items())
        response = ServerProtocol().accept(Request("/ws", headers))
        if response.status_code != 101:
            raise WebSocketNeeded
        self._head = response.serialize()
        # Its parser begins with the first frame: the request has been read, and is not read again.
        self._protocol = ServerProtocol(state=OPEN, max_size=call.limits.frame_bytes)

    def answer(self) -> Answer:
        """The answer that turns the connection into this WebSocket."""
        return Answer(b"", 101, take=self._open)

    def _open(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        head = self._head.removesuffix(b"\r\n") + rate + b"\r\n"
        self._take(transport, connections, head, partial(self._live.open, self._listener))
        if data:
            self.data_received(data)

    # -- from the client -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes came: frames, or parts of them."""
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._hear(event)
        self._flush()

    def _hear(self, frame: Frame) -> None:
        """Puts a message together that comes in pieces. (The package sees to their order and to their size.)"""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text, self._pieces = frame.opcode is Opcode.TEXT, []
        elif frame.opcode is not Opcode.CONT:
            return
        self._pieces.append(bytes(frame.data))
        if frame.fin and self._is_text:
            self._wish(b"".join(self._pieces))

    def eof_received(self) -> None:
        """The client sends no more."""
        self._protocol.receive_eof()
        self._flush()

    def _wish(self, data: bytes) -> None:
        """What the client asks for. What we do not know is left alone: it may be newer than we are."""
        try:
            wish = _WISH.decode(data) if _SAID.decode(data).type == "subscribe" else None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return
        if wish is None or (wish.after or 0) < 0:
            return
        self.serve(partial(self._live.resume, self._listener, wish.after, wish.epoch))

    # -- to the client -------------------------------------------------------------------------------------------------

    def notice(self, prev: int, notice: Notice) -> bytes:
        """A notice as a text frame."""
        return _text(notice.frame(prev))

    def control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """A frame that is no event."""
        return _text(msgspec.json.encode(frame))

    def ping(self, sent: int) -> bytes:
        """A sign of life that pages can see (they see no frames of the protocol itself)."""
        return _text(msgspec.json.encode(Ping(sent)))

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames; nothing more after the farewell."""
        if self._protocol.state is OPEN:
            self._send(data)

    def _write_text(self, data: bytes) -> None:
        Socket.write(self, _text(data))

    def _end(self, code: int, reason: str) -> None:
        """Says why, and closes; a client that does not take even that is cut off."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(code, reason)
            self._flush()
            asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.abort)

    def shutdown(self) -> None:
        """The server stops."""
        self.cut(RESTARTING, "the server restarts; resume")
        self._close_soon()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._send(data)
            else:  # how the package says that this side is done
                self._transport.close()
        if self._protocol.close_expected():
            self._transport.close()


def _text(data: bytes) -> bytes:
    return Frame(Opcode.TEXT, data).serialize(mask=False)
