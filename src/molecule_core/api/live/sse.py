"""The live channel as server-sent events, for scripts: plain HTTP, resumed by `Last-Event-ID`.

Above: `api/http/connection.py` hands the connection over. Below: `api/live/held_connection.py`, `api/live/hub.py`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from molecule_core.api.http.response_head import render_stream_head
from molecule_core.api.http.routing import Response
from molecule_core.api.live.held_connection import LiveConnection
from molecule_core.api.live.hub import CLOSE_INTERNAL, LiveHub
from molecule_core.api.live.subscribers import ChannelWork, LiveSubscriber
from molecule_core.views.feed import EncodedEvent


class SseConnection(LiveConnection):
    """One client's event stream, and the sink of its listener. The stream ends with the connection."""

    def __init__(self, live: LiveHub, epoch: str) -> None:
        super().__init__(live)
        self._epoch = epoch.encode()

    def to_response(self, subscriber: LiveSubscriber, first: Callable[[], ChannelWork]) -> Response:
        """The answer that turns the connection into this stream."""
        self._subscriber = subscriber
        return Response(b"", upgrade=partial(self._take_over, first))

    def _take_over(
        self,
        first: Callable[[], ChannelWork],
        transport: asyncio.Transport,
        connections: set[Any],
        _data: bytes,
        rate: bytes,
    ) -> None:
        self._start_channel(
            transport, connections, render_stream_head(b"text/event-stream; charset=utf-8", rate), first
        )

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """A notice with its number, by which a client resumes; a transient one has none."""
        return self._format_event(event.seq, event.frame(prev))

    def _format_event(self, seq: int, data: bytes) -> bytes:
        return b"id: %s:%d\ndata: %s\n\n" % (self._epoch, seq, data) if seq else b"data: %s\n\n" % data

    def encode_control(self, frame: msgspec.Struct, at: int) -> bytes:
        """A frame that is no event, under its own name; with the number from which a client goes on."""
        name = str(frame.__struct_config__.tag).encode()
        return b"id: %s:%d\nevent: %s\ndata: %s\n\n" % (self._epoch, at, name, msgspec.json.encode(frame))

    def encode_ping(self, _sent: int) -> bytes:
        """A sign of life."""
        return b": alive\n\n"

    def _close_protocol(self, code: int, _reason: str) -> None:
        """Ends the stream; a reader that is too slow loses what it has not taken, and resumes."""
        if code == CLOSE_INTERNAL:
            self._close_gracefully()
        else:
            self._transport.abort()

    def shutdown(self) -> None:
        """The server stops."""
        self._close_gracefully()


class LegacySseConnection(SseConnection):
    """The shape of older clients: `{type, timestamp (milliseconds), data}`."""

    def encode_event(self, _prev: int, event: EncodedEvent) -> bytes:
        """A notice in that shape."""
        legacy_event = {"type": event.name, "timestamp": event.at // 1000, "data": msgspec.Raw(event.payload)}
        return self._format_event(event.seq, msgspec.json.encode(legacy_event))

    def encode_control(self, _frame: msgspec.Struct, at: int) -> bytes:
        """They know none, but for the number from which they go on."""
        return b"id: %s:%d\n\n" % (self._epoch, at)
