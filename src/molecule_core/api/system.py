"""Routes about the server itself: health, readiness and the OpenAPI document."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import NamedTuple

import msgspec

from molecule_core.api.http.response import Response
from molecule_core.api.openapi import build_document
from molecule_core.api.rate_limits import RateClass
from molecule_core.api.routing import ALL_CREDENTIALS, PUBLIC, AccessPolicy, Request, Route, json_response
from molecule_core.common.clock import Clock
from molecule_core.common.errors import StoreUnavailable, StoreWriteFailed


class StoreReadiness(NamedTuple):
    """What a readiness check asks of the store: a read, within some seconds, and that writes do not fail."""

    read: Callable[[], Awaitable[object]]
    is_write_failing: Callable[[], bool]
    clock: Clock
    seconds: float

    async def check(self) -> None:
        """Raise StoreUnavailable if the store does not respond in time, StoreWriteFailed if it cannot be written."""
        reading = asyncio.ensure_future(self.read())
        if not await self.clock.wait(asyncio.wait((reading,)), self.seconds):
            reading.cancel()
            raise StoreUnavailable
        await reading
        if self.is_write_failing():
            raise StoreWriteFailed


class SystemRoutes:
    """Routes that belong to no noun."""

    def __init__(
        self,
        readiness: StoreReadiness,
        wakeup_source: Callable[[], str | None],
        *,
        version: str,
        process: str,
        route_list: Callable[[], list[Route]],
    ) -> None:
        """Initialize the routes.

        `wakeup_source`: returns how wake-ups of other processes arrive, or None where there are no other processes.
        """
        self._readiness = readiness
        self._wakeup_source = wakeup_source
        self._version = version
        self._process = process
        self._route_list = route_list

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(
                "GET",
                "/health",
                self.get_health,
                PUBLIC,
                "Check that the process is running",
                rate_class=RateClass.FREE,
                any_host=True,
            ),
            Route(
                "GET",
                "/ready",
                self.get_readiness,
                PUBLIC,
                "Check that the server is ready",
                rate_class=RateClass.FREE,
                any_host=True,
            ),
            Route(
                "GET", "/openapi.json", self.get_openapi, AccessPolicy(ALL_CREDENTIALS), "Get the OpenAPI 3.1 document"
            ),
        ]

    async def get_health(self, _request: Request) -> Response:
        """Report that the process runs."""
        return json_response({"status": "ok", "version": self._version, "process": self._process})

    async def get_readiness(self, _request: Request) -> Response:
        """Report that the store responds and can be written. Raises StoreUnavailable, StoreWriteFailed (503)."""
        await self._readiness.check()
        wakeup_source = self._wakeup_source()
        return json_response(
            {"status": "ready"} if wakeup_source is None else {"status": "ready", "wake_ups": wakeup_source}
        )

    async def get_openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document, generated from the route table."""
        return Response(self._document)

    @cached_property  # control: openapi-cached
    def _document(self) -> bytes:
        """Return the encoded document, built once.

        Building it takes as long as many messages, and any credential may request it.
        """
        return msgspec.json.encode(build_document(self._route_list(), self._version))
