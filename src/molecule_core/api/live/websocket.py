"""Live channel as a WebSocket. Event frames are encoded once for all clients.

Handler of a WebSocket of the server; calls `api/live/hub.py`.
"""

from functools import partial

import msgspec

from molecule_core.api.http.response import Response, WebSocketChannel, WebSocketUpgrade
from molecule_core.api.live.hub import CLOSE_LIMIT, CLOSE_RESTARTING, LiveHub
from molecule_core.api.live.live_connection import LiveConnection
from molecule_core.api.live.subscribers import EventRewriter, LiveSubscriber
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.api.routing import Request
from molecule_core.common.errors import RateLimited
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
        rate_limiter: RateLimiter,
        request: Request,
        org_id: str,
        credential: str,
        rewriter: EventRewriter | None = None,
    ) -> None:
        super().__init__(live)
        self._rate_limiter = rate_limiter
        self._subscriber = LiveSubscriber(request.caller, org_id, self, credential, rewriter=rewriter)
        self._limits = request.limits

    @property
    def max_message_bytes(self) -> int:
        """Return the limit in bytes of a client's message."""
        return self._limits.frame_bytes

    def to_response(self) -> Response:
        """Return the response that turns the connection into this WebSocket. Raises CapacityExceeded."""
        self._live.check_limit(self._subscriber.credential)
        return Response(b"", 101, takeover=WebSocketUpgrade(self))

    def on_open(self, channel: WebSocketChannel) -> None:
        """Start the subscription."""
        self._socket = channel
        self._start_work(channel, partial(self._live.open, self._subscriber))

    # -- from the client -----------------------------------------------------------------------------------------------

    def accept_frames(self, count: int) -> bool:
        """Charge frames as requests of the caller; close the socket if none are left."""
        try:
            self._rate_limiter.charge_request(self._subscriber.caller.id, count)
        except RateLimited as error:
            seconds = error.details["retry_after"]
            self.disconnect(CLOSE_LIMIT, f"the rate limit of requests is exceeded by frames; resume in {seconds} s")
            return False
        return True

    def on_text(self, data: bytes) -> None:
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
        return self._socket.encode_text(event.frame(prev))

    def encode_control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """Encode a control frame."""
        return self._socket.encode_text(msgspec.json.encode(frame))

    def encode_ping(self, sent: int) -> bytes:
        """Encode a keepalive that web pages can see; they do not see protocol pings."""
        return self._socket.encode_text(msgspec.json.encode(PingFrame(sent)))

    def _send_text(self, data: bytes) -> None:
        self._socket.write(self._socket.encode_text(data))

    def _close_protocol(self, code: int, reason: str) -> None:
        """Send the reason and close."""
        self._socket.close(code, reason)

    def on_shutdown(self) -> None:
        """Disconnect because the server restarts."""
        self.disconnect(CLOSE_RESTARTING, "the server restarts; resume")
        self._socket.close_gracefully()
