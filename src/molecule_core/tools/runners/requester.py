"""Requesters: the interface that makes requests of the public API as one workspace, and its wrappers.

Requesters of their own are client/api.py `ApiClient` (one server, one token), agent/client/connections.py
`WorkspaceRequester` (with the current token of a file) and api/mcp/tool_host.py `InProcessRequester` (inside the
server). Wrappers take a requester and are one: `ApprovedRequester` names an approval, `RetryingRequester` repeats
requests by a policy. Called by the runners of tools, client, agent and api.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.tools.spec import APPROVAL_ARGUMENT, APPROVAL_HEADER


class Requester(Protocol):
    """Makes requests of the public API as one workspace.

    The runners of tools handle ToolError only. A requester over HTTP raises ApiError and NoAnswerError instead, which
    the policy of a `RetryingRequester` around it converts."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send one request and return the decoded response. Raises ToolError, ApiError, NoAnswerError."""


# -- approval ----------------------------------------------------------------------------------------------------------


class ApprovedRequester:
    """A requester that names the approval of the call in its requests.

    In those that change something, or in all of them for tools that only read."""

    def __init__(self, requester: Requester, headers: Mapping[str, str], *, read_only: bool) -> None:
        self._requester = requester
        self._headers = headers
        self._read_only = read_only

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send one request and return the decoded response. Raises what the wrapped requester raises."""
        approval_headers = self._headers if self._read_only or method != "GET" else {}
        all_headers = {**(headers or {}), **approval_headers}
        return await self._requester.call(method, path, body=body, query=query, headers=all_headers)


def with_approval(requester: Requester, arguments: Struct, *, read_only: bool = False) -> Requester:
    """Return a requester that names the approval, if the arguments contain one.

    `read_only`: the tool only reads, so its GET requests need the approval."""
    approval_id = str(getattr(arguments, APPROVAL_ARGUMENT, ""))
    return (
        ApprovedRequester(requester, {APPROVAL_HEADER: approval_id}, read_only=read_only) if approval_id else requester
    )


# -- retries -----------------------------------------------------------------------------------------------------------


class ApiRequest(Struct, frozen=True):
    """What a policy knows of a request."""

    method: str
    path: str
    body: Any
    headers: Mapping[str, str]


class RetryPolicy(Protocol):
    """Decides which requests are repeated, when, and how often.

    Implemented by agent/client/retry.py `BoundedRetry` and agent/engines/retry.py `PersistentRetry`."""

    async def send_request(self, request: ApiRequest, send: Callable[[], Awaitable[Any]]) -> Any:
        """Return the first response of `send`, which makes the request once per call. Raises ToolError."""


class RetryingRequester:
    """A requester that repeats requests by a policy, for tools: it raises ToolError only."""

    def __init__(self, requester: Requester, policy: RetryPolicy) -> None:
        self._requester = requester
        self._policy = policy

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send a request, repeated if needed, and return the decoded response. Raises ToolError."""
        return await self._policy.send_request(
            ApiRequest(method, path, body, headers or {}),
            lambda: self._requester.call(method, path, body=body, query=query, headers=headers),
        )
