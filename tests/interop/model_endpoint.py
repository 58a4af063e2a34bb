"""Where a host believes its model to be: HTTP on loopback. It is the host's proxy too, and passes nothing on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import msgspec

from testing.waits import IN_PROCESS_SECONDS
from tests.interop.model_protocols import Dialect, stream
from tests.interop.model_scripts import Mind

_LONGEST_HEAD = 1 << 20


class Refusal(NamedTuple):
    """What the model answers instead of its mind, while it has a limit."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]


class Endpoint:
    """Answers a host's requests as its model. `strangers`: whom else the host wanted to reach; nobody was."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.mind = Mind("", [])
        self.port = 0
        self.think_seconds = 0.0
        """How long the model takes for an answer."""
        self.refuse: Callable[[], Refusal | None] = lambda: None
        """Returns what each request is answered with now instead, if it is refused."""
        self.refused = 0
        self.strangers: list[str] = []
        self.asides: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The requests of one connection, one after the other."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, target, _ = head[0].split(" ")
                status, answer, more = self._answer(method, target, body)
                if self.think_seconds and method == "POST":
                    with anyio.move_on_after(self.think_seconds):
                        await anyio.Event().wait()
                kind = "text/event-stream" if status == 200 and answer else "application/json"  # OK
                lines = [f"HTTP/1.1 {status} said", f"Content-Type: {kind}", f"Content-Length: {len(answer)}"]
                lines += [f"{name}: {value}" for name, value in more.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str, target: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if not target.startswith("/"):  # CONNECT host:port, or a whole url: meant for a proxy
            self.strangers.append(f"{method} {target}")
            return 403, b"", {}
        if method != "POST" or not self.dialect.takes(target.partition("?")[0]):
            self.asides.append(f"{method} {target}")
            return (200, b"", {}) if method == "HEAD" else (404, b"{}", {})
        if (refusal := self.refuse()) is not None:
            self.refused += 1
            return refusal.status, msgspec.json.encode(refusal.body), refusal.headers
        request: dict[str, Any] = msgspec.json.decode(body)
        asked = self.dialect.asked(request)
        act = "Yes." if asked is None else self.mind.answer(asked)
        number = len(self.mind.asked)
        return 200, stream(self.dialect.events(act, number, request)), {}


@asynccontextmanager
async def listening(endpoint: Endpoint) -> AsyncIterator[Endpoint]:
    """The endpoint, until the block ends."""
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, limit=_LONGEST_HEAD)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        server.close()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await server.wait_closed()
