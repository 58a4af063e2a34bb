"""Threads in the app-server protocol over a WebSocket: `GET /threads/ws`.

Translates the frames of a live channel, with its audience, cursor, timeouts and close codes. The methods are in
`api/app_server/methods.py`.
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
from molecule_core.api.app_server.live_items import LiveItems
from molecule_core.api.app_server.methods import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    SERVER_BUSY,
    AppServerError,
    AppServerMethods,
    ClientRequest,
    ClientResponse,
    parse_client_message,
    parse_params,
)
from molecule_core.api.application import InternalCall
from molecule_core.api.auth import Authenticator
from molecule_core.api.http.response import Response, WebSocketChannel
from molecule_core.api.live.hub import CLOSE_INTERNAL, LiveHub
from molecule_core.api.live.routes import org_id_of
from molecule_core.api.live.websocket import WebSocketConnection
from molecule_core.api.query_parameters import ORG, query_params
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route
from molecule_core.common.errors import StoreUnavailable
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.views.feed import EncodedEvent
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.schemas.live import PingFrame
from molecule_core.wire.schemas.live_turns import LiveTurnPayload
from molecule_core.wire.schemas.thread_log import ThreadStatusChangedPayload, decode_entry
from molecule_core.wire.schemas.threads import ThreadItem

_LIVE_TURN = "LIVE_TURN"
# Events that are translated for clients; all others are dropped.
_FORWARDED_EVENTS = frozenset(("THREAD_STARTED", "THREAD_STATUS_CHANGED", "THREAD_ITEM", _LIVE_TURN)) | _APPROVALS
_LARGE_ENTRY = b"null"
# Only event frames start like this.
_EVENT_PREFIX = b'{"prev"'
_log = logging.getLogger("molecule.live")


class _LiveFrame(Struct):
    """Frame of the live channel, with the members used here."""

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


class _RawItemPayload(Struct):
    """Payload of `THREAD_ITEM`, with the entry not parsed; `entry` is null if it is large."""

    thread_id: str
    root_id: str
    ordinal: int
    turn_id: str | None
    entry: Raw


_FRAME_DECODER, _ITEM_DECODER = msgspec.json.Decoder(_LiveFrame), msgspec.json.Decoder(_RawItemPayload)
_TURN_DECODER = msgspec.json.Decoder(LiveTurnPayload)
_THREAD_DECODER, _STATUS_DECODER = msgspec.json.Decoder(ThreadItem), msgspec.json.Decoder(ThreadStatusChangedPayload)


class AppServerRoutes:
    """Handler of the WebSocket route."""

    def __init__(
        self,
        call_internally: InternalCall,
        live: LiveHub,
        authenticator: Authenticator,
        rate_limiter: RateLimiter,
        reader: ThreadReader,
        org: OrgReader,
    ) -> None:
        self._methods = AppServerMethods(call_internally)
        self._live = live
        self._authenticator = authenticator
        self._rate_limiter = rate_limiter
        self._reader = reader
        self._org = org

    def routes(self) -> list[Route]:
        """Return the route."""
        summary = "Drive threads with the app-server protocol over a WebSocket"
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
        """Open a WebSocket for JSON-RPC without the version member (docs/reference/app-server.md). The admin selects an
        org with `org_id`."""
        credential = self._authenticator.credential_hash(http_request.headers)
        return AppServerConnection(
            self._live,
            self._rate_limiter,
            http_request,
            org_id_of(http_request, self._org),
            credential,
            self._methods,
            self._reader,
        ).to_response()


class AppServerConnection(WebSocketConnection):
    """Connection of one client. Frames of the live channel are queued, translated in order and sent."""

    kind = "appserver"
    has_snapshot = False

    def __init__(
        self,
        live: LiveHub,
        rate_limiter: RateLimiter,
        http_request: Request,
        org_id: str,
        credential: str,
        methods: AppServerMethods,
        reader: ThreadReader,
    ) -> None:
        super().__init__(live, rate_limiter, http_request, org_id, credential)
        self._request = http_request
        self._methods = methods
        self._reader = reader
        self._client_queue = asyncio.Queue[ClientRequest | ClientResponse](http_request.limits.appserver_requests)
        self._frame_queue = asyncio.Queue[bytes]()
        self._pending_bytes = 0
        self._translated_bytes = 0
        self._all_translated = asyncio.Event()
        self._all_translated.set()
        # Held while a request changes the followed trees, so that the client gets all events of what it started.
        self._translate_lock = asyncio.Lock()
        self._pending_initialize: tuple[ClientRequest, asyncio.Future[bool]] | None = None
        self._is_initialized = False
        self._epoch = ""
        self._followed_trees = set[str]()
        self._opted_out = frozenset[str]()
        self._item_builder = ItemBuilder()
        self._live_items = LiveItems()
        self._last_seq = 0
        """The last journaled event that was translated."""
        self._tree_by_thread: dict[str, str] = {}
        """Root of the trees of threads that ran a live turn."""
        self._approval_prompts = ApprovalPrompts(http_request, methods, self._send_message)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def max_message_bytes(self) -> int:
        """Return the limit in bytes of a client's message: that of the body of a request."""
        return self._limits.body_bytes

    def on_open(self, channel: WebSocketChannel) -> None:
        """Start the subscription and the tasks."""
        self._tasks = [
            asyncio.create_task(self._run_task(loop_function))
            for loop_function in (self._process_requests, self._translate_all)
        ]
        super().on_open(channel)

    def on_lost(self) -> None:
        """Stop the tasks and remove the subscriber."""
        for task in self._tasks:
            task.cancel()
        super().on_lost()

    async def _run_task(self, loop_function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await loop_function()
        except StoreUnavailable:
            self.disconnect(CLOSE_INTERNAL, "the store does not respond; resume")
        except Exception:
            _log.exception("an app-server connection failed and is closed")
            self.disconnect(CLOSE_INTERNAL, "the server failed; resume")

    # -- from the client -----------------------------------------------------------------------------------------------

    def on_text(self, data: bytes) -> None:
        """Queue a request, or reject it if the queue is full. Notifications of the client are ignored."""
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
            text = f"the limit of {maximum} pending requests is reached. Wait for a response, then try again."
            self._send_message(
                app.AppServerErrorResponse(
                    None if isinstance(request, ClientResponse) else request.id,
                    app.AppServerErrorBody(SERVER_BUSY, text),
                )
            )

    async def _process_requests(self) -> None:
        """Process requests one at a time, and none while the client does not read."""
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
            self._send_error(request, INVALID_REQUEST, "the connection is not initialized. Send initialize first.")
        elif request.method in self._methods.following_methods:
            async with self._translate_lock:
                self._check_tree_limit(1)
                await self._call_method(request)
            await self._approval_prompts.prompt_pending()
        else:
            await self._call_method(request)

    async def _call_method(self, request: ClientRequest) -> None:
        result = await self._methods.call_method(self._request, request)
        if result.followed_tree is not None:
            await self._follow_tree(result.followed_tree)
        if result.unfollowed_tree is not None:
            self._followed_trees.discard(result.unfollowed_tree)
            self._approval_prompts.remove_tree(result.unfollowed_tree)
        self._send_message(app.AppServerResponse(request.id, result.result))

    async def _follow_tree(self, root_id: str) -> None:
        self._followed_trees.add(root_id)
        tree = await self._reader.load_tree(root_id)
        self._approval_prompts.add_threads(root_id, [(each.thread_id, each.workspace_id) for each in tree])

    def _check_tree_limit(self, more: int) -> None:
        maximum = self._request.limits.appserver_trees
        if len(self._followed_trees) + more > maximum:
            raise AppServerError(
                app.AppServerErrorBody(
                    INVALID_REQUEST,
                    f"a client cannot follow more than {maximum} trees. Call thread/unsubscribe for some.",
                )
            )

    async def _initialize(self, request: ClientRequest) -> None:
        """Ask the live channel to resume; the response follows when it has accepted or rejected the cursor."""
        if self._is_initialized:
            self._send_error(
                request,
                INVALID_REQUEST,
                "the connection is already initialized. Open another connection to initialize again.",
            )
            return
        params = parse_params(request.params, app.InitializeParams)
        epoch, after = _parse_cursor(params.cursor)
        self._followed_trees.clear()
        self._check_tree_limit(len(params.threads))
        for each in params.threads:
            await self._follow_tree(await self._methods.tree_root_of(self._request, each))
        opted_out = params.capabilities.get("optOutNotificationMethods") or []
        self._opted_out = frozenset(each for each in opted_out if isinstance(each, str))
        accepted = asyncio.get_running_loop().create_future()
        self._pending_initialize = request, accepted
        self.replace_work(partial(self._live.resume, self._subscriber, after, epoch))
        if await accepted:
            await self._approval_prompts.prompt_pending()

    # -- from the live channel -----------------------------------------------------------------------------------------

    def encode_event(self, prev: int, event: EncodedEvent) -> bytes:
        """Encode an event as the live channel does; empty for events that are not translated."""
        return event.frame(prev) if event.name in _FORWARDED_EVENTS else b""

    def encode_control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """Encode a control frame."""
        return msgspec.json.encode(frame)

    def encode_ping(self, sent: int) -> bytes:
        """Encode a keepalive."""
        return msgspec.json.encode(PingFrame(sent))

    def write(self, data: bytes) -> None:
        """Queue a frame for translation. Events before `initialize` are dropped."""
        if data and (
            self._is_initialized or self._pending_initialize is not None or not data.startswith(_EVENT_PREFIX)
        ):
            self._frame_queue.put_nowait(data)
            self._pending_bytes += len(data)
            self._all_translated.clear()

    def unread_bytes(self) -> int:
        """Return the number of bytes that are not translated or not read yet."""
        return super().unread_bytes() + self._pending_bytes

    def delivered_bytes(self) -> int:
        """Return the number of bytes translated and read; used to detect progress."""
        return super().delivered_bytes() + self._translated_bytes

    async def wait_drained(self) -> None:
        """Wait until everything is translated and the client has read nearly all of it."""
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
            self._last_seq = frame.seq or self._last_seq
            for outgoing in await self._notifications_for(frame):
                self._notify(outgoing, self._last_seq)

    def _handle_control(self, frame: _LiveFrame) -> None:
        match frame.type:
            case "hello":
                self._epoch = frame.epoch
            case "current" | "resumed" if self._pending_initialize is not None:
                self._complete_initialize(frame.after)
            case "snapshot_required" if self._pending_initialize is not None:
                self._reject_initialize(frame.reason)
            case "snapshot_required":
                self.disconnect(CLOSE_INTERNAL, "the journal was pruned; initialize without a cursor")
            case "ping" if self._is_initialized:
                self._notify(PendingNotification("feed/alive", {}), frame.head_sent)
            case _:
                pass

    def _complete_initialize(self, at: int) -> None:
        request, accepted = self._pop_initialize()
        self._is_initialized = True
        self._last_seq = at
        outgoing = {"userAgent": "molecule", "orgId": self._subscriber.org_id, "cursor": self._cursor_at(at)}
        self._send_message(
            app.AppServerResponse(request.id, {**outgoing, "heartbeatSeconds": self._request.limits.live_seconds})
        )
        accepted.set_result(True)

    def _reject_initialize(self, reason: str) -> None:
        """Reject `initialize`; the client may send it again."""
        request, accepted = self._pop_initialize()
        text = "the server cannot resume from this cursor. Send initialize without a cursor, then call thread/list."
        self._send_message(
            app.AppServerErrorResponse(
                request.id, app.AppServerErrorBody(INVALID_REQUEST, text, {"code": "cursor_lost", "reason": reason})
            )
        )
        accepted.set_result(False)

    def _pop_initialize(self) -> tuple[ClientRequest, "asyncio.Future[bool]"]:
        initialize, self._pending_initialize = self._pending_initialize, None
        if initialize is None:
            raise LookupError("no initialize request is pending")
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
        if frame.event == _LIVE_TURN:
            return await self._live_notifications(_TURN_DECODER.decode(frame.payload))
        return await self._item_notifications(_ITEM_DECODER.decode(frame.payload), frame.timestamp)

    async def _item_notifications(self, payload: _RawItemPayload, at: str) -> list[PendingNotification]:
        if payload.root_id not in self._followed_trees:
            return []
        log_line = await self._load_line(payload, at)
        if log_line is None:
            return []
        if self._item_builder.needs_history(log_line):
            async for each in self._read_lines(
                log_line.thread_id, log_line.ordinal - 1, self._request.limits.thread_rows
            ):
                self._item_builder.notifications_for(each)
        return self._live_items.complete(log_line, self._item_builder.notifications_for(log_line))

    async def _live_notifications(self, turn: LiveTurnPayload) -> list[PendingNotification]:
        """Return the deltas of a live turn, if its thread is followed and its turn was announced."""
        turn_id = self._item_builder.running_turn(turn.thread_id) if turn.thread_id else None
        if turn_id is None:
            return []
        if turn.thread_id not in self._tree_by_thread:
            thread = await self._reader.find_thread(turn.thread_id)
            self._tree_by_thread[turn.thread_id] = "" if thread is None else thread.root_id
        is_followed = self._tree_by_thread[turn.thread_id] in self._followed_trees
        return self._live_items.notifications_for(turn, turn_id) if is_followed else []

    async def _load_line(self, payload: _RawItemPayload, at: str) -> ThreadLogLine | None:
        """Return the entry of an event; None if it was too large for the event and has been pruned since."""
        if bytes(payload.entry) == _LARGE_ENTRY:
            entries = [each async for each in self._read_lines(payload.thread_id, payload.ordinal, 1)]
            return entries[0] if entries else None
        entry = decode_entry(bytes(payload.entry).decode())
        return ThreadLogLine(payload.thread_id, payload.ordinal, payload.turn_id, to_millis(at), entry)

    async def _read_lines(self, thread_id: str, upto: int, count: int) -> AsyncIterator[ThreadLogLine]:
        """Read the last `count` entries up to an ordinal, page by page.

        No access check: the client has received an event of the thread."""
        thread, after = await self._reader.find_thread(thread_id), max(0, upto - count)
        while thread is not None and after < upto:
            entries = (await self._reader.entry_page(thread, after, upto - after)).items
            for each in entries:
                yield ThreadLogLine.from_entry(thread_id, each)
            after = entries[-1].ordinal if entries else upto

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
    """Return (epoch, number) of a cursor. Raises AppServerError."""
    if cursor is None:
        return None, None
    epoch, _, at = cursor.rpartition(":")
    if not (epoch and at.isascii() and at.isdigit() and len(at) < 19):
        raise AppServerError(
            app.AppServerErrorBody(
                INVALID_PARAMS, "cursor is not valid. Use the cursor of a notification, or omit it to start from now."
            )
        )
    return epoch, int(at)
