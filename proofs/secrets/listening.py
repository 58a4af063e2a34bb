"""What is told live, and what the journal holds, as one who may see all of an organisation reads them."""

import asyncio
import json

from websockets.asyncio.client import connect

from proofs.harness.settings import START_SECONDS
from proofs.secrets.canaries import Place


async def follow_the_stream(port: int, token: str, place: Place) -> None:
    """The event stream from now on, until it is cancelled or ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    try:
        async for line in reader:
            place.add(line)
    finally:
        writer.transport.abort()


async def read_the_journal(port: int, token: str, place: Place) -> None:
    """All events from the first to the last, over a WebSocket."""
    seen = 0
    async with (
        asyncio.timeout(START_SECONDS),
        connect(
            f"ws://127.0.0.1:{port}/ws",
            additional_headers={"Authorization": f"Bearer {token}"},
            proxy=None,
            max_size=1 << 24,
        ) as socket,
    ):
        head = json.loads(await socket.recv())["head"]
        await socket.send(json.dumps({"type": "subscribe", "after": 0, "epoch": None}))
        while seen < head:
            data = await socket.recv()
            place.add(data.encode() if isinstance(data, str) else data)
            seen = max(seen, json.loads(data).get("seq", 0))
