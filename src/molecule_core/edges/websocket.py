"""The live channel as a WebSocket; frames of events are made once for all.

Above: `edges/protocol.py` hands the connection over. Below: `edges/frames.py`, `edges/sinks.py`, `edges/live.py`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from molecule_core.edges.frames import Frames, handshake, text_frame
from molecule_core.edges.listeners import Listener
from molecule_core.edges.live import Live
from molecule_core.edges.routes import Answer, Call
from molecule_core.edges.sinks import FAREWELL_SECONDS, RESTARTING, LiveConnection
from molecule_core.ground.errors import WebSocketNeeded
from molecule_core.ground.limits import Limits
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
        head = handshake(call.headers)
        if head is None:
            raise WebSocketNeeded
        self._head = head
        self._frames = Frames(self._most_of(call.limits))

    @staticmethod
    def _most_of(limits: Limits) -> int:
        """Bytes of one message of a client."""
        return limits.frame_bytes

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
        for message in self._frames.texts(data):
            self._wish(message)
        self._flush()

    def eof_received(self) -> None:
        """The client sends no more."""
        self._frames.end()
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
        return text_frame(notice.frame(prev))

    def control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """A frame that is no event."""
        return text_frame(msgspec.json.encode(frame))

    def ping(self, sent: int) -> bytes:
        """A sign of life that pages can see (they see no frames of the protocol itself)."""
        return text_frame(msgspec.json.encode(Ping(sent)))

    def write(self, data: bytes) -> None:
        """Sends bytes that are whole frames; nothing more after the farewell."""
        if self._frames.is_open:
            self._send(data)

    def _write_text(self, data: bytes) -> None:
        Socket.write(self, text_frame(data))

    def _end(self, code: int, reason: str) -> None:
        """Says why, and closes; a client that does not take even that is cut off."""
        if self._frames.is_open:
            self._frames.close(code, reason)
            self._flush()
            asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.abort)

    def shutdown(self) -> None:
        """The server stops."""
        self.cut(RESTARTING, "the server restarts; resume")
        self._close_soon()

    def _flush(self) -> None:
        for data in self._frames.to_send():
            if data:
                self._send(data)
            else:  # how the package says that this side is done
                self._transport.close()
        if self._frames.is_over:
            self._transport.close()
