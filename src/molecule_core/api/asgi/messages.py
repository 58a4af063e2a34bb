"""Types of ASGI, and what its scopes say about a request."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Generic
from urllib.parse import quote

from molecule_core.api.http.application_protocol import HttpApplication, R
from molecule_core.api.http.response import EventStreamHandler, WebSocketHandler
from molecule_core.api.http.streaming_response import new_send_semaphore
from molecule_core.common.errors import BadHttp
from molecule_core.common.limits import Limits

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Characters of a path that `quote` leaves alone (RFC 3986, 3.3).
_PATH_CHARACTERS = "/:@!$&'()*+,;=~"


class AsgiContext(Generic[R]):
    """What all exchanges of an ASGI application share."""

    def __init__(self, application: HttpApplication[R], limits: Limits) -> None:
        self.application = application
        self.limits = limits
        self.send_semaphore = new_send_semaphore()
        self.stream_handlers: set[EventStreamHandler | WebSocketHandler] = set()
        """Handlers of open streams."""


def request_target(scope: Scope) -> bytes:
    """Return the request target, without the prefix under which the application is mounted."""
    root = str(scope.get("root_path") or "").rstrip("/")
    raw_path: bytes = scope.get("raw_path") or quote(scope["path"], safe=_PATH_CHARACTERS).encode()
    path = raw_path.partition(b"?")[0]
    for prefix in (root.encode(), quote(root, safe=_PATH_CHARACTERS).encode()):
        if prefix and (path == prefix or path.startswith(prefix + b"/")):
            path = path[len(prefix) :]
            break
    query: bytes = scope.get("query_string") or b""
    return (path or b"/") + (b"?" + query if query else b"")


def request_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the headers with names in lower case. Raises BadHttp for a length that is no number."""
    headers = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
    if any(name == b"content-length" and not value.isdigit() for name, value in headers):
        raise BadHttp
    return headers


def peer_of(scope: Scope) -> tuple[str, int] | None:
    """Return the address of the client, if the server knows it."""
    client = scope.get("client")
    return None if client is None else (str(client[0]), client[1])
