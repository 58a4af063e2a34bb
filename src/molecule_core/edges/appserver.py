"""Threads in the dialect of app-servers, over a WebSocket: `GET /threads/ws`. The live channel's frames are its source:
the same audience, cursor, patience and ends, told in other words.

Above: `edges/conversing.py`. Below: `edges/websocket.py`, `edges/live.py`; the methods are in `appserver_calls.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from molecule_core.edges.appserver_approvals import HEARD as _APPROVALS
from molecule_core.edges.appserver_approvals import Approving
from molecule_core.edges.appserver_calls import (
    BUSY,
    INVALID,
    PARAMS,
    Asks,
    Dialect,
    Refused,
    Reply,
    Request,
    params_of,
    request_of,
)
from molecule_core.edges.appserver_items import ItemFold, LogLine, Told, millis, state_of, thread_of
from molecule_core.edges.auth import Guards
from molecule_core.edges.events import org_of
from molecule_core.edges.live import INTERNAL, Live
from molecule_core.edges.query import ORG, asks
from molecule_core.edges.routes import EVERYBODY, Answer, Call, Route, Who
from molecule_core.edges.websocket import Socket
from molecule_core.ground.errors import StoreUnavailable
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.views.feed import Notice
from molecule_core.wire import appserver as app
from molecule_core.wire.live import Ping
from molecule_core.wire.threadlog import ThreadStatusChanged, entry_of
from molecule_core.wire.threads import ThreadItem

# What clients hear of; all else that happens is not for this channel.
_HEARD = frozenset(("THREAD_STARTED", "THREAD_STATUS_CHANGED", "THREAD_ITEM")) | _APPROVALS
_LARGE = b"null"
# How the frame of an event begins, and no other.
_EVENT = b'{"prev"'
_log = logging.getLogger("molecule.live")


class _Frame(Struct):
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


class _News(Struct):
    """A line of a thread's log in an event; `entry` is null if it is large."""

    thread_id: str
    root_id: str
    ordinal: int
    turn_id: str | None
    entry: Raw


_FRAME, _NEWS = msgspec.json.Decoder(_Frame), msgspec.json.Decoder(_News)
_THREAD, _STATUS = msgspec.json.Decoder(ThreadItem), msgspec.json.Decoder(ThreadStatusChanged)


class AppServerEdge:
    """The route of the dialect."""

    def __init__(self, asks: Asks, live: Live, guards: Guards, reader: ThreadReader, org: OrgReader) -> None:
        self._dialect = Dialect(asks)
        self._live = live
        self._guards = guards
        self._reader = reader
        self._org = org

    def routes(self) -> list[Route]:
        """The row for the table."""
        summary = "Threads in the dialect of app-servers, over a WebSocket"
        return [
            Route(
                "GET", "/threads/ws", self.socket, Who(EVERYBODY), summary, query=asks(ORG), status=101, upgrades=True
            )
        ]

    async def socket(self, call: Call) -> Answer:
        """JSON-RPC without its version member, as docs/app-server.md has it. The admin names an organisation with
        `org_id`."""
        credential = self._guards.credential_hash(call.headers)
        return AppSocket(self._live, call, org_of(call, self._org), credential, self._dialect, self._reader).answer()


class AppSocket(Socket):
    """One client. What the live channel tells it is queued, put into the dialect in order, and sent."""

    kind = "appserver"
    has_snapshot = False

    def __init__(
        self, live: Live, call: Call, org_id: str, credential: str, dialect: Dialect, reader: ThreadReader
    ) -> None:
        """Answers the handshake. Raises WebSocketNeeded."""
        super().__init__(live, call, org_id, credential)
        self._call = call
        self._dialect = dialect
        self._reader = reader
        self._asked = asyncio.Queue[Request | Reply](call.limits.appserver_requests)
        self._news = asyncio.Queue[bytes]()
        self._left = 0
        self._told_bytes = 0
        self._all_told = asyncio.Event()
        self._all_told.set()
        # Nothing is told while a request decides what this client follows: so it hears all of what it has started.
        self._telling = asyncio.Lock()
        self._greeting: tuple[Request, asyncio.Future[bool]] | None = None
        self._is_greeted = False
        self._epoch = ""
        self._trees = set[str]()
        self._unwanted = frozenset[str]()
        self._fold = ItemFold()
        self._approving = Approving(call, dialect, self._say)
        self._works: list[asyncio.Task[None]] = []

    @staticmethod
    def _most_of(limits: Limits) -> int:
        return limits.body_bytes  # as much as a body of a request

    def _open(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._works = [asyncio.create_task(self._keep(work)) for work in (self._answer_all, self._tell_all)]
        super()._open(transport, connections, data, rate)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for task in self._works:
            task.cancel()
        super().connection_lost(exc)

    async def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except StoreUnavailable:
            self.cut(INTERNAL, "the store does not answer; resume")
        except Exception:
            _log.exception("a client of the app-server dialect has met a mistake of ours, and is cut")
            self.cut(INTERNAL, "the server made a mistake; resume")

    # -- from the client -----------------------------------------------------------------------------------------------

    def _wish(self, data: bytes) -> None:
        """A request is taken if there is room for it; what wants no answer asks nothing of us."""
        try:
            request = request_of(data, self._call.limits)
        except Refused as refused:
            self._say(app.Failure(None, refused.fault))
            return
        if request.id is None:
            return
        try:
            self._asked.put_nowait(request)
        except asyncio.QueueFull:
            most = self._call.limits.appserver_requests
            said = f"{most} requests wait for their answers; ask again when some have come"
            self._say(app.Failure(None if isinstance(request, Reply) else request.id, app.Fault(BUSY, said)))

    async def _answer_all(self) -> None:
        """One after the other, and none while the client does not read."""
        while True:
            await super().drained()
            request = await self._asked.get()
            if isinstance(request, Reply):
                await self._approving.take(request)
                continue
            try:
                await self._answer(request)
            except Refused as refused:
                self._say(app.Failure(request.id, refused.fault))

    async def _answer(self, request: Request) -> None:
        if request.method == "initialize":
            await self._initialize(request)
        elif not self._is_greeted:
            self._refuse(request, INVALID, "not initialized; send initialize first")
        elif request.method in self._dialect.following:
            async with self._telling:
                self._check_room(1)
                await self._do(request)
            await self._approving.ask_open()
        else:
            await self._do(request)

    async def _do(self, request: Request) -> None:
        done = await self._dialect.do(self._call, request)
        if done.follows is not None:
            await self._follow(done.follows)
        if done.leaves is not None:
            self._trees.discard(done.leaves)
            self._approving.leave(done.leaves)
        self._say(app.Result(request.id, done.result))

    async def _follow(self, root_id: str) -> None:
        self._trees.add(root_id)
        tree = await self._reader.tree(root_id)
        self._approving.watch(root_id, [(each.thread_id, each.workspace_id) for each in tree])

    def _check_room(self, more: int) -> None:
        most = self._call.limits.appserver_trees
        if len(self._trees) + more > most:
            raise Refused(app.Fault(INVALID, f"a client follows at most {most} trees; thread/unsubscribe from some"))

    async def _initialize(self, request: Request) -> None:
        """The answer comes from the live channel, which knows whether it can go on behind the cursor."""
        if self._is_greeted:
            self._refuse(request, INVALID, "already initialized; open another connection to begin anew")
            return
        given = params_of(request.params, app.InitializeParams)
        epoch, after = _place(given.cursor)
        self._trees.clear()
        self._check_room(len(given.threads))
        for each in given.threads:
            await self._follow(await self._dialect.root_of(self._call, each))
        unwanted = given.capabilities.get("optOutNotificationMethods") or []
        self._unwanted = frozenset(each for each in unwanted if isinstance(each, str))
        answered = asyncio.get_running_loop().create_future()
        self._greeting = request, answered
        self.serve(partial(self._live.resume, self._listener, after, epoch))
        if await answered:
            await self._approving.ask_open()

    # -- from the live channel -----------------------------------------------------------------------------------------

    def notice(self, prev: int, notice: Notice) -> bytes:
        """A notice as the live channel frames it; nothing of what is not told here."""
        return notice.frame(prev) if notice.name in _HEARD else b""

    def control(self, frame: msgspec.Struct, _at: int) -> bytes:
        """A frame that is no event."""
        return msgspec.json.encode(frame)

    def ping(self, sent: int) -> bytes:
        """A sign of life."""
        return msgspec.json.encode(Ping(sent))

    def write(self, data: bytes) -> None:
        """Keeps what there is to tell until its turn comes. Events before the client has begun are none of its."""
        if data and (self._is_greeted or self._greeting is not None or not data.startswith(_EVENT)):
            self._news.put_nowait(data)
            self._left += len(data)
            self._all_told.clear()

    def unread(self) -> int:
        """Bytes that the client has not taken yet, or that are yet to be told to it."""
        return super().unread() + self._left

    def taken(self) -> int:
        """Grows with what it has taken, and with what was told."""
        return super().taken() + self._told_bytes

    async def drained(self) -> None:
        """Returns once all is told and the client has taken nearly all of it."""
        await self._all_told.wait()
        await super().drained()

    async def _tell_all(self) -> None:
        while True:
            data = await self._news.get()
            async with self._telling:
                await self._tell(_FRAME.decode(data))
            self._left -= len(data)
            self._told_bytes += len(data)
            if not self._left:
                self._all_told.set()
            await super().drained()

    async def _tell(self, frame: _Frame) -> None:
        if frame.type:
            self._hear_control(frame)
        elif self._is_greeted:
            for told in await self._told_of(frame):
                self._notify(told, frame.seq)

    def _hear_control(self, frame: _Frame) -> None:
        match frame.type:
            case "hello":
                self._epoch = frame.epoch
            case "current" | "resumed" if self._greeting is not None:
                self._greet(frame.after)
            case "snapshot_required" if self._greeting is not None:
                self._turn_away(frame.reason)
            case "snapshot_required":
                self.cut(INTERNAL, "the journal was pruned meanwhile; initialize without a cursor")
            case "ping" if self._is_greeted:
                self._notify(Told("feed/alive", {}), frame.head_sent)
            case _:
                pass

    def _greet(self, at: int) -> None:
        request, answered = self._taken_greeting()
        self._is_greeted = True
        told = {"userAgent": "molecule", "orgId": self._listener.org_id, "cursor": self._cursor(at)}
        self._say(app.Result(request.id, {**told, "heartbeatSeconds": self._call.limits.live_seconds}))
        answered.set_result(True)

    def _turn_away(self, reason: str) -> None:
        """It may try once more."""
        request, answered = self._taken_greeting()
        said = "it cannot go on behind this cursor: initialize without one, then thread/list has all threads"
        self._say(app.Failure(request.id, app.Fault(INVALID, said, {"code": "cursor_lost", "reason": reason})))
        answered.set_result(False)

    def _taken_greeting(self) -> tuple[Request, "asyncio.Future[bool]"]:
        greeting, self._greeting = self._greeting, None
        if greeting is None:
            raise LookupError("nobody asked to begin")
        return greeting

    async def _told_of(self, frame: _Frame) -> list[Told]:
        if frame.event == "THREAD_STARTED":
            thread = _THREAD.decode(frame.payload)
            if thread.root_id in self._trees:
                self._approving.watch(thread.root_id, [(thread.thread_id, thread.workspace_id)])
            return [Told("thread/started", {"thread": thread_of(thread)})]
        if frame.event in _APPROVALS:
            return self._approving.hear(frame.event, bytes(frame.payload))
        if frame.event == "THREAD_STATUS_CHANGED":
            changed = _STATUS.decode(frame.payload)
            status = state_of(changed.status.type, changed.active_flags)
            return [Told("thread/status/changed", {"threadId": changed.thread_id, "status": status})]
        news = _NEWS.decode(frame.payload)
        if news.root_id not in self._trees:
            return []
        line = await self._line(news, frame.timestamp)
        if line is None:
            return []
        if self._fold.lacks(line):
            async for each in self._read(line.thread_id, line.ordinal - 1, self._call.limits.thread_rows):
                self._fold.tell(each)
        return self._fold.tell(line)

    async def _line(self, news: _News, at: str) -> LogLine | None:
        """The line of an event; None if it was large, and retention has taken it since."""
        if bytes(news.entry) == _LARGE:
            found = [each async for each in self._read(news.thread_id, news.ordinal, 1)]
            return found[0] if found else None
        entry = entry_of(bytes(news.entry).decode())
        return LogLine(news.thread_id, news.ordinal, news.turn_id, millis(at), entry)

    async def _read(self, thread_id: str, upto: int, count: int) -> AsyncIterator[LogLine]:
        """The last lines of a log up to an ordinal, of a thread that this client was told of, page by page."""
        thread, after = await self._reader.find(thread_id), max(0, upto - count)
        while thread is not None and after < upto:
            found = (await self._reader.entries(thread, after, upto - after)).items
            for each in found:
                yield LogLine.of(thread_id, each)
            after = found[-1].ordinal if found else upto

    # -- to the client -------------------------------------------------------------------------------------------------

    def _notify(self, told: Told, at: int) -> None:
        if told.method not in self._unwanted:
            self._say(app.Notification(told.method, {**told.params, "cursor": self._cursor(at)}))

    def _cursor(self, at: int) -> str:
        return f"{self._epoch}:{at}"

    def _refuse(self, request: Request, code: int, message: str) -> None:
        self._say(app.Failure(request.id, app.Fault(code, message)))

    def _say(self, value: Struct) -> None:
        self._write_text(msgspec.json.encode(value))


def _place(cursor: str | None) -> tuple[str | None, int | None]:
    """(epoch, number) of a cursor. Raises Refused."""
    if cursor is None:
        return None, None
    epoch, _, at = cursor.rpartition(":")
    if not (epoch and at.isascii() and at.isdigit() and len(at) < 19):
        raise Refused(app.Fault(PARAMS, "cursor must be that of a notification; leave it out to begin from now"))
    return epoch, int(at)
