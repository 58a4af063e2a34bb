"""Where the messages of one MCP request go: together in one JSON answer, or one by one as server-sent events.

An answer begins as JSON. It becomes a stream with the first message that is not the answer itself (progress), or when
the answer is long in coming, so that no proxy takes the silence for death. One clock looks after all of them.

Above: `api/mcp/routes.py`. Below: connections that are ours (`api/live/held_connection.py`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from molecule_core.access.model import Caller
from molecule_core.api.http.response_head import render_stream_head
from molecule_core.api.http.routing import Request, Response
from molecule_core.api.live.held_connection import HeldConnection
from molecule_core.api.live.subscribers import AuthorizedChannel
from molecule_core.api.live.transient_events import clock_sleep
from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidCredential, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.wire.protocols.jsonrpc import JsonRpcMessage

_EVENTS = b"text/event-stream; charset=utf-8"
_KEEPALIVE = b": alive\n\n"
# Rounds of the clock in which a client took nothing of what waits for it, then it is cut.
_MAX_IDLE_CHECKS = 2
ENDED, SLOW, REPLACED = "credential ended", "too slow", "replaced"
RpcId = str | int


def format_event(message: JsonRpcMessage) -> bytes:
    """A message as one event."""
    return b"event: message\ndata: %s\n\n" % msgspec.json.encode(message)


class SseResponse(HeldConnection):
    """An answer that goes on as events until it is finished. `lost` is called once its connection is gone."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._send_lock = asyncio.Lock()
        self._last_delivered, self._idle_checks = -1, 0
        self.is_open = False

    def open(self, first: Iterable[bytes], transport: asyncio.Transport, connections: set[Any], rate: bytes) -> None:
        """Takes a connection over: head, and what is to be said at once."""
        self.is_open = True
        self._hold_connection(transport, connections, render_stream_head(_EVENTS, rate) + b"".join(first))

    async def send_when_drained(self, data: bytes) -> None:
        """Sends something, however long, once the client has taken nearly all of what came before. One at a time: of
        several that have waited for the same moment, each but the first would find what that one has just written."""
        async with self._send_lock:
            await self.wait_drained()
            if not self._transport.is_closing():
                self.write(data)

    def send_keepalive(self) -> None:
        """A sign of life, unless there is one: whoever reads has something to read."""
        if not self.unread_bytes() and not self._transport.is_closing():
            self.write(_KEEPALIVE)

    def is_stuck(self) -> bool:
        """Whether the client took nothing of what waits for it since the last looks."""
        previous, self._last_delivered = self._last_delivered, self.delivered_bytes()
        self._idle_checks = self._idle_checks + 1 if self.unread_bytes() > 0 and previous == self._last_delivered else 0
        return self._idle_checks >= _MAX_IDLE_CHECKS

    def finish(self) -> None:
        """All is said: closes once the client has taken it."""
        self._transport.close()

    def abort(self) -> None:
        """Ends it at once."""
        self._transport.abort()

    def shutdown(self) -> None:
        """The server stops; an answer that is still due is waited for, as on every other connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost()


class ServerStreamConnection(SseResponse):
    """What a session's client opens to be told what it did not ask for."""

    def __init__(self, on_lost: Callable[[], None], limit: int) -> None:
        super().__init__(on_lost)
        self._limit = limit

    def send_now(self, data: bytes) -> bool:
        """Sends something at once; False if the client has left too much unread of what came before, and is cut for
        it."""
        if self._transport.is_closing():
            return True
        if self.unread_bytes() > self._limit:
            self.abort()
            return False
        self.write(data)
        return True

    def shutdown(self) -> None:
        """The server stops."""
        self._close_gracefully()


class Monitored(AuthorizedChannel, Protocol):
    """What the clock looks after."""

    def check(self) -> str | None:
        """A look after some time; why it was cut, if it was."""

    def terminate(self, error: MoleculeError) -> None:
        """Ends it, and says why if that is still possible."""


class OpenResponses:
    """All requests of MCP that are being answered, and the streams that stand open."""

    def __init__(self, clock: Clock, limits: Limits, has_lost_access: Callable[[AuthorizedChannel], bool]) -> None:
        self._clock = clock
        self._limits = limits
        self._has_lost_access = has_lost_access
        self._all: set[Monitored] = set()
        self._monitor_task: asyncio.Task[None] | None = None
        self.disconnects = Counter({ENDED: 0, SLOW: 0, REPLACED: 0})

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, response: Monitored) -> bool:
        return response in self._all

    def add(self, response: Monitored) -> None:
        """Looks after one more."""
        self._all.add(response)
        if self._monitor_task is None or self._monitor_task.done():
            self._monitor_task = asyncio.create_task(self._monitor_loop())

    def discard(self, response: Monitored) -> None:
        """It has ended."""
        self._all.discard(response)

    def end_unauthorized(self) -> None:
        """Some credential has ended: what it let in ends too."""
        for response in list(self._all):
            if self._has_lost_access(response):
                self.disconnects[ENDED] += 1
                response.terminate(InvalidCredential())

    async def _monitor_loop(self) -> None:
        while self._all:
            await clock_sleep(self._clock, self._limits.live_seconds)
            self.end_unauthorized()
            for response in list(self._all):
                cut = response.check()
                if cut is not None:
                    self.disconnects[cut] += 1

    async def close(self) -> None:
        """The server stops."""
        if self._monitor_task is not None:
            self._monitor_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._monitor_task


class PostResponse:
    """The answer to one POST. Whatever works on it finds it under `current()`, in tasks of its own too."""

    def __init__(
        self,
        request: Request,
        credential: str,
        holder: str,
        request_ids: set[RpcId],
        on_abandoned: Callable[[set[RpcId]], None],
        *,
        accepts_events: bool,
    ) -> None:
        """`holder`: who has what a tool takes: a session, or a credential. `wanted`: the ids that are to be
        answered. `give_up`: nobody waits for these any more. `streams`: whether the client takes events."""
        self.request = request
        self.credential = credential
        self.holder = holder
        self.answers: list[JsonRpcMessage] = []
        self.error: MoleculeError | None = None
        self.is_stream = False
        self._pending_ids = request_ids
        self._on_abandoned = on_abandoned
        self._accepts_events = accepts_events
        self._buffered: list[bytes] = []
        self._format_decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._checks = 0
        self._unsent_events = 0
        self._stream = SseResponse(self.abandon)
        self.on_finished: Callable[[], None] = lambda: None

    @property
    def caller(self) -> Caller:
        """Who asked."""
        return self.request.caller

    @property
    def workspace_id(self) -> str:
        """As which workspace."""
        return self.caller.id

    @property
    def is_complete(self) -> bool:
        """Whether all answers are there."""
        return not self._pending_ids

    async def wait_decided(self) -> None:
        """Returns once it is known how the answer goes out."""
        await asyncio.wait((self._format_decided,))

    async def send(self, message: JsonRpcMessage) -> None:
        """Takes a message: an answer, or something before it. Whoever tells more than the client reads has to wait."""
        if "method" not in message:
            self._pending_ids.discard(message["id"])
            self.answers.append(message)
        elif not self._accepts_events:  # this client has said that it takes the answer only
            return
        if self._stream.is_open:
            await self._send_event(format_event(message))
            return
        self._buffered.append(format_event(message))
        if self.is_complete:
            self._decide_format(stream=False)
        elif "method" in message:
            self._decide_format(stream=True)

    async def _send_event(self, data: bytes) -> None:
        self._unsent_events += 1
        try:
            await self._stream.send_when_drained(data)
        finally:
            self._unsent_events -= 1
            self._finish_if_sent()
        await self._stream.wait_drained()  # a call is under way, and counts, until its client has the answer

    def _finish_if_sent(self) -> None:
        """Closes the stream after the last answer; of those that are there already, some may wait for their turn."""
        if self.is_complete and not self._unsent_events:
            self._stream.finish()

    def _decide_format(self, *, stream: bool) -> None:
        if not self._format_decided.done():
            self.is_stream = stream
            self._format_decided.set_result(None)

    def to_stream_response(self) -> Response:
        """The answer that takes the connection over."""
        return Response(b"", upgrade=self._take_over)

    def _take_over(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._stream.open(self._buffered, transport, connections, rate)
        self._buffered = []
        if self.is_complete:
            self._stream.finish()

    def check(self) -> str | None:
        """Long in coming: the client is told that we are at it. One that takes nothing is cut."""
        self._checks += 1
        if self._stream.is_open:
            if self._stream.is_stuck():
                self._stream.abort()
                return SLOW
            self._stream.send_keepalive()
        elif self.is_stream:  # its connection has gone before it could take it over
            self.abandon()
        elif self._checks > 1 and self._accepts_events:
            self._decide_format(stream=True)
        return None

    def terminate(self, error: MoleculeError) -> None:
        """Ends it: with a refusal, if nothing has been said yet."""
        self.error = error
        if self._stream.is_open:
            self._stream.abort()
        else:
            self._decide_format(stream=False)
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits for the answer any more: what works on it may stop."""
        abandoned_ids, self._pending_ids = self._pending_ids, set()
        if abandoned_ids:
            self._on_abandoned(abandoned_ids)
        self.on_finished()

    def cancel_request(self, id_: RpcId) -> None:
        """The client itself wants no answer to a request any more, and gets none."""
        if id_ not in self._pending_ids:
            return
        self._pending_ids.discard(id_)
        if not self._pending_ids and self._stream.is_open:
            self._finish_if_sent()
        elif not self._pending_ids:
            self._decide_format(stream=bool(self._buffered) and self._accepts_events)


class ServerStream:
    """The stream that a session's client has opened for what it did not ask for."""

    def __init__(self, request: Request, credential: str, on_lost: Callable[[], None], limit: int) -> None:
        self.caller = request.caller
        self.credential = credential
        self.workspace_id = request.caller.id
        self._on_lost = on_lost
        self._checks = 0
        self._stream = ServerStreamConnection(on_lost, limit)

    def to_response(self) -> Response:
        """The answer that takes the connection over."""
        return Response(b"", upgrade=self._take_over)

    def _take_over(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._stream.open((_KEEPALIVE,), transport, connections, rate)

    async def send(self, message: JsonRpcMessage) -> None:
        """Tells the client something."""
        if self._stream.is_open:
            self._stream.send_now(format_event(message))
            await self._stream.wait_drained()

    def check(self) -> str | None:
        """A sign of life."""
        self._checks += 1
        if self._stream.is_open:
            if self._stream.is_stuck() or not self._stream.send_now(_KEEPALIVE):
                self._stream.abort()
                return SLOW
        elif self._checks > 1:  # its connection has gone before it could take it over
            self._on_lost()
        return None

    def terminate(self, _error: MoleculeError) -> None:
        """Ends it."""
        if self._stream.is_open:
            self._stream.abort()
        else:
            self._on_lost()


_CURRENT: ContextVar[PostResponse] = ContextVar("outlet")


def current_response() -> PostResponse | None:
    """The answer that this task works on; None outside of requests."""
    return _CURRENT.get(None)


@contextlib.contextmanager
def responding_to(post_response: PostResponse) -> Iterator[None]:
    """All that is begun in this block, in tasks of its own too, works on this answer."""
    token = _CURRENT.set(post_response)
    try:
        yield
    finally:
        _CURRENT.reset(token)
