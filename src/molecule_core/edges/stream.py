"""The live channel as server-sent events, for scripts: plain HTTP, resumed by `Last-Event-ID`.

Above: `edges/protocol.py` hands the connection over. Below: `edges/sinks.py`, `edges/live.py`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from molecule_core.edges.heads import stream_head
from molecule_core.edges.listeners import Listener, Work
from molecule_core.edges.live import INTERNAL, Live
from molecule_core.edges.routes import Answer
from molecule_core.edges.sinks import LiveConnection
from molecule_core.views.feed import Notice


class Stream(LiveConnection):
    """One client's event stream, and the sink of its listener. The stream ends with the connection."""

    def __init__(self, live: Live, epoch: str) -> None:
        super().__init__(live)
        self._epoch = epoch.encode()

    def answer(self, listener: Listener, first: Callable[[], Work]) -> Answer:
        """The answer that turns the connection into this stream."""
        self._listener = listener
        return Answer(b"", take=partial(self._open, first))

    def _open(
        self, first: Callable[[], Work], transport: asyncio.Transport, connections: set[Any], _data: bytes, rate: bytes
    ) -> None:
        self._take(transport, connections, stream_head(b"text/event-stream; charset=utf-8", rate), first)

    def notice(self, prev: int, notice: Notice) -> bytes:
        """A notice with its number, by which a client resumes; a transient one has none."""
        return self._event(notice.seq, notice.frame(prev))

    def _event(self, seq: int, data: bytes) -> bytes:
        return b"id: %s:%d\ndata: %s\n\n" % (self._epoch, seq, data) if seq else b"data: %s\n\n" % data

    def control(self, frame: msgspec.Struct, at: int) -> bytes:
        """A frame that is no event, under its own name; with the number from which a client goes on."""
        name = str(frame.__struct_config__.tag).encode()
        return b"id: %s:%d\nevent: %s\ndata: %s\n\n" % (self._epoch, at, name, msgspec.json.encode(frame))

    def ping(self, _sent: int) -> bytes:
        """A sign of life."""
        return b": alive\n\n"

    def _end(self, code: int, _reason: str) -> None:
        """Ends the stream; a reader that is too slow loses what it has not taken, and resumes."""
        if code == INTERNAL:
            self._close_soon()
        else:
            self._transport.abort()

    def shutdown(self) -> None:
        """The server stops."""
        self._close_soon()


class OlderStream(Stream):
    """The shape of older clients: `{type, timestamp (milliseconds), data}`."""

    def notice(self, _prev: int, notice: Notice) -> bytes:
        """A notice in that shape."""
        told = {"type": notice.name, "timestamp": notice.at // 1000, "data": msgspec.Raw(notice.payload)}
        return self._event(notice.seq, msgspec.json.encode(told))

    def control(self, _frame: msgspec.Struct, at: int) -> bytes:
        """They know none, but for the number from which they go on."""
        return b"id: %s:%d\n\n" % (self._epoch, at)
