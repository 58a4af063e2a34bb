"""The interface that runners use to make requests of the public API, and its variant for approved calls."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.tools.spec import APPROVAL_ARGUMENT, APPROVAL_HEADER


class Requester(Protocol):
    """Makes requests of the public API as one workspace."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send one request and return the decoded response. Raises ToolError."""


class ApprovedRequester:
    """A Requester that names the approval of the call in its requests.

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
        """Send one request and return the decoded response. Raises ToolError."""
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
