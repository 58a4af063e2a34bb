"""The peer of row 6, as fan-out is commonly written: for each WebSocket a queue, and a task that encodes and sends.

Plain ASGI on uvicorn (uvloop, httptools, its own choice of WebSockets), no compression; each task encodes for its own
socket with the standard library, as `send_json` of the common frameworks does. `frugal` is the same but for one thing:
it encodes once for all. Both are spared what a message costs Molecule (no credentials, no checks, no disk) and what a
framework would cost them; their event has the fields and about the size of Molecule's.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
}
_ANSWER = {"type": "http.response.body", "body": b"{}"}
_ID = "019c1f0e-0000-7000-8000-000000000000"


def event_of(seq: int, body: bytes) -> dict[str, Any]:
    """A message's body as an event, with the fields that Molecule tells."""
    asked = json.loads(body)
    return {
        "prev": seq - 1,
        "event": "ACTIVITY_LOGGED",
        "workspace_id": _ID,
        "timestamp": "2026-11-22T02:41:07.000000Z",
        "payload": {
            "activity_type": "a2a_receive",
            "status": "ok",
            "seq": seq,
            "method": "message/send",
            "kind": "peer_agent",
            "summary": asked["params"]["message"]["parts"][0]["text"],
            "source_id": _ID,
            "target_id": _ID,
            "request_body": {**asked, "kind": "peer_agent", "metadata": {}},
        },
        "entity": {"kind": "activity", "id": _ID, "rev": 0},
        "seq": seq,
    }


def encoded(event: dict[str, Any]) -> str:
    """An event as the common frameworks encode it."""
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)


class Hub:
    """Who listens. `once`: encode for all, not for each."""

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._queues: set[asyncio.Queue[Any]] = set()
        self._seq = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """A WebSocket listens; any other request tells all of them what its body says."""
        if scope["type"] == "websocket":
            await self._listen(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)
        if body:
            self._publish(body)
        await send(_START)
        await send(_ANSWER)

    def _publish(self, body: bytes) -> None:
        self._seq += 1
        event = event_of(self._seq, body)
        told = encoded(event) if self._once else event
        for queue in self._queues:
            queue.put_nowait(told)

    async def _listen(self, receive: Receive, send: Send) -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        await receive()
        await send({"type": "websocket.accept"})
        self._queues.add(queue)
        sending = asyncio.create_task(self._pass_on(queue, send))
        try:
            while (await receive())["type"] != "websocket.disconnect":
                pass
        finally:
            self._queues.discard(queue)
            sending.cancel()

    async def _pass_on(self, queue: "asyncio.Queue[Any]", send: Send) -> None:
        while True:
            told = await queue.get()
            await send({"type": "websocket.send", "text": told if self._once else encoded(told)})


app = Hub(once=False)
frugal = Hub(once=True)
