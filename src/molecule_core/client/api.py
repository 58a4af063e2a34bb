"""A caller of the public API: one server, at most one credential."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, TypeVar

import httpx2
import msgspec

# Longer than the longest long-poll, so that a silent answer is the server's doing and not ours.
_TIMEOUT_SECONDS = 60.0
_SSE_DATA_PREFIX = "data: "
# Shorter than a server keeps a connection without a request (75 s), so that it does not hang up on a question.
_KEEPALIVE_SECONDS = 30.0
# Too slow (which says: again), at a server that does not serve this name (now), too early, too much at once.
_TRANSIENT_STATUSES = (408, 421, 425, 429)
# An address that is none, though it looked like one, is a server that is not there.
_CONNECTION_ERRORS = (httpx2.TransportError, httpx2.InvalidURL)
# Of an address that others chose as much as a person needs to know the place again.
_MAX_URL_LENGTH = 200
_ADDRESS_OPTIONS = "PLATFORM_URL, --server or --url"
T = TypeVar("T")


class ApiError(Exception):
    """The server refused, or whoever stands before it sends callers elsewhere or shows them a page. `status` is HTTP's,
    `problem` the whole answer, `code` its short name."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"{status}: {problem.get('error', problem)}")

    @property
    def code(self) -> str:
        """The short name of the refusal, as docs/errors.md lists it; empty if there is none."""
        return str(self.problem.get("code", ""))

    @property
    def is_transient(self) -> bool:
        """Whether the same may be taken another time: what was too much at once, too slow, too early or meant for
        another server, trouble of the server's own, and a redirect or a page, which are no word of the server on what
        was asked."""
        return self.status in _TRANSIENT_STATUSES or not httpx2.codes.is_client_error(self.status)


class NoAnswerError(Exception):
    """The server could not be reached, or hung up, or what came is no answer to what was asked. Whether it did that is
    not known: ask again with the same messageId, which makes it safe."""


class ConnectionPool:
    """Connections to one server, which callers with different credentials may share."""

    def __init__(self, url: str, *, seconds: float = _TIMEOUT_SECONDS) -> None:
        # A proxy that the environment names is for the world outside, not for an agent's own server.
        # A TLS context with all its certificates costs 30 ms, which an http address need not pay.
        tls = url.startswith("https:")
        # As many as are asked for: an agent of a hundred workspaces holds a long-poll for each.
        most = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS)
        self.http = httpx2.AsyncClient(timeout=seconds, trust_env=False, verify=tls, limits=most)

    async def close(self) -> None:
        """Lets go of all of them."""
        await self.http.aclose()


class ApiClient:
    """Speaks JSON over HTTP to one server. An async context manager; connections are kept between calls. Those that it
    was given are for whoever gave them to close."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        seconds: float = _TIMEOUT_SECONDS,
        connections: ConnectionPool | None = None,
    ) -> None:
        self._headers = {"content-type": "application/json"}
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
        """Lets go of all connections of its own."""
        if self._own_pool is not None:
            await self._own_pool.close()

    async def get(self, path: str, **query: Any) -> Any:
        """What a path answers. Raises ApiError, NoAnswer."""
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """What a path answers to a body. Raises ApiError, NoAnswer."""
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
        """One request; query fields that are None are left out. Raises ApiError, NoAnswer."""
        fields = {name: value for name, value in (query or {}).items() if value is not None}
        content = None if body is None else msgspec.json.encode(body)
        sent = {**self._headers, **(headers or {})}
        try:
            answer = await self._http.request(method, self._url + path, params=fields, content=content, headers=sent)
        except _CONNECTION_ERRORS as error:
            raise NoAnswerError(str(error) or type(error).__name__) from error
        if not answer.is_success:
            raise ApiError(answer.status_code, _error_body(answer))
        return _decode_body(answer)

    async def events(self, path: str = "/events/stream", **query: Any) -> AsyncIterator[dict[str, Any]]:
        """Live frames as they come, the greeting first; ends when the server ends the stream. Raises ApiError,
        NoAnswer."""
        try:
            async with self._http.stream("GET", self._url + path, params=query, headers=self._headers) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise ApiError(answer.status_code, _error_body(answer))
                async for line in answer.aiter_lines():
                    if line.startswith(_SSE_DATA_PREFIX):
                        yield msgspec.json.decode(line[len(_SSE_DATA_PREFIX) :])
        except _CONNECTION_ERRORS as error:
            raise NoAnswerError(str(error) or type(error).__name__) from error

    # -- messages ------------------------------------------------------------------------------------------------------

    async def send(
        self, workspace_id: str, text: str, *, message_id: str | None = None, intent: str = "request"
    ) -> Any:
        """A message to a workspace; returns the receipt. Raises ApiError, NoAnswer."""
        message: dict[str, Any] = {"role": "user", "parts": [{"kind": "text", "text": text}]}
        message["metadata"] = {"intent": intent}
        if message_id is not None:
            message["messageId"] = message_id
        body = {"jsonrpc": "2.0", "id": message_id, "method": "message/send", "params": {"message": message}}
        return await self.post(f"/workspaces/{workspace_id}/a2a", body)

    async def claim(
        self, workspace_id: str, *, lease: int = 60, wait: int = 25, limit: int = 100, include: str | None = None
    ) -> list[dict[str, Any]]:
        """Takes messages out of one's inbox; waits for a first one. Each must be acknowledged within the lease. Raises
        ApiError, NoAnswer."""
        path = f"/workspaces/{workspace_id}/activity"
        rows = await self.get(path, claim=lease, wait=wait, limit=limit, include=include)
        # It has not waited either: who took something else for an empty inbox would ask for ever.
        return [row for row in expect_type(rows, list) if isinstance(row, dict)]

    async def ack(self, workspace_id: str, row: dict[str, Any]) -> Any:
        """Says that a claimed message is handled."""
        handled = {"activity_id": row["id"], "attempt": row["attempt"]}
        return await self.post(f"/workspaces/{workspace_id}/activity/ack", handled)


def expect_type(value: Any, kind: type[T]) -> T:
    """What an answer must be for what was asked to be done. Raises NoAnswer if it is something else: a page of a proxy
    says 200 too."""
    if not isinstance(value, kind):
        raise NoAnswerError("what answers there is no Molecule server, or one of another version")
    return value


def expect_member(answer: Any, name: str, kind: type[T]) -> T:
    """The same of a member that the answer must have."""
    return expect_type(expect_type(answer, dict).get(name), kind)


def _decode_body(answer: httpx2.Response) -> Any:
    """What a server has answered. Nothing is an answer too; a page is none, whatever its status. Raises ApiError."""
    if not answer.content:
        return ""
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        detail = "is no Molecule server, or has none behind it now"
        raise ApiError(answer.status_code, {"error": _wrong_server_text(answer, detail)}) from None


def _error_body(answer: httpx2.Response) -> dict[str, Any]:
    if not answer.is_error:
        return {"error": _redirect_text(answer)}
    value = _decode_or_text(answer)
    return value if isinstance(value, dict) else {"error": str(value)}


def _decode_or_text(answer: httpx2.Response) -> Any:
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return answer.text[:500]


def _redirect_text(answer: httpx2.Response) -> str:
    """Where a redirect leads, without what it may hold of secrets. It is not followed: the token is for one server."""
    try:
        to = answer.url.join(answer.headers["location"])
        path = to.raw_path.partition(b"?")[0].decode()
        location = f"{to.scheme}://{to.netloc.decode()}{path}"[:_MAX_URL_LENGTH]
        detail = f"does not answer but leads to {location}, which is not followed"
    except (KeyError, httpx2.InvalidURL):
        detail = "gives no answer of a Molecule server"
    return _wrong_server_text(answer, detail)


def _wrong_server_text(answer: httpx2.Response, detail: str) -> str:
    here = f"{answer.url.scheme}://{answer.url.netloc.decode()}"
    return f"{here} {detail}. Set the server's address ({_ADDRESS_OPTIONS}) to where it answers itself"
