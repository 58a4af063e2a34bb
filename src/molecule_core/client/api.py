"""HTTP client of the public API: one server, at most one credential."""

import codecs
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import httpx2
import msgspec

from molecule_core.client.task_headers import delegation_headers
from molecule_core.common.net.proxies import proxy_for
from molecule_core.common.text import file_name_of
from molecule_core.wire.schemas.activity import Intent

# Longer than the longest long-poll, so that a timeout means that the server does not respond.
_TIMEOUT_SECONDS = 60.0
_SSE_DATA_PREFIX = "data: "
# Shorter than the server's idle timeout (75 s), so that the server does not close a connection during a request.
_KEEPALIVE_SECONDS = 30.0
# Timeout, misdirected request, too early, too many requests.
_TRANSIENT_STATUSES = (408, 421, 425, 429)
_STORAGE_FULL = "storage_full"
# An invalid address is handled as an unreachable server.
_CONNECTION_ERRORS = (httpx2.TransportError, httpx2.InvalidURL)
# A redirect's url is chosen by others: shorten it to what a person needs to recognise it.
_MAX_URL_LENGTH = 200
_ADDRESS_OPTIONS = "PLATFORM_URL, --server or --url"
_CONTENT_TYPE = "content-type"
T = TypeVar("T")


class ApiError(Exception):
    """The server rejected the request, or a proxy answered with a redirect or a page.

    `status` is the HTTP status, `problem` the whole response, `code` the error code."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"{status}: {problem.get('error', problem)}")

    @property
    def code(self) -> str:
        """Return the error code, as listed in docs/reference/errors.md; empty if there is none."""
        return str(self.problem.get("code", ""))

    @property
    def is_transient(self) -> bool:
        """Return whether the request may succeed later.

        True for rate limits, timeouts, misdirected requests, server errors, and for redirects and pages, which do not
        come from the server itself. Not for a limit of storage: it lasts until something is deleted."""
        if self.code == _STORAGE_FULL:
            return False
        return self.status in _TRANSIENT_STATUSES or not httpx2.codes.is_client_error(self.status)


class NoAnswerError(Exception):
    """No usable response: unreachable, disconnected, or not what was requested.

    Whether the request was processed is unknown: repeat it with the same messageId, which is safe."""


class ConnectionBroken(NoAnswerError):
    """No response: the server is unreachable, or the connection ended before the response was complete."""


class ConnectionPool:
    """Connections to one server, which clients with different credentials may share."""

    def __init__(self, url: str, *, seconds: float = _TIMEOUT_SECONDS) -> None:
        # Not trust_env: it would send requests to this machine to a proxy. A TLS context with its certificates costs
        # 30 ms, which an http address does not need.
        tls = url.startswith("https:")
        # Unlimited: an agent of a hundred workspaces has a long-poll for each.
        most = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS)
        self.http = httpx2.AsyncClient(timeout=seconds, trust_env=False, proxy=proxy_for(url), verify=tls, limits=most)

    async def close(self) -> None:
        """Close all connections."""
        await self.http.aclose()


class ApiClient:
    """Client for JSON over HTTP to one server. An async context manager; connections are kept between calls.

    `connections`: a shared pool, which its owner closes."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        seconds: float = _TIMEOUT_SECONDS,
        connections: ConnectionPool | None = None,
    ) -> None:
        self._headers = {_CONTENT_TYPE: "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._url = url.rstrip("/")
        pool = connections or ConnectionPool(url, seconds=seconds)
        self._own_pool = pool if connections is None else None
        self._http = pool.http

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the client's own connections."""
        if self._own_pool is not None:
            await self._own_pool.close()

    async def get(self, path: str, **query: Any) -> Any:
        """Make a GET request. Raises ApiError, NoAnswerError."""
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """Make a POST request. Raises ApiError, NoAnswerError."""
        return await self.call("POST", path, body=body, query=query)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Make a request; query fields that are None are left out. Raises ApiError, NoAnswerError."""
        fields = {name: value for name, value in (query or {}).items() if value is not None}
        content = None if body is None else msgspec.json.encode(body)
        sent = {**self._headers, **delegation_headers(), **(headers or {})}
        try:
            response = await self._http.request(method, self._url + path, params=fields, content=content, headers=sent)
        except _CONNECTION_ERRORS as error:
            raise ConnectionBroken(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise ApiError(response.status_code, _error_body(response))
        return _decode_body(response)

    async def download(self, path: str, write: Callable[[bytes], object]) -> str:
        """Make a GET request for a file, call `write` with each piece of it, and return its name.

        Raises ApiError, NoAnswerError."""
        headers = {name: value for name, value in self._headers.items() if name != _CONTENT_TYPE}
        try:
            async with self._http.stream("GET", self._url + path, headers=headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise ApiError(response.status_code, _error_body(response))
                async for piece in response.aiter_bytes():
                    write(piece)
                return file_name_of(response.headers.get("content-disposition", ""))
        except _CONNECTION_ERRORS as error:
            raise ConnectionBroken(str(error) or type(error).__name__) from error

    async def upload(self, path: str, name: str, content: bytes | BinaryIO, mime_type: str) -> Any:
        """Upload one file as a form. Raises ApiError, NoAnswerError."""
        headers = {name: value for name, value in self._headers.items() if name != _CONTENT_TYPE}
        files = {"files": (name, content, mime_type)}
        try:
            response = await self._http.post(self._url + path, files=files, headers=headers)
        except _CONNECTION_ERRORS as error:
            raise ConnectionBroken(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise ApiError(response.status_code, _error_body(response))
        return _decode_body(response)

    async def events(self, path: str = "/events/stream", **query: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Yield live frames, the greeting first, until the server ends the stream. Raises ApiError, NoAnswerError."""
        try:
            async with self._http.stream("GET", self._url + path, params=query, headers=self._headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise ApiError(response.status_code, _error_body(response))
                async for line in response.aiter_lines():
                    if line.startswith(_SSE_DATA_PREFIX):
                        yield msgspec.json.decode(line[len(_SSE_DATA_PREFIX) :])
        except _CONNECTION_ERRORS as error:
            raise ConnectionBroken(str(error) or type(error).__name__) from error

    # -- messages ------------------------------------------------------------------------------------------------------

    async def send(
        self, workspace_id: str, text: str, *, message_id: str | None = None, intent: str = Intent.REQUEST
    ) -> Any:
        """Send a message to a workspace; return the receipt. Raises ApiError, NoAnswerError."""
        message: dict[str, Any] = {"role": "user", "parts": [{"kind": "text", "text": text}]}
        message["metadata"] = {"intent": intent}
        if message_id is not None:
            message["messageId"] = message_id
        body = {"jsonrpc": "2.0", "id": message_id, "method": "message/send", "params": {"message": message}}
        return await self.post(f"/workspaces/{workspace_id}/a2a", body)

    async def claim(
        self,
        workspace_id: str,
        *,
        lease: int = 60,
        wait: int = 25,
        limit: int = 100,
        include: str | None = None,
        reports_read: bool = False,
    ) -> list[dict[str, Any]]:
        """Claim messages of an inbox; waits for the first one. Each must be acknowledged within the lease.

        `reports_read`: the caller reports which of them its model has read; senders see them as delivered only then.
        Raises ApiError, NoAnswerError."""
        path = f"/workspaces/{workspace_id}/activity"
        query = {"reports_read": "true"} if reports_read else {}
        rows = await self.get(path, claim=lease, wait=wait, limit=limit, include=include, **query)
        # A wrong response comes without waiting: treated as an empty inbox it would be polled in a tight loop.
        return [row for row in expect_type(rows, list) if isinstance(row, dict)]

    async def ack(self, workspace_id: str, row: dict[str, Any]) -> Any:
        """Acknowledge a claimed message."""
        handled = {"activity_id": row["id"], "attempt": row["attempt"]}
        return await self.post(f"/workspaces/{workspace_id}/activity/ack", handled)


def expect_type(value: Any, kind: type[T]) -> T:
    """Check the type of a response. Raises NoAnswerError: a proxy's page may have status 200 too."""
    if not isinstance(value, kind):
        raise NoAnswerError("this is not a Molecule server, or it has another version")
    return value


def expect_member(response: Any, name: str, kind: type[T]) -> T:
    """Check the type of a response's member. Raises NoAnswerError."""
    return expect_type(expect_type(response, dict).get(name), kind)


def _decode_body(response: httpx2.Response) -> Any:
    """Decode a response; an empty one is valid. Raises ApiError if it is not JSON, whatever its status."""
    if not response.content:
        return ""
    try:
        return msgspec.json.decode(response.content.removeprefix(codecs.BOM_UTF8))
    except msgspec.DecodeError:
        detail = "is not a Molecule server, or a proxy whose server is down"
        raise ApiError(response.status_code, {"error": _wrong_server_text(response, detail)}) from None


def _error_body(response: httpx2.Response) -> dict[str, Any]:
    if not response.is_error:
        return {"error": _redirect_text(response)}
    value = _decode_or_text(response)
    return value if isinstance(value, dict) else {"error": str(value)}


def _decode_or_text(response: httpx2.Response) -> Any:
    try:
        return msgspec.json.decode(response.content.removeprefix(codecs.BOM_UTF8))
    except msgspec.DecodeError:
        return response.text[:500]


def _redirect_text(response: httpx2.Response) -> str:
    """Describe a redirect, without the parts of its url that may hold secrets.

    Redirects are not followed: the token is for one server."""
    try:
        to = response.url.join(response.headers["location"])
        path = to.raw_path.partition(b"?")[0].decode()
        location = f"{to.scheme}://{to.netloc.decode()}{path}"[:_MAX_URL_LENGTH]
        detail = f"redirects to {location}, and redirects are not followed"
    except (KeyError, httpx2.InvalidURL):
        detail = "does not respond like a Molecule server"
    return _wrong_server_text(response, detail)


def _wrong_server_text(response: httpx2.Response, detail: str) -> str:
    here = f"{response.url.scheme}://{response.url.netloc.decode()}"
    return f"{here} {detail}. Set {_ADDRESS_OPTIONS} to the address of the server itself"
