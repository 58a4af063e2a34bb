"""State of one request, from its first header to its response."""

import asyncio
from typing import Generic

from msgspec import Struct

from molecule_core.api.http.application_protocol import R
from molecule_core.api.http.rate_limits import ClientAddress
from molecule_core.api.http.request_body import StreamingBody
from molecule_core.api.http.response import Response
from molecule_core.api.http.response_head import rate_headers, render_head


class RequestCycle(Struct, Generic[R], eq=False):
    """Request with its body, its response state and its handler task."""

    client: ClientAddress
    keep_alive: bool
    head_only: bool = False
    request: R | None = None
    rejection: Response | None = None
    body: list[bytes] = []
    body_size: int = 0
    is_complete: bool = False
    is_started: bool = False
    is_answered: bool = False
    body_stream: StreamingBody | None = None
    task: "asyncio.Task[None] | None" = None

    def head_bytes(self, response: Response, date: bytes) -> bytes:
        """Return the encoded head of a response."""
        return render_head(response, date, self.rate_header_bytes(response), keep_alive=self.keep_alive)

    def rate_header_bytes(self, response: Response) -> bytes:
        """Return the rate limit headers that every response carries."""
        own_status = None if self.request is None else self.request.rate_status
        return rate_headers(response.rate_status or own_status or self.client.current_status())

    def abandon(self) -> None:
        """Cancel the handler and drop the received body."""
        self.body.clear()
        if self.body_stream is not None:
            self.body_stream.close()
        task, self.task = self.task, None
        if task is not None:  # only once: a second cancel would interrupt its cleanup
            task.cancel()


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the request head without its upgrade offer."""
    lines = [method, b" ", url, b" HTTP/", version.encode(), b"\r\n"]
    for name, value in headers:
        remaining = _without_upgrade(value) if name == b"connection" else value
        if remaining and name not in (b"upgrade", b"http2-settings"):
            lines += [name, b": ", remaining, b"\r\n"]
    return b"".join([*lines, b"\r\n"])


def _without_upgrade(connection: bytes) -> bytes:
    """Return the Connection header without its upgrade tokens."""
    tokens = [token.strip() for token in connection.split(b",")]
    return b", ".join(token for token in tokens if token.lower() not in (b"upgrade", b"http2-settings"))


def offers_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers offer an upgrade to WebSocket."""
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
