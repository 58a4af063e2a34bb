"""One request on a connection, from its first header to its answer."""

import asyncio

from molecule_core.edges.bodies import Body
from molecule_core.edges.heads import head_of, rate_lines
from molecule_core.edges.rates import Visitor
from molecule_core.edges.routes import Answer, Call


class Exchange:
    """One request and what becomes of it."""

    __slots__ = (
        "answered",
        "body",
        "call",
        "complete",
        "head_only",
        "keep_alive",
        "refused",
        "size",
        "started",
        "stream",
        "task",
        "visitor",
    )

    def __init__(self, visitor: Visitor, *, keep_alive: bool, head_only: bool = False) -> None:
        self.visitor = visitor
        self.keep_alive = keep_alive
        self.head_only = head_only
        self.call: Call | None = None
        self.refused: Answer | None = None
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        self.started = False
        self.answered = False
        self.stream: Body | None = None
        self.task: asyncio.Task[None] | None = None

    def head(self, answer: Answer, date: bytes) -> bytes:
        """The head of its answer."""
        return head_of(answer, date, self.rate(answer), keep_alive=self.keep_alive)

    def rate(self, answer: Answer) -> bytes:
        """Every answer tells what its reader may still ask."""
        own = None if self.call is None else self.call.standing
        return rate_lines(answer.standing or own or self.visitor.look())

    @property
    def ready(self) -> bool:
        """Whether its handler can be asked: its body is here, or is read by the handler itself."""
        return not self.started and (self.complete or self.stream is not None)

    def give_up(self) -> None:
        """Nobody works on it any more, and what came of its body is dropped."""
        self.body.clear()
        if self.stream is not None:
            self.stream.close()
        task, self.task = self.task, None
        if task is not None:  # once: a second time would keep it from tidying up
            task.cancel()


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The head of the same request without the offer to upgrade."""
    lines = [method, b" ", url, b" HTTP/", version.encode(), b"\r\n"]
    for name, value in headers:
        kept = _without_upgrade(value) if name == b"connection" else value
        if kept and name not in (b"upgrade", b"http2-settings"):
            lines += [name, b": ", kept, b"\r\n"]
    return b"".join([*lines, b"\r\n"])


def _without_upgrade(connection: bytes) -> bytes:
    """The Connection header without what belongs to an upgrade."""
    tokens = [token.strip() for token in connection.split(b",")]
    return b", ".join(token for token in tokens if token.lower() not in (b"upgrade", b"http2-settings"))


def wants_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the upgrade that a request offers is the one we know."""
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
