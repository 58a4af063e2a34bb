"""The server's side of a WebSocket, as the `websockets` package keeps it.

The package is loaded with the first client that wants one: a server that starts, and an organisation whose agents all
poll, do without it. Above: `api/live/websocket.py`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.server import ServerProtocol


class _WebSocketLibrary:
    """What is used of the package."""

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
    """The head that answers a client's wish for a WebSocket; None if it is none, or of another version."""
    library = _library()
    header_fields = library.headers(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.items()
    )
    response = library.protocol().accept(library.request("/ws", header_fields))
    return response.serialize() if response.status_code == 101 else None


def encode_text_frame(data: bytes) -> bytes:
    """A frame with text, as a server sends it."""
    library = _library()
    return library.frame(library.opcode.TEXT, data).serialize(mask=False)


class WebSocketProtocol:
    """One connection, from behind its handshake on. Bytes go in and come out; nothing is sent from here."""

    def __init__(self, maximum: int) -> None:
        """`most` bytes are in one message."""
        self._library = library = _library()
        # Its parser begins with the first frame: the request has been read, and is not read again.
        self._protocol: ServerProtocol = library.protocol(state=library.open, max_size=maximum)
        self._is_text, self._pieces = False, list[bytes]()

    @property
    def is_open(self) -> bool:
        """Whether anything may still be said."""
        return self._protocol.state is self._library.open

    @property
    def should_close(self) -> bool:
        """Whether the client has nothing more to wait for."""
        return self._protocol.close_expected()

    def receive_texts(self, data: bytes) -> Iterator[bytes]:
        """Bytes came: the messages that are whole now, of those that are text."""
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, self._library.frame) and (message := self._assemble(event)) is not None:
                yield message

    def _assemble(self, frame: "Frame") -> bytes | None:
        """A message comes in pieces. (The package sees to their order and to their size.)"""
        opcode = self._library.opcode
        if frame.opcode in (opcode.TEXT, opcode.BINARY):
            self._is_text, self._pieces = frame.opcode is opcode.TEXT, []
        elif frame.opcode is not opcode.CONT:
            return None
        self._pieces.append(bytes(frame.data))
        return b"".join(self._pieces) if frame.fin and self._is_text else None

    def receive_eof(self) -> None:
        """The client sends no more."""
        self._protocol.receive_eof()

    def send_close(self, code: int, reason: str) -> None:
        """Says why this is the end."""
        self._protocol.send_close(code, reason)

    def data_to_send(self) -> list[bytes]:
        """What the protocol itself has to say; an empty one at the end says that this side is done."""
        return self._protocol.data_to_send()
