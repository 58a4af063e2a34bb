"""Features of an MCP server beside its tools: what a feature is, and the request that it answers.

Called by `tools/mcp_dispatcher.py`. A feature serves both entrances, stdio and HTTP: it makes requests of the public
API as the workspaces of its caller, and keeps no state of its own.
"""

import asyncio
import base64
import contextlib
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from molecule_core.common.clock import Clock
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError, ToolSpec
from molecule_core.wire.protocols.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError

MAX_WATCHES = 100
"""Resources and tasks that one session, or one stream of notifications, may follow."""
CHECK_SECONDS = 1.0
"""What is followed is read at most once in this time: a busy thread has many events, and each read is a request of the
caller's allowance."""
STATELESS_SINCE = "2026-07-28"
"""Versions from this one on have no handshake. Versions are dates, so they compare as text."""
_MAX_CURSOR_LENGTH = 512

Changes = AsyncGenerator[frozenset[str], None]
"""Ids of what has changed in the journal, as its events arrive: threads, delegations, approvals. An empty set means
that anything may have changed, as at the beginning."""


_ENTITY_MEMBERS = ("thread_id", "delegation_id", "approval_id")


def changed_ids(payload: Any) -> frozenset[str]:
    """Return the ids of threads, delegations and approvals that an event of the journal is about."""
    members = payload if isinstance(payload, dict) else {}
    return frozenset(each for each in map(members.get, _ENTITY_MEMBERS) if isinstance(each, str) and each)


class CallerWorkspace(NamedTuple):
    """A workspace of the caller. `requester` and `download` act as it; `changes` begins to follow its journal.

    `download` calls its second argument with each piece of a file, and returns the name. Both raise ToolError."""

    id: str
    requester: Requester
    download: Callable[[str, Callable[[bytes], object]], Awaitable[str]]
    changes: Callable[[], Changes]


CallerWorkspaces = Callable[[], Awaitable[tuple[CallerWorkspace, ...]]]
"""Returns the workspaces of the caller of the current request."""

UNKNOWN_CODES = ("not_found", "may_not_talk", "token_of_other_workspace", "workspace_removed")
"""What the server says of things that do not exist, or that the caller may not know of."""


class Notification(NamedTuple):
    """A message to the client that needs no answer."""

    method: str
    params: dict[str, Any]


class FeatureSession(Protocol):
    """The connection that a request came from. `watches`: what its client follows until the session ends."""

    @property
    def watches(self) -> "WatchSet":
        """Return what the client follows."""

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification to the client. Never raises."""


class FeatureRequest(Struct, frozen=True):
    """A request of a feature's method."""

    params: dict[str, Any]
    meta: dict[str, Any]
    id: str | int
    version: str
    """The version of the protocol that was agreed on, or that the request names."""
    client_capabilities: dict[str, Any]
    session: FeatureSession

    @property
    def is_stateless(self) -> bool:
        """Return whether the request belongs to a version without a handshake."""
        return self.version >= STATELESS_SINCE

    def text_param(self, name: str) -> str:
        """Return a parameter that must be a text. Raises RpcError."""
        value = self.params.get(name)
        if not isinstance(value, str) or not value:
            raise RpcError(INVALID_PARAMS, f"{name} must be a text. Add it to params.")
        return value


FeatureMethod = Callable[[FeatureRequest], Awaitable[dict[str, Any]]]


class McpFeature(Protocol):
    """A feature of the protocol."""

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return how the feature is announced in a version of the protocol; empty if that version does not have it."""

    def methods(self, version: str) -> Mapping[str, FeatureMethod]:
        """Return the methods of the feature in a version of the protocol."""


class TaskRunner(Protocol):
    """Runs calls of tools as tasks."""

    def listing_members(self, spec: ToolSpec, version: str) -> dict[str, Any]:
        """Return what the listing of a tool has for tasks in a version of the protocol."""

    def is_wanted(self, request: FeatureRequest) -> bool:
        """Return whether a call must be answered with a task: its client asks for that."""

    async def begin(self, spec: ToolSpec, arguments: Struct, request: FeatureRequest) -> dict[str, Any] | None:
        """Begin a call as a task and return the task; None if the call runs as usual. Raises ToolError, RpcError."""


# -- pages -------------------------------------------------------------------------------------------------------------


class PageCursor(Struct, frozen=True, array_like=True):
    """Where a page of a list begins: workspace by workspace, part by part, before a row. `page`: its number."""

    workspace: int = 0
    part: int = 0
    before: str = ""
    page: int = 0

    def following(self, before: str, *, parts: int, workspaces: int, pages: int = 0) -> "PageCursor | None":
        """Return where the next page begins; None after the last one.

        `before`: the last row of this page; empty if the part has ended. `pages`: of a part at most; 0: all."""
        if before and (not pages or self.page + 1 < pages):
            return PageCursor(self.workspace, self.part, before, self.page + 1)
        if self.part + 1 < parts:
            return PageCursor(self.workspace, self.part + 1)
        return PageCursor(self.workspace + 1) if self.workspace + 1 < workspaces else None


def cursor_member(cursor: PageCursor | None) -> dict[str, str]:
    """Return `nextCursor` as a member of a result; no member after the last page."""
    if cursor is None:
        return {}
    return {"nextCursor": base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()}


def read_cursor(value: object, *, parts: int, workspaces: int) -> PageCursor:
    """Return where a page begins. Raises RpcError."""
    if value is None:
        return PageCursor()
    try:
        if not isinstance(value, str) or len(value) > _MAX_CURSOR_LENGTH:
            raise ValueError
        cursor = msgspec.json.decode(base64.b64decode(value, altchars=b"-_", validate=True), type=PageCursor)
    except (ValueError, msgspec.DecodeError):
        raise unknown_cursor() from None
    if not 0 <= cursor.workspace < workspaces or not 0 <= cursor.part < parts:
        raise unknown_cursor()
    return cursor


def unknown_cursor() -> RpcError:
    """Return the error for a cursor that is not one of a list."""
    return RpcError(INVALID_PARAMS, "cursor is not one of this list. Omit it to start from the beginning.")


# -- changes -----------------------------------------------------------------------------------------------------------


class Watch:
    """Something that a client follows. Notifies it when the version has changed.

    `entity_id`: its id in the journal. `load`: returns its version now, and the notification of that version; None if
    it is no longer there. Raises ToolError."""

    def __init__(
        self,
        workspace: CallerWorkspace,
        entity_id: str,
        load: Callable[[], Awaitable[tuple[object, Notification] | None]],
    ) -> None:
        self.workspace = workspace
        self.entity_id = entity_id
        self.has_ended = False
        self._load = load
        self._version: object = None

    async def start(self) -> None:
        """Load the version that the client knows. Raises ToolError."""
        loaded = await self._load()
        self.has_ended = loaded is None
        self._version = None if loaded is None else loaded[0]

    async def next_notification(self) -> Notification | None:
        """Return the notification of the new version; None if nothing has changed. Raises ToolError."""
        loaded = await self._load()
        if loaded is None:
            self.has_ended = True
            return None
        version, notification = loaded
        if version == self._version:
            return None
        self._version = version
        return notification


async def coalesce(source: Changes, clock: Clock) -> Changes:
    """Yield what a source yields, together and at most once in CHECK_SECONDS."""
    collected = list[frozenset[str]]()
    news, ended = asyncio.Event(), asyncio.Event()

    async def collect() -> None:
        try:
            async with contextlib.aclosing(source):
                async for ids in source:
                    collected.append(ids)
                    news.set()
        finally:
            ended.set()
            news.set()

    task = asyncio.create_task(collect())
    try:
        while True:
            await news.wait()
            news.clear()
            batch, collected[:] = list(collected), []
            if batch:
                yield frozenset() if frozenset() in batch else frozenset[str]().union(*batch)
                await clock.wait(ended.wait(), CHECK_SECONDS)
            if task.done() and not collected:
                await task
                return
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class WatchSet:
    """All that the client of a session follows, and one task per workspace that reads its journal."""

    def __init__(self, send: Callable[[Notification], Awaitable[None]]) -> None:
        self._send = send
        self._watches: dict[str, Watch] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    async def add(self, key: str, watch: Watch, *, is_run: bool = False) -> None:
        """Follow something under a key; once for each key. Raises RpcError, ToolError.

        `is_run`: `run` follows the journals; otherwise tasks of this set do."""
        if key in self._watches:
            return
        if len(self._watches) >= MAX_WATCHES:
            raise RpcError(
                INVALID_PARAMS, f"a session cannot follow more than {MAX_WATCHES} things. End a subscription first."
            )
        self._watches[key] = watch
        try:
            await watch.start()
        except BaseException:
            self._watches.pop(key, None)
            raise
        if is_run:
            return
        follower = self._followers.get(watch.workspace.id)
        if follower is None or follower.done():
            # Without the context of the request: what it finds belongs to the session.
            self._followers[watch.workspace.id] = asyncio.create_task(
                self._follow(watch.workspace), context=contextvars.Context()
            )

    async def run(self, workspaces: Iterable[CallerWorkspace]) -> None:
        """Send notifications until the journals of all workspaces have ended, as when the server stops."""
        await asyncio.gather(*(self._follow(each, is_endless=True) for each in workspaces))

    def remove(self, key: str) -> None:
        """Stop following something."""
        self._watches.pop(key, None)

    async def close(self) -> None:
        """Stop following everything."""
        self._watches.clear()
        for task in self._followers.values():
            task.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    async def _follow(self, workspace: CallerWorkspace, *, is_endless: bool = False) -> None:
        async with contextlib.aclosing(workspace.changes()) as changes:
            async for ids in changes:
                for key, watch in list(self._watches.items()):
                    if watch.workspace.id == workspace.id and (not ids or watch.entity_id in ids):
                        await self._check(key, watch)
                if not is_endless and not any(each.workspace.id == workspace.id for each in self._watches.values()):
                    return

    async def _check(self, key: str, watch: Watch) -> None:
        try:
            notification = await watch.next_notification()
        except ToolError as error:
            if error.code in UNKNOWN_CODES:
                self._watches.pop(key, None)
            return
        if watch.has_ended:
            self._watches.pop(key, None)
        if notification is not None and self._watches.get(key) is watch:
            await self._send(notification)


def to_rpc_error(error: ToolError) -> RpcError:
    """Convert an error of the public API to one of the protocol."""
    return RpcError(INTERNAL_ERROR, error.text, {"code": error.code})
