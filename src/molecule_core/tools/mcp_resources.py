"""Resources of the MCP servers: files of messages and threads of the caller's workspaces, and their changes.

Called by `tools/mcp_dispatcher.py`. All reads are requests of the public API, which decides what the caller may read;
what it may not read is answered exactly as what does not exist.
"""

import asyncio
import base64
import mimetypes
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

import msgspec

from molecule_core.common.clock import Clock
from molecule_core.common.text import single_line, truncate_line
from molecule_core.tools.mcp_features import (
    STATELESS_SINCE,
    UNKNOWN_CODES,
    CallerWorkspace,
    CallerWorkspaces,
    FeatureMethod,
    FeatureRequest,
    Notification,
    PageCursor,
    Watch,
    cursor_member,
    read_cursor,
    to_rpc_error,
    unknown_cursor,
)
from molecule_core.tools.spec import NO_ANSWER_CODE, ToolError
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, RpcError
from molecule_core.wire.schemas.activity import ActivityMethod

RESOURCE_NOT_FOUND = -32002
"""Versions with a handshake; later ones use INVALID_PARAMS."""
MAX_FILE_BYTES = 4_000_000
"""Largest file of one answer: as Base64 it is 5.3 MB."""
MAX_THREAD_BYTES = 200_000
MAX_THREAD_ENTRIES = 200
"""A thread is shown with its last entries, as many as fit."""
SCHEME = "molecule:"
_FILE_URI, _THREAD_URI = "molecule://workspaces/{workspace_id}/files/{file_id}", "molecule://threads/{thread_id}"
_URI = re.compile(r"molecule://(?:workspaces/([A-Za-z0-9_-]{1,64})/files|threads)/([A-Za-z0-9_-]{1,64})")
_PLATFORM_FILE = re.compile(
    r"(?:platform-pending:|(?:https?://[^/?#]+)?/workspaces/)([\w-]{1,64})/(?:files/)?([\w-]{1,64})"
)
_PAGE = 100
MAX_LIST_PAGES = 10
"""Pages of threads, and of the log for files: Claude Code reads the whole list whenever it starts."""
LIST_SECONDS = 2.0
"""A workspace whose server takes longer is left out of the list."""
# Reads of one request of the list, which looks for the next resources.
_MAX_READS = 10
_MAX_NAME, _MAX_QUOTED = 200, 200
_DEFAULT_TYPE = "application/octet-stream"
# From this version on, clients know titles, and times in annotations.
_TITLES_SINCE = "2025-06-18"


class ResourceUri(NamedTuple):
    """What a URI names. `workspace_id`: of a file; empty for a thread."""

    workspace_id: str
    id: str

    @property
    def path(self) -> str:
        """Return the path of the public API."""
        return f"/workspaces/{self.workspace_id}/files/{self.id}" if self.workspace_id else f"/threads/{self.id}"


class _ResourceRow(NamedTuple):
    """A resource in the list."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    size: int | None
    at: str

    def to_listing(self, version: str) -> dict[str, Any]:
        """Return the row with the members that a version of the protocol has."""
        row: dict[str, Any] = {
            "uri": self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        }
        if self.size is not None:
            row["size"] = self.size
        if version >= _TITLES_SINCE:
            row |= {"title": self.title, "annotations": {"lastModified": self.at}}
        return row


ListReader = Callable[[CallerWorkspace, str], Coroutine[Any, Any, tuple[list[_ResourceRow], str]]]
"""Reads a page of one part of the list, from a row on, and returns where the next one begins."""


class ResourceFeature:
    """Files and threads as resources. Implements `McpFeature`."""

    def __init__(self, workspaces: CallerWorkspaces, clock: Clock) -> None:
        self._workspaces = workspaces
        self._clock = clock

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return the announcement. New threads and files are not announced: they come with each message."""
        return {"resources": {"subscribe": True}}

    def methods(self, version: str) -> Mapping[str, FeatureMethod]:
        """Return the methods. Stateless versions subscribe with `subscriptions/listen`."""
        found: dict[str, FeatureMethod] = {
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
        }
        if version < STATELESS_SINCE:
            found |= {"resources/subscribe": self._subscribe, "resources/unsubscribe": self._unsubscribe}
        return found

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def _list_templates(self, request: FeatureRequest) -> dict[str, Any]:
        templates = [
            {
                "uriTemplate": _FILE_URI,
                "name": "file",
                "description": "A file of a message. Take the ids from its uri.",
            },
            {
                "uriTemplate": _THREAD_URI,
                "name": "thread",
                "description": "A thread of one of your workspaces: its state and its last entries.",
                "mimeType": "application/json",
            },
        ]
        return {"resourceTemplates": templates}

    async def _list_resources(self, request: FeatureRequest) -> dict[str, Any]:
        workspaces, parts = await self._workspaces(), (_list_threads, _list_files)
        cursor = read_cursor(request.params.get("cursor"), parts=len(parts), workspaces=len(workspaces))
        rows, following = list[_ResourceRow](), cursor
        next_cursor: PageCursor | None = cursor
        for _ in range(_MAX_READS):
            page = await self._read_page(parts[following.part], workspaces[following.workspace], following.before)
            if page is None:  # its other parts are not there either
                following, page = PageCursor(following.workspace, len(parts) - 1), ([], "")
            found, before = page
            rows += found
            next_cursor = following.following(
                before, parts=len(parts), workspaces=len(workspaces), pages=MAX_LIST_PAGES
            )
            if rows or next_cursor is None:
                break
            following = next_cursor
        return {"resources": [each.to_listing(request.version) for each in rows], **cursor_member(next_cursor)}

    async def _read_page(
        self, read: ListReader, workspace: CallerWorkspace, before: str
    ) -> tuple[list[_ResourceRow], str] | None:
        """Return a page of a part; None if the server does not answer in time. Raises RpcError.

        A host that starts waits for the list, and asks again after an error: without a server it is empty."""
        reading = asyncio.ensure_future(read(workspace, before))
        try:
            return reading.result() if await self._clock.wait(reading, LIST_SECONDS) else None
        except ToolError as error:
            if error.code == NO_ANSWER_CODE:
                return None
            raise (unknown_cursor() if error.code in UNKNOWN_CODES else to_rpc_error(error)) from None

    # -- read ----------------------------------------------------------------------------------------------------------

    async def _read_resource(self, request: FeatureRequest) -> dict[str, Any]:
        uri = request.text_param("uri")
        target = _parse_uri(uri, request)
        for workspace in await self._workspaces():
            try:
                read = _read_file if target.workspace_id else _read_thread
                content = await read(workspace, target)
            except ToolError as error:
                if error.code not in UNKNOWN_CODES:
                    raise to_rpc_error(error) from None
                continue
            return {"contents": [{"uri": uri, **content}]}
        raise _unknown(uri, request)

    # -- subscriptions -------------------------------------------------------------------------------------------------

    async def _subscribe(self, request: FeatureRequest) -> dict[str, Any]:
        uri = request.text_param("uri")
        watch = await self.find_watch(uri, request)
        try:
            await request.session.watches.add(uri, watch)
        except ToolError as error:
            raise to_rpc_error(error) from None
        return {}

    async def _unsubscribe(self, request: FeatureRequest) -> dict[str, Any]:
        request.session.watches.remove(request.text_param("uri"))
        return {}

    async def find_watch(self, uri: str, request: FeatureRequest) -> Watch:
        """Return the watch of a resource that the caller may read. Raises RpcError."""
        target = _parse_uri(uri, request)
        for workspace in await self._workspaces():
            try:
                if target.workspace_id:
                    await _check_file(workspace, target)
                else:
                    await workspace.requester.call("GET", target.path)
            except ToolError as error:
                if error.code not in UNKNOWN_CODES:
                    raise to_rpc_error(error) from None
                continue
            return _watch(workspace, target, uri)
        raise _unknown(uri, request)


def _watch(workspace: CallerWorkspace, target: ResourceUri, uri: str) -> Watch:
    notification = Notification("notifications/resources/updated", {"uri": uri})

    async def load() -> tuple[object, Notification] | None:
        if target.workspace_id:  # a file never changes
            return "", notification
        thread = await workspace.requester.call("GET", target.path)
        return (thread["last_ordinal"], thread["revision"]), notification

    return Watch(workspace, target.id, load)


# -- rows of the list --------------------------------------------------------------------------------------------------


async def _list_threads(workspace: CallerWorkspace, before: str) -> tuple[list[_ResourceRow], str]:
    """Return a page of threads, newest first, and where the next one begins. Raises ToolError."""
    query = {"limit": _PAGE, **({"before": before} if before else {})}
    page = await workspace.requester.call("GET", f"/workspaces/{workspace.id}/threads", query=query)
    rows = [_thread_row(each) for each in page["threads"]]
    return rows, "" if page["reached_end"] or not rows else page["threads"][-1]["thread_id"]


def _thread_row(thread: dict[str, Any]) -> _ResourceRow:
    name = single_line(thread["nickname"] or thread["task_name"] or thread["path"], _MAX_NAME)
    state = "closed" if thread["closed"] else thread["status"]["type"]
    return _ResourceRow(
        _THREAD_URI.format(thread_id=thread["thread_id"]),
        f"thread {single_line(thread['path'], _MAX_NAME)}",
        name,
        f"Thread {name}: {state}, {thread['turns']} turns.",
        "application/json",
        None,
        thread["updated_at"],
    )


async def _list_files(workspace: CallerWorkspace, before: str) -> tuple[list[_ResourceRow], str]:
    """Return the files of a page of messages, newest first, and where the next one begins. Raises ToolError."""
    query = {"limit": _PAGE, "include": "attachments", **({"before_ts": before} if before else {})}
    rows = await workspace.requester.call("GET", f"/workspaces/{workspace.id}/activity", query=query)
    files: dict[str, _ResourceRow] = {}
    for row in rows:
        if row.get("method") == ActivityMethod.UPLOAD:  # the message that names the file follows
            continue
        for attachment in row.get("attachments") or ():
            found = _PLATFORM_FILE.fullmatch(str(attachment.get("uri", "")))
            if found is not None:
                file = _file_row(found[1], found[2], attachment, row["created_at"])
                files.setdefault(file.uri, file)
    return list(files.values()), rows[-1]["created_at"] if rows else ""


def _file_row(workspace_id: str, file_id: str, attachment: dict[str, Any], at: str) -> _ResourceRow:
    name = single_line(str(attachment.get("name") or file_id), _MAX_NAME)
    size = attachment.get("size")
    return _ResourceRow(
        _FILE_URI.format(workspace_id=workspace_id, file_id=file_id),
        name,
        name,
        f"File of a message of {at}.",
        mimetypes.guess_type(name)[0] or _DEFAULT_TYPE,  # as the read has it: a sender's type is not checked
        size if isinstance(size, int) else None,
        at,
    )


# -- contents ----------------------------------------------------------------------------------------------------------


async def _read_file(workspace: CallerWorkspace, target: ResourceUri) -> dict[str, Any]:
    """Return a file as text or Base64. Raises ToolError, RpcError."""
    data = bytearray()

    def add(piece: bytes) -> None:
        if len(data) + len(piece) > MAX_FILE_BYTES:
            raise RpcError(
                INVALID_PARAMS,
                f"the file is larger than {MAX_FILE_BYTES} bytes, the limit of a resource. Use the tool read_file.",
            )
        data.extend(piece)

    name = await workspace.download(target.path, add)
    mime_type = mimetypes.guess_type(name)[0]
    if b"\x00" not in data:
        try:
            return {"mimeType": mime_type or "text/plain", "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"mimeType": mime_type or _DEFAULT_TYPE, "blob": base64.b64encode(data).decode()}


class _FileFoundError(Exception):
    """A download has begun."""


async def _check_file(workspace: CallerWorkspace, target: ResourceUri) -> None:
    """Check that a file can be read, without reading it. Raises ToolError."""

    def stop(_piece: bytes) -> None:
        raise _FileFoundError

    try:
        await workspace.download(target.path, stop)
    except _FileFoundError:
        return


async def _read_thread(workspace: CallerWorkspace, target: ResourceUri) -> dict[str, Any]:
    """Return a thread with its last entries as JSON, as many as fit. Raises ToolError."""
    thread = await workspace.requester.call("GET", target.path)
    after = max(0, thread["last_ordinal"] - MAX_THREAD_ENTRIES)
    query = {"after": after, "limit": MAX_THREAD_ENTRIES}
    items = (await workspace.requester.call("GET", f"{target.path}/items", query=query))["items"]
    shown: dict[str, Any] = {name: value for name, value in thread.items() if name not in _OMITTED_MEMBERS}
    left = MAX_THREAD_BYTES - len(msgspec.json.encode(shown))
    kept = list[dict[str, Any]]()
    for item in reversed(items):
        left -= len(msgspec.json.encode(item)) + 1
        if left < 0:
            break
        kept.insert(0, item)
    shown |= {"entries": kept, "earlier_entries": thread["last_ordinal"] - len(kept)}
    return {"mimeType": "application/json", "text": msgspec.json.encode(shown).decode()}


# Instructions are the agent's system prompt: long, and known to it.
_OMITTED_MEMBERS = ("base_instructions", "layers", "base")


# -- URIs --------------------------------------------------------------------------------------------------------------


def _parse_uri(uri: str, request: FeatureRequest) -> ResourceUri:
    found = _URI.fullmatch(uri)
    if found is None:
        raise _unknown(uri, request)
    return ResourceUri(found[1] or "", found[2])


def _unknown(uri: str, request: FeatureRequest) -> RpcError:
    code = INVALID_PARAMS if request.is_stateless else RESOURCE_NOT_FOUND
    return RpcError(code, "resource not found. resources/list shows yours.", {"uri": truncate_line(uri, _MAX_QUOTED)})
