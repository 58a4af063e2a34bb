"""One request on a connection, from its first header to its answer."""

import asyncio

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
        "task",
    )

    def __init__(self, *, keep_alive: bool, head_only: bool = False) -> None:
        self.keep_alive = keep_alive
        self.head_only = head_only
        self.call: Call | None = None
        self.refused: Answer | None = None
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        self.started = False
        self.answered = False
        self.task: asyncio.Task[None] | None = None


def without_upgrade(connection: bytes) -> bytes:
    """The Connection header without what belongs to an upgrade."""
    tokens = [token.strip() for token in connection.split(b",")]
    return b", ".join(token for token in tokens if token.lower() not in (b"upgrade", b"http2-settings"))


def wants_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the upgrade that a request offers is the one we know."""
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
