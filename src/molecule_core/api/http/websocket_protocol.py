"""Server side of a WebSocket, on top of the `websockets` package.

The package is imported with the first WebSocket client: servers without one save its memory and start-up time.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.server import ServerProtocol


class _WebSocketLibrary:
    """Names used from the package."""

    def __init__(self) -> None:
        from websockets.datastructures import Headers
        from websockets.frames import Frame, Opcode
        from websockets.http11 import Request
        from websockets.protocol import OPEN
        from websockets.server import ServerProtocol

        self.headers, self.request, self.protocol = Headers, Request, ServerProtocol
        self.frame, self.opcode, self.open = Frame, Opcode, OPEN


_library = cache(_WebSocketLibrary)


def handshake_response(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the head that accepts a WebSocket handshake; None if it is none, or of another version."""
    library = _library()
    header_fields = library.headers(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.items()
    )
    response = library.protocol().accept(library.request("/ws", header_fields))
    return response.serialize() if response.status_code == 101 else None


def encode_text_frame(data: bytes) -> bytes:
    """Encode a text frame of the server."""
    library = _library()
    return library.frame(library.opcode.TEXT, data).serialize(mask=False)


class WebSocketProtocol:
    """Sans-I/O protocol of one WebSocket after its handshake."""

    def __init__(self, maximum: int) -> None:
        """Start after the handshake. `maximum`: bytes of one message."""
        self._library = library = _library()
        # The parser starts with the first frame: the HTTP request has been read already.
        self._protocol: ServerProtocol = library.protocol(state=library.open, max_size=maximum)
        self._is_text, self._pieces = False, list[bytes]()

    @property
    def is_open(self) -> bool:
        """Return whether messages can still be sent."""
        return self._protocol.state is self._library.open

    @property
    def should_close(self) -> bool:
        """Return whether the client expects the connection to close."""
        return self._protocol.close_expected()

    def receive_frames(self, data: bytes) -> tuple[int, list[bytes]]:
        """Feed received bytes and return the number of frames that are complete, and the complete text messages."""
        self._protocol.receive_data(data)
        frames = [each for each in self._protocol.events_received() if isinstance(each, self._library.frame)]
        messages = [self._assemble(each) for each in frames]
        return len(frames), [each for each in messages if each is not None]

    def _assemble(self, frame: "Frame") -> bytes | None:
        """Join the frames of a message. The package checks their order and size."""
        opcode = self._library.opcode
        if frame.opcode in (opcode.TEXT, opcode.BINARY):
            self._is_text, self._pieces = frame.opcode is opcode.TEXT, []
        elif frame.opcode is not opcode.CONT:
            return None
        self._pieces.append(bytes(frame.data))
        return b"".join(self._pieces) if frame.fin and self._is_text else None

    def receive_eof(self) -> None:
        """Feed the end of the input."""
        self._protocol.receive_eof()

    def send_close(self, code: int, reason: str) -> None:
        """Queue a close frame."""
        self._protocol.send_close(code, reason)

    def data_to_send(self) -> list[bytes]:
        """Return the queued bytes; an empty item at the end means that this side is done."""
        return self._protocol.data_to_send()
