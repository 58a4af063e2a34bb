"""Live channel as a WebSocket. Event frames are encoded once for all clients.

Takes connections over from `api/http/connection.py`; calls `api/live/hub.py`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from molecule_core.api.http.routing import Request, Response
from molecule_core.api.http.websocket_protocol import WebSocketProtocol, encode_text_frame, handshake_response
from molecule_core.api.live.held_connection import CLOSE_GRACE_SECONDS, CLOSE_RESTARTING, LiveConnection
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.live.subscribers import LiveSubscriber
from molecule_core.common.errors import WebSocketRequired
from molecule_core.common.limits import Limits
from molecule_core.views.feed import EncodedEvent
from molecule_core.wire.schemas.live import PingFrame, SubscribeFrame


class _ClientFrame(msgspec.Struct):
    """Any frame of a client. Needed since a decoder of a single tagged type accepts frames without a type."""

    type: str


_CLIENT_FRAME_DECODER, _SUBSCRIBE_DECODER = msgspec.json.Decoder(_ClientFrame), msgspec.json.Decoder(SubscribeFrame)


class WebSocketConnection(LiveConnection):
    """WebSocket of one client, and the transport of its subscriber."""

    kind = "websocket"
    can_resubscribe = True

    def __init__(
        self,
        live: LiveHub,
        request: Request,
        org_id: str,
        credential: str,
        rewrite: Callable[[EncodedEvent], EncodedEvent] | None = None,
    ) -> None:
        """Prepare the handshake response. Raises WebSocketRequired if there is no handshake, or of another version."""
        super().__init__(live)
        self._subscriber = LiveSubscriber(request.caller, org_id, self, credential, rewrite=rewrite)
        head = handshake_response(request.headers)
        if head is None:
            raise WebSocketRequired
        self._head = head
        self._protocol = WebSocketProtocol(self._max_message_bytes(request.limits))

    @staticmethod
    def _max_message_bytes(limits: Limits) -> int:
        """Return the limit in bytes of a client's message."""
        return limits.frame_bytes

    def to_response(self) -> Response:
        """Return the response that turns the connection into this WebSocket."""
        return Response(b"", 101, upgrade=self._take_over)

    def _take_over(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        head = self._head.removesuffix(b"\r\n") + rate + b"\r\n"
        self._start_channel(transport, connections, head, partial(self._live.open, self._subscriber))
        if data:
            self.data_received(data)

    # -- from the client -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Handle the complete messages in the received bytes."""
        for message in self._protocol.receive_texts(data):
            self._handle_message(message)
        self._flush()

    def eof_received(self) -> None:
        """Close after the client has closed its side."""
        self._protocol.receive_eof()
        self._flush()

    def _handle_message(self, data: bytes) -> None:
        """Handle a subscription. Unknown frames are ignored: the client may be newer than the server."""
        try:
            subscription = (
                _SUBSCRIBE_DECODER.decode(data) if _CLIENT_FRAME_DECODER.decode(data).type == "subscribe" else None
            )
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return
        if subscription is None or (subscription.after or 0) < 0:
            return
        self.replace_work(partial(self._live.resume, self._subscriber, subscription.after, subscription.epoch))

    # -- to the client -------------------------------------------------------------------------------------------------

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """Encode an event as a text frame."""
        return encode_text_frame(event.frame(prev))

    def encode_control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """Encode a control frame."""
        return encode_text_frame(msgspec.json.encode(frame))

    def encode_ping(self, sent: int) -> bytes:
        """Encode a keepalive that web pages can see; they do not see protocol pings."""
        return encode_text_frame(msgspec.json.encode(PingFrame(sent)))

    def write(self, data: bytes) -> None:
        """Send complete frames; nothing after the close frame."""
        if self._protocol.is_open:
            self._send(data)

    def _send_text(self, data: bytes) -> None:
        WebSocketConnection.write(self, encode_text_frame(data))

    def _close_protocol(self, code: int, reason: str) -> None:
        """Send the reason and close; abort after `CLOSE_GRACE_SECONDS`."""
        if self._protocol.is_open:
            self._protocol.send_close(code, reason)
            self._flush()
            asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._transport.abort)

    def shutdown(self) -> None:
        """Disconnect because the server restarts."""
        self.disconnect(CLOSE_RESTARTING, "the server restarts; resume")
        self._close_gracefully()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._send(data)
            else:  # the package's marker for the end of this side
                self._transport.close()
        if self._protocol.should_close:
            self._transport.close()
