"""Who makes requests of the public API for a tool, and how it says that a call was approved.

Above: the walks of the tools, and whoever hosts them. Below: the names that server and tools share.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.tools.spec import APPROVAL_ARGUMENT, APPROVAL_HEADER


class Requester(Protocol):
    """Makes one request of the public API as one workspace."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer. Raises ToolError."""


class ApprovedRequester:
    """Requests that say by which approval they are made: those that change something, or all of them where the tool
    only reads. (A `Speaks`.)"""

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
        """The decoded answer. Raises ToolError."""
        approval_headers = self._headers if self._read_only or method != "GET" else {}
        all_headers = {**(headers or {}), **approval_headers}
        return await self._requester.call(method, path, body=body, query=query, headers=all_headers)


def with_approval(requester: Requester, arguments: Struct, *, read_only: bool = False) -> Requester:
    """Who makes the requests of a call, if it says that a rule has stopped it and that it is approved now. `reads`: the
    tool only reads, and that was stopped."""
    approval_id = str(getattr(arguments, APPROVAL_ARGUMENT, ""))
    return (
        ApprovedRequester(requester, {APPROVAL_HEADER: approval_id}, read_only=read_only) if approval_id else requester
    )
