"""WebSocket of one client. Takes connections over from `api/http/connection.py`."""

import asyncio
from typing import Any

from molecule_core.api.http.held_connection import HeldConnection
from molecule_core.api.http.response import WebSocketHandler
from molecule_core.api.http.websocket_protocol import WebSocketProtocol, encode_text_frame

# Input handled before other connections get their turn: about 170 of the smallest frames, about a millisecond.
_PIECE_BYTES = 1024
# Input dropped after a refusal, so that the client gets the close code; more is a flood, and is aborted.
_DROPPED_BYTES = 256 << 10


class ServerWebSocket(HeldConnection):
    """Connection that speaks the WebSocket protocol, and channel of its handler."""

    encode_text = staticmethod(encode_text_frame)

    def __init__(self, handler: WebSocketHandler) -> None:
        super().__init__(handler)
        self._websocket_handler = handler
        self._protocol = WebSocketProtocol(handler.max_message_bytes)
        self._pending = b""
        self._is_scheduled = False
        self._is_ignoring_input = False
        self._dropped_bytes = 0

    def take_over(self, transport: asyncio.Transport, connections: set[Any], head: bytes, data: bytes) -> None:
        """Send the handshake response; `data` is what the client has sent already."""
        self._hold_connection(transport, connections, head)
        self._websocket_handler.on_open(self)
        if data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes piece by piece."""
        if self._is_ignoring_input:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > _DROPPED_BYTES:
                self._transport.abort()
            return
        self._pending += data
        if not self._is_scheduled:
            self._handle_piece()

    def _handle_piece(self) -> None:
        """Handle the frames that end in the next piece, and schedule the rest; nothing is read meanwhile."""
        self._is_scheduled = False
        piece, self._pending = self._pending[:_PIECE_BYTES], self._pending[_PIECE_BYTES:]
        frame_count, messages = self._protocol.receive_frames(piece)
        if frame_count and not self._are_accepted(frame_count):
            return
        for message in messages:
            self._websocket_handler.on_text(message)
        self._flush()
        self._schedule_rest()

    def _are_accepted(self, frame_count: int) -> bool:
        """Charge frames. After a refusal, the input is read and dropped until the client has the close code.

        Unread input would reset the connection before."""
        self._is_ignoring_input = True
        self._is_ignoring_input = not self._websocket_handler.accept_frames(frame_count)
        if self._is_ignoring_input:
            self._pending = b""
            self._transport.resume_reading()
        return not self._is_ignoring_input

    def _schedule_rest(self) -> None:
        if self._transport.is_closing():
            self._pending = b""
        elif self._pending:
            self._transport.pause_reading()
            if self._drained is None and not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._handle_piece)
        elif self._drained is None:
            self._transport.resume_reading()

    def resume_writing(self) -> None:
        """Wake waiters and handle input again."""
        super().resume_writing()
        if not self._is_scheduled:
            self._schedule_rest()

    def eof_received(self) -> None:
        """Close after the client has closed its side."""
        self._protocol.receive_eof()
        self._flush()

    def write(self, data: bytes) -> None:
        """Send a complete frame; nothing after the close frame."""
        if self._protocol.is_open:
            self._written += len(data)
            self._transport.write(data)

    def close(self, code: int, reason: str) -> None:
        """Send the reason and close; abort after `CLOSE_GRACE_SECONDS`."""
        if self._protocol.is_open:
            self._protocol.send_close(code, reason)
            self._flush()
            self._abort_after_grace()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                super().write(data)
            elif not self._is_ignoring_input:  # the package's marker for the end of this side
                self._transport.close()
        if self._protocol.should_close and not self._is_ignoring_input:
            self._transport.close()
