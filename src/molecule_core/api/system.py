"""Routes about the server itself: health, readiness and the OpenAPI document."""

from collections.abc import Awaitable, Callable
from functools import cached_property

import msgspec

from molecule_core.api.http.response import Response
from molecule_core.api.openapi import build_document
from molecule_core.api.routing import ALL_CREDENTIALS, PUBLIC, AccessPolicy, Request, Route, json_response


class SystemRoutes:
    """Routes that belong to no noun."""

    def __init__(
        self,
        check_store: Callable[[], Awaitable[object]],
        wakeup_source: Callable[[], str | None],
        *,
        version: str,
        process: str,
        route_list: Callable[[], list[Route]],
    ) -> None:
        """Initialize the routes.

        `wakeup_source`: returns how wake-ups of other processes arrive, or None where there are no other processes.
        """
        self._check_store = check_store
        self._wakeup_source = wakeup_source
        self._version = version
        self._process = process
        self._route_list = route_list

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("GET", "/health", self.get_health, PUBLIC, "Whether the process runs"),
            Route("GET", "/ready", self.get_readiness, PUBLIC, "Whether it can serve: the store answers"),
            Route("GET", "/openapi.json", self.get_openapi, AccessPolicy(ALL_CREDENTIALS), "This table as OpenAPI 3.1"),
        ]

    async def get_health(self, _request: Request) -> Response:
        """Report that the process runs."""
        return json_response({"status": "ok", "version": self._version, "process": self._process})

    async def get_readiness(self, _request: Request) -> Response:
        """Report that the store responds. Raises StoreUnavailable (503)."""
        await self._check_store()
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
