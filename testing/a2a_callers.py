"""A client of A2A that sends what a test tells it to, over raw HTTP, and reads streams event by event."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from molecule_core.wire.protocols.a2a_shapes import A2AState
from testing.raw_http import Reply, ask, request
from testing.running_server import Running
from testing.waits import bounded

V1, V0_3 = "1.0", "0.3"
_SEND = {V1: "SendMessage", V0_3: "message/send"}
_STREAM = {V1: "SendStreamingMessage", V0_3: "message/stream"}
_GET = {V1: "GetTask", V0_3: "tasks/get"}
_CANCEL = {V1: "CancelTask", V0_3: "tasks/cancel"}
_SUBSCRIBE = {V1: "SubscribeToTask", V0_3: "tasks/resubscribe"}


class StreamedEvent(NamedTuple):
    """An event of a stream: its number in the journal, and what it carries, without the envelope."""

    id: str
    data: dict[str, Any]

    @property
    def state(self) -> str:
        """The state that it reports, as 0.3 spells it; empty for a result."""
        body = self.data.get("task") or self.data.get("statusUpdate") or self.data
        found = str(body.get("status", {}).get("state", ""))
        return found.lower().removeprefix("task_state_").replace("_", "-")

    @property
    def text(self) -> str:
        """The text of a result."""
        artifact = (self.data.get("artifactUpdate") or self.data)["artifact"]
        return "".join(part.get("text", "") for part in artifact["parts"])


class A2AStreamReader:
    """A stream that is open."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.comments = 0

    async def event(self) -> StreamedEvent | None:
        """The next event; None at the end."""
        found: dict[str, str] = {}
        while line := await bounded(self._reader.readline()):
            text = line.decode().rstrip("\r\n")
            if text.startswith(":"):
                self.comments += 1
            elif text:
                name, _, value = text.partition(": ")
                found[name] = value
            elif found:
                data = json.loads(found["data"])
                return StreamedEvent(found["id"], data.get("result", data))
        return None

    async def rest(self) -> list[StreamedEvent]:
        """All events until the end."""
        events = list[StreamedEvent]()
        while (event := await self.event()) is not None:
            events.append(event)
        return events


class A2ACaller:
    """A client of one workspace, in one line of the protocol."""

    def __init__(self, server: Running, workspace_id: str, token: str | None, line: str = V1) -> None:
        self._server = server
        self.base = f"/workspaces/{workspace_id}/a2a"
        self._token = token
        self.line = line

    def message(self, text: str, message_id: str = "m-1", **more: Any) -> dict[str, Any]:
        """A message as the line writes it."""
        if self.line == V1:
            return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **more}
        parts = [{"kind": "text", "text": text}]
        return {"kind": "message", "messageId": message_id, "role": "user", "parts": parts, **more}

    def headers(self, more: dict[str, str] | None = None) -> dict[str, str]:
        """The headers of a request."""
        return {"A2A-Version": self.line, "Content-Type": "application/json", **(more or {})}

    async def post(self, body: Any, headers: dict[str, str] | None = None, *, suffix: str = "") -> Reply:
        """A request to the address of the interface, as it is."""
        sent = self.headers() if headers is None else headers
        return await bounded(ask(self._server.port, "POST", self.base + suffix, body, token=self._token, headers=sent))

    async def call(self, method: str, params: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """A call by JSON-RPC; the whole envelope."""
        body = {"jsonrpc": "2.0", "id": "call", "method": method, "params": params}
        reply = await self.post(body, self.headers(headers))
        assert reply.status == 200, reply.body
        found: dict[str, Any] = reply.json
        assert ("result" in found) != ("error" in found), found
        return found

    async def error(self, method: str, params: Any, headers: dict[str, str] | None = None) -> int:
        """The code of the error that a call ends with."""
        return int((await self.call(method, params, headers))["error"]["code"])

    async def send(
        self, message: dict[str, Any], headers: dict[str, str] | None = None, **configuration: Any
    ) -> dict[str, Any]:
        """A sent message; its task, without waiting unless the configuration says so."""
        now = {"returnImmediately": True} if self.line == V1 else {"blocking": False}
        found = await self.call(_SEND[self.line], {"message": message, "configuration": configuration or now}, headers)
        task: dict[str, Any] = found["result"]["task"] if self.line == V1 else found["result"]
        return task

    async def get(self, task_id: str, **more: Any) -> dict[str, Any]:
        """A task."""
        found: dict[str, Any] = (await self.call(_GET[self.line], {"id": task_id, **more}))["result"]
        return found

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """A cancelled task."""
        found: dict[str, Any] = (await self.call(_CANCEL[self.line], {"id": task_id}))["result"]
        return found

    async def state(self, task_id: str) -> str:
        """The state of a task, as 0.3 spells it."""
        return plain_state(await self.get(task_id))

    @asynccontextmanager
    async def stream(self, message: dict[str, Any]) -> AsyncIterator[A2AStreamReader]:
        """A stream of a message."""
        async with self._opened(_STREAM[self.line], {"message": message}, {}) as reader:
            yield reader

    @asynccontextmanager
    async def subscribed(self, task_id: str, last_event_id: str | None = None) -> AsyncIterator[A2AStreamReader]:
        """A stream of a task."""
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        async with self._opened(_SUBSCRIBE[self.line], {"id": task_id}, headers) as reader:
            yield reader

    @asynccontextmanager
    async def _opened(self, method: str, params: Any, headers: dict[str, str]) -> AsyncIterator[A2AStreamReader]:
        body = {"jsonrpc": "2.0", "id": "stream", "method": method, "params": params}
        sent = request("POST", self.base, json.dumps(body).encode(), token=self._token, headers=self.headers(headers))
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            writer.write(sent)
            head = await bounded(reader.readuntil(b"\r\n\r\n"))
            assert head.startswith(b"HTTP/1.1 200") and b"text/event-stream" in head, head
            yield A2AStreamReader(reader)
        finally:
            writer.close()


def token_of(api: ApiClient) -> str:
    """The token that a client holds."""
    return str(api._headers["authorization"]).removeprefix("Bearer ")


def plain_state(task: dict[str, Any]) -> A2AState:
    """The state of a task in either line."""
    return A2AState(task["status"]["state"].lower().removeprefix("task_state_").replace("_", "-"))


def texts(parts: list[dict[str, Any]]) -> str:
    """The texts of parts in either line."""
    return "".join(part.get("text", "") for part in parts)
