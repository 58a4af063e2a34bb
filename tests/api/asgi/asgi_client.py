"""A client that speaks ASGI to an application in the same process: lifespan, endless responses, WebSockets.

httpx2's ASGITransport does the finite requests; it collects a response before it returns it, so it cannot read streams.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from molecule_core.api.asgi.messages import Message, Scope
from testing.waits import PROCESS_START_SECONDS, bounded

Headers = Sequence[tuple[bytes, bytes]]
HOST = "localhost"


class Conversation:
    """One scope that an application serves."""

    def __init__(self, application: Any, scope: Scope) -> None:
        self._incoming = asyncio.Queue[Message]()
        self._outgoing = asyncio.Queue[Message]()
        self.task = asyncio.create_task(application(scope, self._incoming.get, self._outgoing.put))

    def tell(self, message_type: str, **members: Any) -> None:
        """Send a message to the application."""
        self._incoming.put_nowait({"type": message_type, **members})

    async def hear(self, message_type: str) -> Message:
        """Return the next message of the application, which must be of this type."""
        message = await bounded(self._outgoing.get())
        assert message["type"] == message_type, message
        return message

    @property
    def is_silent(self) -> bool:
        """Whether the application has sent nothing that was not read."""
        return self._outgoing.empty()

    async def end(self) -> None:
        """Wait until the application has ended the scope."""
        await bounded(self.task)


@asynccontextmanager
async def lifespan(application: Any) -> AsyncIterator[None]:
    """The application between its startup and its shutdown, by the lifespan protocol."""
    conversation = Conversation(application, {"type": "lifespan", "asgi": {"version": "3.0"}})
    conversation.tell("lifespan.startup")
    async with asyncio.timeout(PROCESS_START_SECONDS):
        started = await conversation._outgoing.get()
    assert started["type"] == "lifespan.startup.complete", started
    try:
        yield
    finally:
        conversation.tell("lifespan.shutdown")
        async with asyncio.timeout(PROCESS_START_SECONDS):
            ended = await conversation._outgoing.get()
            await conversation.task
    assert ended["type"] == "lifespan.shutdown.complete", ended


class EventStreamReader:
    """Reads the `data` of server-sent events."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._rest = b""

    async def frame(self, name: str = "") -> dict[str, Any]:
        """Return the data of the next event; of the next one with this event name, if one is given."""
        while True:
            while b"\n\n" not in self._rest:
                self._rest += (await self._conversation.hear("http.response.body"))["body"]
            block, _, self._rest = self._rest.partition(b"\n\n")
            for line in block.split(b"\n"):
                if line.startswith(b"data: "):
                    found: dict[str, Any] = msgspec.json.decode(line.removeprefix(b"data: "))
                    if not name or found.get("event") == name:
                        return found


def requesting(application: Any, path: str, token: str) -> Conversation:
    """A GET request that has not been answered."""
    conversation = Conversation(application, {**_scope("http", path, token), "method": "GET", "http_version": "1.1"})
    conversation.tell("http.request", body=b"", more_body=False)
    return conversation


@asynccontextmanager
async def streaming(application: Any, path: str, token: str) -> AsyncIterator[EventStreamReader]:
    """An open event stream; its client is gone at the end of the block."""
    conversation = requesting(application, path, token)
    head = await conversation.hear("http.response.start")
    assert head["status"] == 200, head
    yield EventStreamReader(conversation)
    conversation.tell("http.disconnect")
    await conversation.end()


class WebSocketClient:
    """An open WebSocket."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    async def frame(self, **members: Any) -> dict[str, Any]:
        """Return the next message that has these members."""
        while True:
            found: dict[str, Any] = msgspec.json.decode((await self.conversation.hear("websocket.send"))["text"])
            if members.items() <= found.items():
                return found

    def send(self, **frame: Any) -> None:
        """Send a message."""
        self.conversation.tell("websocket.receive", text=msgspec.json.encode(frame).decode())


def opening(application: Any, path: str, token: str | None) -> Conversation:
    """A handshake that has not been answered."""
    scope = {**_scope("websocket", path, token), "subprotocols": [], "extensions": {"websocket.http.response": {}}}
    conversation = Conversation(application, scope)
    conversation.tell("websocket.connect")
    return conversation


@asynccontextmanager
async def websocket(application: Any, path: str, token: str) -> AsyncIterator[WebSocketClient]:
    """An open WebSocket; its client is gone at the end of the block."""
    conversation = opening(application, path, token)
    await conversation.hear("websocket.accept")
    yield WebSocketClient(conversation)
    conversation.tell("websocket.disconnect", code=1000)
    await conversation.end()


def _scope(kind: str, target: str, token: str | None) -> Scope:
    path, _, query = target.partition("?")
    authorization = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", HOST.encode()), *authorization],
        "client": ("127.0.0.1", 1),
        "server": (HOST, 80),
    }
