"""Threads in the dialect of app-servers, over a WebSocket: `GET /threads/ws`. The live channel's frames are its source:
the same audience, cursor, patience and ends, told in other words.

Above: `api/threads/routes.py`. Below: `api/live/websocket.py`, `api/live/hub.py`; the methods are in `appserver_calls.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from molecule_core.api.app_server.approvals import APPROVAL_EVENTS as _APPROVALS
from molecule_core.api.app_server.approvals import ApprovalPrompts
from molecule_core.api.app_server.items import (
    ItemBuilder,
    PendingNotification,
    ThreadLogLine,
    thread_shape,
    thread_state,
    to_millis,
)
from molecule_core.api.app_server.methods import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    SERVER_BUSY,
    AppServerError,
    AppServerMethods,
    ClientRequest,
    ClientResponse,
    InternalCall,
    parse_client_message,
    parse_params,
)
from molecule_core.api.http.auth import Authenticator
from molecule_core.api.http.query_parameters import ORG, query_params
from molecule_core.api.http.routing import ALL_CREDENTIALS, AccessPolicy, Request, Response, Route
from molecule_core.api.live.hub import CLOSE_INTERNAL, LiveHub
from molecule_core.api.live.routes import org_id_of
from molecule_core.api.live.websocket import WebSocketConnection
from molecule_core.common.errors import StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.views.feed import EncodedEvent
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.schemas.live import PingFrame
from molecule_core.wire.schemas.thread_log import ThreadStatusChangedPayload, decode_entry
from molecule_core.wire.schemas.threads import ThreadItem

# What clients hear of; all else that happens is not for this channel.
_FORWARDED_EVENTS = frozenset(("THREAD_STARTED", "THREAD_STATUS_CHANGED", "THREAD_ITEM")) | _APPROVALS
_LARGE_ENTRY = b"null"
# How the frame of an event begins, and no other.
_EVENT_PREFIX = b'{"prev"'
_log = logging.getLogger("molecule.live")


class _LiveFrame(Struct):
    """Any frame of the live channel, as far as it matters here."""

    event: str = ""
    type: str = ""
    timestamp: str = ""
    seq: int = 0
    payload: Raw = Raw(b"{}")
    epoch: str = ""
    org_id: str = ""
    after: int = 0
    head_sent: int = 0
    heartbeat_s: int = 0
    reason: str = ""


class _ThreadItemPayload(Struct):
    """A line of a thread's log in an event; `entry` is null if it is large."""

    thread_id: str
    root_id: str
    ordinal: int
    turn_id: str | None
    entry: Raw


_FRAME_DECODER, _ITEM_DECODER = msgspec.json.Decoder(_LiveFrame), msgspec.json.Decoder(_ThreadItemPayload)
_THREAD_DECODER, _STATUS_DECODER = msgspec.json.Decoder(ThreadItem), msgspec.json.Decoder(ThreadStatusChangedPayload)


class AppServerRoutes:
    """The route of the dialect."""

    def __init__(
        self,
        call_internally: InternalCall,
        live: LiveHub,
        authenticator: Authenticator,
        reader: ThreadReader,
        org: OrgReader,
    ) -> None:
        self._methods = AppServerMethods(call_internally)
        self._live = live
        self._authenticator = authenticator
        self._reader = reader
        self._org = org

    def routes(self) -> list[Route]:
        """The row for the table."""
        summary = "Threads in the dialect of app-servers, over a WebSocket"
        return [
            Route(
                "GET",
                "/threads/ws",
                self.open_socket,
                AccessPolicy(ALL_CREDENTIALS),
                summary,
                query=query_params(ORG),
                status=101,
                upgrades=True,
            )
        ]

    async def open_socket(self, http_request: Request) -> Response:
        """JSON-RPC without its version member, as docs/app-server.md has it. The admin names an organisation with
        `org_id`."""
        credential = self._authenticator.credential_hash(http_request.headers)
        return AppServerConnection(
            self._live, http_request, org_id_of(http_request, self._org), credential, self._methods, self._reader
        ).to_response()


class AppServerConnection(WebSocketConnection):
    """One client. What the live channel tells it is queued, put into the dialect in order, and sent."""

    kind = "appserver"
    has_snapshot = False

    def __init__(
        self,
        live: LiveHub,
        http_request: Request,
        org_id: str,
        credential: str,
        methods: AppServerMethods,
        reader: ThreadReader,
    ) -> None:
        """Answers the handshake. Raises WebSocketNeeded."""
        super().__init__(live, http_request, org_id, credential)
        self._request = http_request
        self._methods = methods
        self._reader = reader
        self._client_queue = asyncio.Queue[ClientRequest | ClientResponse](http_request.limits.appserver_requests)
        self._frame_queue = asyncio.Queue[bytes]()
        self._pending_bytes = 0
        self._translated_bytes = 0
        self._all_translated = asyncio.Event()
        self._all_translated.set()
        # Nothing is told while a request decides what this client follows: so it hears all of what it has started.
        self._translate_lock = asyncio.Lock()
        self._pending_initialize: tuple[ClientRequest, asyncio.Future[bool]] | None = None
        self._is_initialized = False
        self._epoch = ""
        self._followed_trees = set[str]()
        self._opted_out = frozenset[str]()
        self._item_builder = ItemBuilder()
        self._approval_prompts = ApprovalPrompts(http_request, methods, self._send_message)
        self._tasks: list[asyncio.Task[None]] = []

    @staticmethod
    def _max_message_bytes(limits: Limits) -> int:
        return limits.body_bytes  # as much as a body of a request

    def _take_over(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._tasks = [
            asyncio.create_task(self._run_task(loop_function))
            for loop_function in (self._process_requests, self._translate_all)
        ]
        super()._take_over(transport, connections, data, rate)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for task in self._tasks:
            task.cancel()
        super().connection_lost(exc)

    async def _run_task(self, loop_function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await loop_function()
        except StoreUnavailable:
            self.disconnect(CLOSE_INTERNAL, "the store does not answer; resume")
        except Exception:
            _log.exception("a client of the app-server dialect has met a mistake of ours, and is cut")
            self.disconnect(CLOSE_INTERNAL, "the server made a mistake; resume")

    # -- from the client -----------------------------------------------------------------------------------------------

    def _handle_message(self, data: bytes) -> None:
        """A request is taken if there is room for it; what wants no answer asks nothing of us."""
        try:
            request = parse_client_message(data, self._request.limits)
        except AppServerError as error:
            self._send_message(app.AppServerErrorResponse(None, error.fault))
            return
        if request.id is None:
            return
        try:
            self._client_queue.put_nowait(request)
        except asyncio.QueueFull:
            maximum = self._request.limits.appserver_requests
            text = f"{maximum} requests wait for their answers; ask again when some have come"
            self._send_message(
                app.AppServerErrorResponse(
                    None if isinstance(request, ClientResponse) else request.id,
                    app.AppServerErrorBody(SERVER_BUSY, text),
                )
            )

    async def _process_requests(self) -> None:
        """One after the other, and none while the client does not read."""
        while True:
            await super().wait_drained()
            request = await self._client_queue.get()
            if isinstance(request, ClientResponse):
                await self._approval_prompts.handle_response(request)
                continue
            try:
                await self._handle_request(request)
            except AppServerError as error:
                self._send_message(app.AppServerErrorResponse(request.id, error.fault))

    async def _handle_request(self, request: ClientRequest) -> None:
        if request.method == "initialize":
            await self._initialize(request)
        elif not self._is_initialized:
            self._send_error(request, INVALID_REQUEST, "not initialized; send initialize first")
        elif request.method in self._methods.following_methods:
            async with self._translate_lock:
                self._check_tree_limit(1)
                await self._call_method(request)
            await self._approval_prompts.prompt_pending()
        else:
            await self._call_method(request)

    async def _call_method(self, request: ClientRequest) -> None:
        done = await self._methods.call_method(self._request, request)
        if done.followed_tree is not None:
            await self._follow_tree(done.followed_tree)
        if done.unfollowed_tree is not None:
            self._followed_trees.discard(done.unfollowed_tree)
            self._approval_prompts.remove_tree(done.unfollowed_tree)
        self._send_message(app.AppServerResponse(request.id, done.result))

    async def _follow_tree(self, root_id: str) -> None:
        self._followed_trees.add(root_id)
        tree = await self._reader.load_tree(root_id)
        self._approval_prompts.add_threads(root_id, [(each.thread_id, each.workspace_id) for each in tree])

    def _check_tree_limit(self, more: int) -> None:
        maximum = self._request.limits.appserver_trees
        if len(self._followed_trees) + more > maximum:
            raise AppServerError(
                app.AppServerErrorBody(
                    INVALID_REQUEST, f"a client follows at most {maximum} trees; thread/unsubscribe from some"
                )
            )

    async def _initialize(self, request: ClientRequest) -> None:
        """The answer comes from the live channel, which knows whether it can go on behind the cursor."""
        if self._is_initialized:
            self._send_error(request, INVALID_REQUEST, "already initialized; open another connection to begin anew")
            return
        params = parse_params(request.params, app.InitializeParams)
        epoch, after = _parse_cursor(params.cursor)
        self._followed_trees.clear()
        self._check_tree_limit(len(params.threads))
        for each in params.threads:
            await self._follow_tree(await self._methods.tree_root_of(self._request, each))
        opted_out = params.capabilities.get("optOutNotificationMethods") or []
        self._opted_out = frozenset(each for each in opted_out if isinstance(each, str))
        answered = asyncio.get_running_loop().create_future()
        self._pending_initialize = request, answered
        self.replace_work(partial(self._live.resume, self._subscriber, after, epoch))
        if await answered:
            await self._approval_prompts.prompt_pending()

    # -- from the live channel -----------------------------------------------------------------------------------------

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """A notice as the live channel frames it; nothing of what is not told here."""
        return event.frame(prev) if event.name in _FORWARDED_EVENTS else b""

    def encode_control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """A frame that is no event."""
        return msgspec.json.encode(frame)

    def encode_ping(self, sent: int) -> bytes:
        """A sign of life."""
        return msgspec.json.encode(PingFrame(sent))

    def write(self, data: bytes) -> None:
        """Keeps what there is to tell until its turn comes. Events before the client has begun are none of its."""
        if data and (
            self._is_initialized or self._pending_initialize is not None or not data.startswith(_EVENT_PREFIX)
        ):
            self._frame_queue.put_nowait(data)
            self._pending_bytes += len(data)
            self._all_translated.clear()

    def unread_bytes(self) -> int:
        """Bytes that the client has not taken yet, or that are yet to be told to it."""
        return super().unread_bytes() + self._pending_bytes

    def delivered_bytes(self) -> int:
        """Grows with what it has taken, and with what was told."""
        return super().delivered_bytes() + self._translated_bytes

    async def wait_drained(self) -> None:
        """Returns once all is told and the client has taken nearly all of it."""
        await self._all_translated.wait()
        await super().wait_drained()

    async def _translate_all(self) -> None:
        while True:
            data = await self._frame_queue.get()
            async with self._translate_lock:
                await self._translate_frame(_FRAME_DECODER.decode(data))
            self._pending_bytes -= len(data)
            self._translated_bytes += len(data)
            if not self._pending_bytes:
                self._all_translated.set()
            await super().wait_drained()

    async def _translate_frame(self, frame: _LiveFrame) -> None:
        if frame.type:
            self._handle_control(frame)
        elif self._is_initialized:
            for outgoing in await self._notifications_for(frame):
                self._notify(outgoing, frame.seq)

    def _handle_control(self, frame: _LiveFrame) -> None:
        match frame.type:
            case "hello":
                self._epoch = frame.epoch
            case "current" | "resumed" if self._pending_initialize is not None:
                self._complete_initialize(frame.after)
            case "snapshot_required" if self._pending_initialize is not None:
                self._reject_initialize(frame.reason)
            case "snapshot_required":
                self.disconnect(CLOSE_INTERNAL, "the journal was pruned meanwhile; initialize without a cursor")
            case "ping" if self._is_initialized:
                self._notify(PendingNotification("feed/alive", {}), frame.head_sent)
            case _:
                pass

    def _complete_initialize(self, at: int) -> None:
        request, answered = self._pop_initialize()
        self._is_initialized = True
        outgoing = {"userAgent": "molecule", "orgId": self._subscriber.org_id, "cursor": self._cursor_at(at)}
        self._send_message(
            app.AppServerResponse(request.id, {**outgoing, "heartbeatSeconds": self._request.limits.live_seconds})
        )
        answered.set_result(True)

    def _reject_initialize(self, reason: str) -> None:
        """It may try once more."""
        request, answered = self._pop_initialize()
        text = "it cannot go on behind this cursor: initialize without one, then thread/list has all threads"
        self._send_message(
            app.AppServerErrorResponse(
                request.id, app.AppServerErrorBody(INVALID_REQUEST, text, {"code": "cursor_lost", "reason": reason})
            )
        )
        answered.set_result(False)

    def _pop_initialize(self) -> tuple[ClientRequest, "asyncio.Future[bool]"]:
        initialize, self._pending_initialize = self._pending_initialize, None
        if initialize is None:
            raise LookupError("nobody asked to begin")
        return initialize

    async def _notifications_for(self, frame: _LiveFrame) -> list[PendingNotification]:
        if frame.event == "THREAD_STARTED":
            thread = _THREAD_DECODER.decode(frame.payload)
            if thread.root_id in self._followed_trees:
                self._approval_prompts.add_threads(thread.root_id, [(thread.thread_id, thread.workspace_id)])
            return [PendingNotification("thread/started", {"thread": thread_shape(thread)})]
        if frame.event in _APPROVALS:
            return self._approval_prompts.handle_event(frame.event, bytes(frame.payload))
        if frame.event == "THREAD_STATUS_CHANGED":
            changed = _STATUS_DECODER.decode(frame.payload)
            status = thread_state(changed.status.type, changed.active_flags)
            return [PendingNotification("thread/status/changed", {"threadId": changed.thread_id, "status": status})]
        payload = _ITEM_DECODER.decode(frame.payload)
        if payload.root_id not in self._followed_trees:
            return []
        log_line = await self._load_line(payload, frame.timestamp)
        if log_line is None:
            return []
        if self._item_builder.needs_history(log_line):
            async for each in self._read_lines(
                log_line.thread_id, log_line.ordinal - 1, self._request.limits.thread_rows
            ):
                self._item_builder.notifications_for(each)
        return self._item_builder.notifications_for(log_line)

    async def _load_line(self, payload: _ThreadItemPayload, at: str) -> ThreadLogLine | None:
        """The line of an event; None if it was large, and retention has taken it since."""
        if bytes(payload.entry) == _LARGE_ENTRY:
            found = [each async for each in self._read_lines(payload.thread_id, payload.ordinal, 1)]
            return found[0] if found else None
        entry = decode_entry(bytes(payload.entry).decode())
        return ThreadLogLine(payload.thread_id, payload.ordinal, payload.turn_id, to_millis(at), entry)

    async def _read_lines(self, thread_id: str, upto: int, count: int) -> AsyncIterator[ThreadLogLine]:
        """The last lines of a log up to an ordinal, of a thread that this client was told of, page by page."""
        thread, after = await self._reader.find_thread(thread_id), max(0, upto - count)
        while thread is not None and after < upto:
            found = (await self._reader.entry_page(thread, after, upto - after)).items
            for each in found:
                yield ThreadLogLine.from_entry(thread_id, each)
            after = found[-1].ordinal if found else upto

    # -- to the client -------------------------------------------------------------------------------------------------

    def _notify(self, outgoing: PendingNotification, at: int) -> None:
        if outgoing.method not in self._opted_out:
            self._send_message(
                app.AppServerNotification(outgoing.method, {**outgoing.params, "cursor": self._cursor_at(at)})
            )

    def _cursor_at(self, at: int) -> str:
        return f"{self._epoch}:{at}"

    def _send_error(self, request: ClientRequest, code: int, message: str) -> None:
        self._send_message(app.AppServerErrorResponse(request.id, app.AppServerErrorBody(code, message)))

    def _send_message(self, value: Struct) -> None:
        self._send_text(msgspec.json.encode(value))


def _parse_cursor(cursor: str | None) -> tuple[str | None, int | None]:
    """(epoch, number) of a cursor. Raises Refused."""
    if cursor is None:
        return None, None
    epoch, _, at = cursor.rpartition(":")
    if not (epoch and at.isascii() and at.isdigit() and len(at) < 19):
        raise AppServerError(
            app.AppServerErrorBody(
                INVALID_PARAMS, "cursor must be that of a notification; leave it out to begin from now"
            )
        )
    return epoch, int(at)
