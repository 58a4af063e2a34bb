"""The ceiling of row 6: picows, WebSockets in C, sends one ready payload to every socket.

    python -m benchmarks.peer_picows PORT SOCKETS_PORT

Runs in the environment of the peers (`scripts/setup --bench`). A message that is posted to the one port is told to all
who opened a WebSocket on the other (picows takes no bodies): no credentials, no checks, no disk.
"""

import asyncio
import importlib
import sys
from typing import Any, cast

import httptools
import uvloop

from benchmarks.peer_queues import encoded, event_of

# Not imported by name: it is not installed where types are checked.
picows: Any = importlib.import_module("picows")
_RECEIPT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Hub:
    """Who listens."""

    def __init__(self) -> None:
        self.transports: set[Any] = set()
        self._seq = 0

    def publish(self, body: bytes) -> None:
        """Tells all."""
        self._seq += 1
        frame = encoded(event_of(self._seq, body)).encode()
        for transport in self.transports:
            transport.send(picows.WSMsgType.TEXT, frame)


def _listener(hub: Hub) -> Any:
    class Listener(picows.WSListener):  # type: ignore[misc]
        def on_ws_connected(self, transport: Any) -> None:
            hub.transports.add(transport)

        def on_ws_disconnected(self, transport: Any) -> None:
            hub.transports.discard(transport)

    return Listener()


class Inlet(asyncio.Protocol):
    """Takes what is posted."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """A piece of a message."""
        self._body += body

    def on_message_complete(self) -> None:
        """A request is whole."""
        if self._body:
            self._hub.publish(self._body)
        self._body = b""
        self._transport.write(_RECEIPT)


async def serve(port: int, sockets_port: int) -> None:
    """Serves until it is killed."""
    hub, loop = Hub(), asyncio.get_running_loop()
    await picows.ws_create_server(lambda _request: _listener(hub), "127.0.0.1", sockets_port, backlog=2048)
    inlet = await loop.create_server(lambda: Inlet(hub), "127.0.0.1", port)
    await inlet.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
