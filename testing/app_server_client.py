"""A client of the app-server dialect: the `websockets` package, and every frame that came."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from testing.running_server import Running
from testing.waits import bounded

Frame = dict[str, Any]


class Client:
    """Asks, and remembers what it was told. Every wait is bounded."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.told: list[Frame] = []
        self.cursor = ""
        self._asked = 0

    async def send(self, data: str | bytes) -> None:
        """Any frame."""
        await bounded(self.connection.send(data))

    async def frame(self) -> Frame:
        """The next frame."""
        frame: Frame = msgspec.json.decode(await bounded(self.connection.recv()))
        if "method" in frame:
            self.told.append(frame)
            self.cursor = frame["params"].get("cursor", self.cursor)
        return frame

    async def asks(self, method: str, **params: Any) -> Frame:
        """The whole answer to a request; what is told meanwhile is kept."""
        self._asked += 1
        await self.send(json.dumps({"id": self._asked, "method": method, "params": params}))
        while (frame := await self.frame()).get("id") != self._asked:
            pass
        return frame

    async def does(self, method: str, **params: Any) -> Any:
        """The result of a request that is not refused."""
        answer = await self.asks(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def begins(self, **params: Any) -> None:
        """Initializes."""
        self.cursor = (await self.does("initialize", clientInfo={"name": "test"}, **params))["cursor"]

    async def hears(self, method: str, count: int = 1) -> Frame:
        """The `count`th notification of a method, counted from the first frame on."""
        while len(found := [each for each in self.told if each["method"] == method]) < count:
            await self.frame()
        return found[count - 1]["params"]  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def client(server: Running, token: str, query: str = "") -> AsyncIterator[Client]:
    """A connection that has not said anything."""
    opening = connect(
        f"ws://127.0.0.1:{server.port}/threads/ws{query}",
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        proxy=None,
        ping_interval=None,
        close_timeout=1,
    )
    connection = await bounded(opening.__aenter__())
    try:
        yield Client(connection)
    finally:
        await bounded(connection.close())
