"""Interface of the application that a server runs.

Implemented by `api/application.py`; used by `api/http/connection.py` and `api/asgi/`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, TypeVar

from molecule_core.api.http.rate_limits import ClientAddress, RateStatus
from molecule_core.api.http.response import Response
from molecule_core.common.errors import MoleculeError


class RequestRoute(Protocol):
    """What a server must know of the route of a request."""

    @property
    def streams_body(self) -> bool:
        """Return whether the handler reads the body itself, from `body_stream`."""


class AuthorizedRequest(Protocol):
    """Request that the application has accepted; the server adds its body."""

    headers: dict[bytes, bytes]
    body: bytes
    body_stream: AsyncIterator[bytes] | None
    rate_status: RateStatus | None

    @property
    def route(self) -> RequestRoute:
        """Return the route of the request."""


R = TypeVar("R", bound=AuthorizedRequest)


class HttpApplication(Protocol[R]):
    """Application behind a server. It sees each request twice: before its body is read, and complete."""

    def client_address(self, peer: Any) -> ClientAddress:
        """Return the address of a peer, with its rate status."""

    def authorize(self, method: bytes, url: bytes, header_list: list[tuple[bytes, bytes]], client: ClientAddress) -> R:
        """Check a request before its body is read. Raises MoleculeError."""

    def is_websocket_route(self, method: bytes, url: bytes) -> bool:
        """Return whether a request may become a WebSocket."""

    def dispatch(self, request: R, on_response: Callable[[Response], None]) -> "asyncio.Task[None] | None":
        """Respond to an authorized request, now or later, by calling `on_response` once.

        Returns the task that runs the handler, if there is one; cancelling it ends the request without a response."""

    def error_response(self, error: MoleculeError, rate_status: RateStatus | None = None) -> Response:
        """Return the response to an error."""

    def record_response(self, request: R | None, status: int, seconds: float) -> None:
        """Count a response. `request` is None if it was rejected before it was authorized."""
