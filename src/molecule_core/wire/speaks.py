"""Who makes requests of the public API for a tool, and how it says that a call was approved.

Above: the walks of the tools, and whoever hosts them. Below: the names that server and tools share.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.wire.toolspec import LEAVE, LEAVE_HEADER


class Speaks(Protocol):
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


class Allowed:
    """Requests that say by which approval they are made: those that change something, or all of them where the tool
    only reads. (A `Speaks`.)"""

    def __init__(self, speaks: Speaks, headers: Mapping[str, str], *, reads: bool) -> None:
        self._speaks = speaks
        self._headers = headers
        self._reads = reads

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
        beside = self._headers if self._reads or method != "GET" else {}
        said = {**(headers or {}), **beside}
        return await self._speaks.call(method, path, body=body, query=query, headers=said)


def allowed(speaks: Speaks, given: Struct, *, reads: bool = False) -> Speaks:
    """Who makes the requests of a call, if it says that a rule has stopped it and that it is approved now. `reads`: the
    tool only reads, and that was stopped."""
    named = str(getattr(given, LEAVE, ""))
    return Allowed(speaks, {LEAVE_HEADER: named}, reads=reads) if named else speaks
