"""The yardstick U: the least that an ASGI application on uvicorn can do with a POST. It reads the body and answers two
bytes of JSON, so what it costs is what uvicorn itself costs."""

from collections.abc import Awaitable, Callable
from typing import Any

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
}
_BODY = {"type": "http.response.body", "body": b"{}"}


async def app(
    _scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Any request is answered alike."""
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send(_BODY)
