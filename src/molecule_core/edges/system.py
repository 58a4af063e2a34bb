"""The server about itself: is it alive, is it ready, what does it offer."""

from collections.abc import Awaitable, Callable
from functools import cached_property

import msgspec

from molecule_core.edges.openapi import describe
from molecule_core.edges.routes import EVERYBODY, PUBLIC, Answer, Call, Route, Who, json_answer


class SystemEdge:
    """The routes that belong to no noun."""

    def __init__(
        self,
        look: Callable[[], Awaitable[object]],
        others: Callable[[], str | None],
        *,
        version: str,
        process: str,
        table: Callable[[], list[Route]],
    ) -> None:
        """`others`: how wake-ups of other processes come in, where there may be others."""
        self._look = look
        self._others = others
        self._version = version
        self._process = process
        self._table = table

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [
            Route("GET", "/health", self.health, PUBLIC, "Whether the process runs"),
            Route("GET", "/ready", self.ready, PUBLIC, "Whether it can serve: the store answers"),
            Route("GET", "/openapi.json", self.openapi, Who(EVERYBODY), "This table as OpenAPI 3.1"),
        ]

    async def health(self, _call: Call) -> Answer:
        """The process runs."""
        return json_answer({"status": "ok", "version": self._version, "process": self._process})

    async def ready(self, _call: Call) -> Answer:
        """The store answers; otherwise 503 by way of StoreUnavailable."""
        await self._look()
        others = self._others()
        return json_answer({"status": "ready"} if others is None else {"status": "ready", "wake_ups": others})

    async def openapi(self, _call: Call) -> Answer:
        """What this server offers, made from the table of routes."""
        return Answer(self._described)

    @cached_property  # control: openapi-cached
    def _described(self) -> bytes:
        """Made once: it takes as long as many messages, and any credential may ask for it."""
        return msgspec.json.encode(describe(self._table(), self._version))
