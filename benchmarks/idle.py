"""Agents that are connected and do nothing: plain sockets, held open by the process that measures."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from benchmarks.figures import Failed
from benchmarks.listeners import socket_request
from benchmarks.load import Seat

_ANSWER_SECONDS = 60.0
_WAIT_SECONDS = 25
"""A long-poll is held at most so long: what is measured of long-polls must be measured by then."""


class Kind(Struct, frozen=True):
    """A way to stay connected. `greeting`: what the server says once the connection stands; a long-poll gets nothing
    until it ends."""

    name: str
    greeting: bytes = b""

    def request(self, port: int, seat: Seat) -> bytes:
        """What an agent sends."""
        if self is WEBSOCKET:
            return socket_request(port, seat.token)
        path = "/events/stream" if self is SSE else f"/workspaces/{seat.id}/activity?claim=60&wait={_WAIT_SECONDS}"
        return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {seat.token}\r\n\r\n".encode()


WEBSOCKET = Kind("WebSocket", b'"type":"hello"')
SSE = Kind("event stream", b"event: hello")
LONG_POLL = Kind("long-poll")
KINDS = (WEBSOCKET, SSE, LONG_POLL)


@contextmanager
def idle_agents(kind: Kind, port: int) -> Iterator["Idle"]:
    """Agents to be connected, each with a workspace and a connection of its own; all hang up at the end."""
    idle = Idle(kind, port)
    try:
        yield idle
    finally:
        idle.close()


class Idle:
    """The connections of one kind that stand."""

    def __init__(self, kind: Kind, port: int) -> None:
        self._kind = kind
        self._port = port
        self._sockets: list[socket.socket] = []

    def connect(self, seats: Sequence[Seat]) -> None:
        """Connects these, one after the other, and waits until the server has greeted each."""
        for seat in seats:
            agent = socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_SECONDS)
            self._sockets.append(agent)
            agent.sendall(self._kind.request(self._port, seat))
            self._await_greeting(agent)

    def _await_greeting(self, agent: socket.socket) -> None:
        heard = b""
        while self._kind.greeting not in heard:
            data = agent.recv(4096)
            heard += data
            if not data:
                raise Failed(f"the server hung up on an idle {self._kind.name}: {heard[:300]!r}")

    def check_silent(self) -> None:
        """No long-poll has ended: what was measured was measured of connections that wait."""
        for agent in self._sockets:
            agent.setblocking(False)
            try:
                said = agent.recv(4096)
            except BlockingIOError:
                continue
            if not said or self._kind is LONG_POLL:
                raise Failed(f"an idle {self._kind.name} has ended: {said[:300]!r}")

    def close(self) -> None:
        """All hang up."""
        for agent in self._sockets:
            agent.close()
        self._sockets.clear()
