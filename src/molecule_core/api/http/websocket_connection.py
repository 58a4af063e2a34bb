"""WebSocket of one client. Takes connections over from `api/http/connection.py`."""

import asyncio
from typing import Any

from molecule_core.api.http.held_connection import CLOSE_GRACE_SECONDS, HeldConnection
from molecule_core.api.http.response import WebSocketHandler
from molecule_core.api.http.websocket_protocol import WebSocketProtocol, encode_text_frame


class ServerWebSocket(HeldConnection):
    """Connection that speaks the WebSocket protocol, and channel of its handler."""

    encode_text = staticmethod(encode_text_frame)

    def __init__(self, handler: WebSocketHandler) -> None:
        super().__init__(handler)
        self._websocket_handler = handler
        self._protocol = WebSocketProtocol(handler.max_message_bytes)

    def take_over(self, transport: asyncio.Transport, connections: set[Any], head: bytes, data: bytes) -> None:
        """Send the handshake response; `data` is what the client has sent already."""
        self._hold_connection(transport, connections, head)
        self._websocket_handler.on_open(self)
        if data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Handle the complete messages in the received bytes."""
        for message in self._protocol.receive_texts(data):
            self._websocket_handler.on_text(message)
        self._flush()

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
            asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                super().write(data)
            else:  # the package's marker for the end of this side
                self._transport.close()
        if self._protocol.should_close:
            self._transport.close()
