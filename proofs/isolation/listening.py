"""Somebody who listens to the event stream from the beginning, over a socket of its own."""

import asyncio

import msgspec

from proofs.isolation.model import Model, Person, Seat


class Listener:
    """One event stream. `heard`: the rows it was told of; `before`: those that were there when it came."""

    def __init__(self, caller: Seat | Person, model: Model) -> None:
        self.caller = caller
        self.heard: set[str] = set()
        self.before: set[str] = set()
        self.leaks: list[str] = []
        self._model = model
        self._last = asyncio.Event()
        self._awaited = b""
        self._tail = b""

    async def begin(self, port: int) -> None:
        """Connects, and waits for the first frame: from then on it must be told of everything."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /events/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        self._writer.write(f"{head}Authorization: Bearer {self.caller.token}\r\n\r\n".encode())
        greeted = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(greeted))
        await greeted

    async def _read(self, greeted: "asyncio.Future[None]") -> None:
        async for line in self._reader:
            if not line.startswith(b"data: "):
                continue
            if not greeted.done():
                greeted.set_result(None)
            self.leaks += [mark.decode() for mark in self._model.leaks(self.caller, line)]
            if b'"activity"' in line:
                frame = msgspec.json.decode(line[6:])
                if frame.get("event") and frame["entity"]["kind"] == "activity" and frame.get("seq"):
                    self.heard.add(frame["entity"]["id"])
            self._tail = line
            if self._awaited and self._awaited in line:
                self._last.set()

    async def end(self, word: str, seconds: float) -> None:
        """Listens until it has heard a word; who does not hear it in time goes without."""
        self._awaited = word.encode()
        if self._awaited in self._tail:
            self._last.set()
        try:
            async with asyncio.timeout(seconds):
                await self._last.wait()
        except TimeoutError:
            pass
        self._reading.cancel()
        self._writer.close()
