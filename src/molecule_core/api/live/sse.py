"""Live channel as server-sent events: plain HTTP for scripts, resumed by `Last-Event-ID`.

Handler of an event stream of the server; calls `api/live/hub.py`.
"""

from collections.abc import Callable

import msgspec

from molecule_core.api.http.response import Channel, Response, event_stream_response
from molecule_core.api.live.hub import CLOSE_INTERNAL, LiveHub
from molecule_core.api.live.live_connection import LiveConnection
from molecule_core.api.live.subscribers import ChannelWork, LiveSubscriber
from molecule_core.views.feed import EncodedEvent


class SseConnection(LiveConnection):
    """Event stream of one client, and the transport of its subscriber. Ends with the connection."""

    def __init__(self, live: LiveHub, epoch: str) -> None:
        super().__init__(live)
        self._epoch = epoch.encode()

    def to_response(self, subscriber: LiveSubscriber, first: Callable[[], ChannelWork]) -> Response:
        """Return the response that opens this stream. Raises CapacityExceeded."""
        self._live.check_limit(subscriber.credential)
        self._subscriber, self._first = subscriber, first
        return event_stream_response(self)

    def on_open(self, channel: Channel) -> None:
        """Start the subscription."""
        self._start_work(channel, self._first)

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """Encode an event. Its id allows the client to resume; transient events have none."""
        return self._format_event(event.seq, event.frame(prev))

    def _format_event(self, seq: int, data: bytes) -> bytes:
        return b"id: %s:%d\ndata: %s\n\n" % (self._epoch, seq, data) if seq else b"data: %s\n\n" % data

    def encode_control(self, frame: msgspec.Struct, at: int) -> bytes:
        """Encode a control frame under its own event name, with the id from which the client resumes."""
        name = str(frame.__struct_config__.tag).encode()
        return b"id: %s:%d\nevent: %s\ndata: %s\n\n" % (self._epoch, at, name, msgspec.json.encode(frame))

    def encode_ping(self, _sent: int) -> bytes:
        """Encode a comment as keepalive."""
        return b": alive\n\n"

    def _close_protocol(self, code: int, _reason: str) -> None:
        """End the stream. A client that reads too slowly loses unread data, and resumes."""
        if code == CLOSE_INTERNAL:
            self._channel.close_gracefully()
        else:
            self._channel.abort()

    def on_shutdown(self) -> None:
        """Close the stream."""
        self._channel.close_gracefully()


class LegacySseConnection(SseConnection):
    """Event stream in the shape of older clients: `{type, timestamp (milliseconds), data}`."""

    def encode_event(self, _prev: int, event: EncodedEvent) -> bytes:
        """Encode an event in the older shape."""
        legacy_event = {"type": event.name, "timestamp": event.at // 1000, "data": msgspec.Raw(event.payload)}
        return self._format_event(event.seq, msgspec.json.encode(legacy_event))

    def encode_control(self, _frame: msgspec.Struct, at: int) -> bytes:
        """Encode only the id; older clients know no control frames."""
        return b"id: %s:%d\n\n" % (self._epoch, at)
