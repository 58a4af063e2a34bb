"""People who watch everything live, over WebSockets that are cut again and again and go on behind their number."""

import asyncio
import contextlib
from typing import Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from proofs.workload.observations import Book

_OPEN_SECONDS = 30.0
_LARGEST_FRAME = 8 << 20


class Watcher:
    """One of them. `told`: the numbers of the journal that it was told of, as they came."""

    def __init__(self, port: int, token: str, book: Book) -> None:
        self._port = port
        self._token = token
        self._book = book
        self._epoch = ""
        self.told: list[int] = []
        self.begun: asyncio.Event = asyncio.Event()

    async def watch(self) -> None:
        """Until it is told to go; a line that breaks is opened again."""
        while True:
            with contextlib.suppress(OSError, EOFError, TimeoutError, WebSocketException):
                await self._listen()
            self._book.figures["channels opened again"] += 1

    async def upto(self, seq: int, seconds: float) -> bool:
        """Waits until it was told of a number; False if it was not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.told or self.told[-1] < seq:
                    await self._book.progress.after("told", 1, seconds=1.0)
                return True
        return False

    async def _listen(self) -> None:
        opening = connect(
            f"ws://127.0.0.1:{self._port}/ws",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            proxy=None,
            open_timeout=_OPEN_SECONDS,
            close_timeout=0.1,
            max_size=_LARGEST_FRAME,
        )
        async with opening as channel:
            hello: dict[str, Any] = msgspec.json.decode(await channel.recv())
            self._epoch = self._epoch or hello["epoch"]
            is_behind = bool(self.told)
            if is_behind:
                await channel.send(
                    msgspec.json.encode({"type": "subscribe", "after": self.told[-1], "epoch": self._epoch}).decode()
                )
            else:
                self.told.append(hello["head"])
                self.begun.set()
            async for text in channel:
                is_behind = self._hear(msgspec.json.decode(text), is_behind=is_behind)

    def _hear(self, frame: dict[str, Any], *, is_behind: bool) -> bool:
        """Whether it still waits for the word that it goes on where it was: what is told before is told again."""
        if frame.get("type") in ("resumed", "current"):
            return False
        if frame.get("type") == "snapshot_required":
            self._book.fault("live watchers without their place", str(frame))
        elif "seq" in frame and not is_behind:
            self.told.append(frame["seq"])
            self._book.progress.note("told")
        return is_behind
