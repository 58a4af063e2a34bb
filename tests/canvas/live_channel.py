"""The live channel of a browser context in the hands of a test: listened to, forged, cut and mended."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from playwright.async_api import BrowserContext, WebSocketRoute

from testing.waits import IN_PROCESS_SECONDS

_GOING_AWAY = 1001


class Wire:
    """Stands between the pages of a context and the server. `asked` is what the pages sent, `told` what they got."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.opened = 0
        self.refused = 0
        self._is_cut = False
        self._open: list[tuple[WebSocketRoute, WebSocketRoute]] = []
        self._news = asyncio.Event()

    async def hold(self, context: BrowserContext) -> "Wire":
        """Takes hold of the channels that pages of this context open from now on."""
        await context.route_web_socket(re.compile(r"/ws\?"), self._opening)
        return self

    async def _opening(self, page: WebSocketRoute) -> None:
        if self._is_cut:
            self.refused += 1
            self._news.set()
            await page.close(code=_GOING_AWAY)
            return
        self.opened += 1
        server = page.connect_to_server()
        self._open.append((page, server))

        def ask(message: str | bytes) -> None:
            self.asked.append(json.loads(message))
            server.send(message)
            self._news.set()

        def tell(message: str | bytes) -> None:
            self.told.append(json.loads(message))
            page.send(message)
            self._news.set()

        page.on_message(ask)
        server.on_message(tell)

    def forge(self, frame: dict[str, Any]) -> None:
        """Tells all open pages something that the server never said."""
        for page, _ in self._open:
            page.send(json.dumps(frame))

    async def cut(self) -> None:
        """Ends the open channels and refuses new ones."""
        self._is_cut = True
        for page, server in self._open:
            await server.close(code=_GOING_AWAY)
            await page.close(code=_GOING_AWAY)
        self._open.clear()

    def mend(self) -> None:
        """Lets pages through again, as soon as they try."""
        self._is_cut = False

    def resumes(self) -> list[dict[str, Any]]:
        """What pages asked to go on from."""
        return [frame for frame in self.asked if frame["type"] == "subscribe"]

    def last_seq(self) -> int:
        """The number of the last event that a page knows of."""
        known = [frame["seq"] for frame in self.told if "seq" in frame]
        return int(known[-1] if known else self.resumes()[-1]["after"])

    async def until(self, happened: Callable[["Wire"], bool], seconds: float = IN_PROCESS_SECONDS) -> None:
        """Waits until what came and went is as wanted."""
        async with asyncio.timeout(seconds):
            while not happened(self):
                self._news.clear()
                await self._news.wait()

    def answers(self) -> int:
        """How many wishes to go on the server has answered."""
        return sum(frame.get("type") in ("resumed", "current") for frame in self.told)
