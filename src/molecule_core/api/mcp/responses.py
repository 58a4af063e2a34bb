"""Sends the messages of one MCP request: as one JSON response, or one by one as server-sent events.

A response starts as JSON. It becomes a stream with the first message before the answer (progress), or when the answer
takes long, so that proxies do not time out. One task checks all open responses.

Called by `api/mcp/routes.py`; streams are handlers of the server's event streams (`api/http/response.py`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

import msgspec

from molecule_core.access.model import Caller
from molecule_core.api.http.response import Channel, Response, event_stream_response
from molecule_core.api.live.subscribers import AuthorizedChannel
from molecule_core.api.live.transient_events import clock_sleep
from molecule_core.api.routing import Request
from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidCredential, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.wire.protocols.jsonrpc import JsonRpcMessage

_KEEPALIVE = b": alive\n\n"
# Checks in which a client read none of its unread data before it is disconnected.
_MAX_IDLE_CHECKS = 2
ENDED, SLOW, REPLACED = "credential ended", "too slow", "replaced"
RpcId = str | int


def format_event(message: JsonRpcMessage) -> bytes:
    """Encode a message as one event."""
    return b"event: message\ndata: %s\n\n" % msgspec.json.encode(message)


class SseResponse:
    """Handler of a response that is sent as events until it is finished."""

    _channel: Channel

    def __init__(self, on_opened: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Create a handler. `on_opened` sends the first events; `on_lost` is called when the connection is gone."""
        self._on_opened = on_opened
        self._on_lost = on_lost
        self._send_lock = asyncio.Lock()
        self._last_delivered, self._idle_checks = -1, 0
        self.is_open = False

    def on_open(self, channel: Channel) -> None:
        """Start to send."""
        self.is_open = True
        self._channel = channel
        self._on_opened()

    def write(self, data: bytes) -> None:
        """Send bytes; they are buffered until the client reads."""
        self._channel.write(data)

    async def wait_drained(self) -> None:
        """Wait until the client has read nearly everything."""
        await self._channel.wait_drained()

    async def send_when_drained(self, data: bytes) -> None:
        """Send data of any size once the client has read nearly everything before it.

        One sender at a time: of several waiting senders, all but the first would find the buffer filled again."""
        async with self._send_lock:
            await self._channel.wait_drained()
            if not self._channel.is_closing():
                self._channel.write(data)

    def send_keepalive(self) -> None:
        """Send a keepalive, unless unread data already serves as one."""
        if not self._channel.unread_bytes() and not self._channel.is_closing():
            self._channel.write(_KEEPALIVE)

    def is_stuck(self) -> bool:
        """Return whether the client read none of its unread data during the last checks."""
        previous, self._last_delivered = self._last_delivered, self._channel.delivered_bytes()
        is_idle = self._channel.unread_bytes() > 0 and previous == self._last_delivered
        self._idle_checks = self._idle_checks + 1 if is_idle else 0
        return self._idle_checks >= _MAX_IDLE_CHECKS

    def finish(self) -> None:
        """Close once the client has read everything."""
        self._channel.finish()

    def abort(self) -> None:
        """Close at once."""
        self._channel.abort()

    def on_shutdown(self) -> None:
        """Do nothing: pending answers are awaited, as on every other connection."""

    def on_lost(self) -> None:
        """Report that the connection is gone."""
        self._on_lost()


class ServerStreamConnection(SseResponse):
    """Stream of a session for messages that answer no request."""

    def __init__(self, on_lost: Callable[[], None], limit: int) -> None:
        super().__init__(lambda: self.write(_KEEPALIVE), on_lost)
        self._limit = limit

    def send_now(self, data: bytes) -> bool:
        """Send data at once. If the client has too much unread, abort the stream and return False."""
        if self._channel.is_closing():
            return True
        if self._channel.unread_bytes() > self._limit:
            self.abort()
            return False
        self._channel.write(data)
        return True

    def on_shutdown(self) -> None:
        """Close the stream."""
        self._channel.close_gracefully()


class MonitoredResponse(AuthorizedChannel, Protocol):
    """Open response or stream that is checked periodically."""

    def check(self) -> str | None:
        """Check the client; return the reason if it was disconnected."""

    def terminate(self, error: MoleculeError) -> None:
        """End it, with an error response if nothing has been sent yet."""


class OpenResponses:
    """MCP requests in progress, and open streams."""

    def __init__(self, clock: Clock, limits: Limits, has_lost_access: Callable[[AuthorizedChannel], bool]) -> None:
        self._clock = clock
        self._limits = limits
        self._has_lost_access = has_lost_access
        self._all: set[MonitoredResponse] = set()
        self._monitor_task: asyncio.Task[None] | None = None
        self.disconnects = Counter({ENDED: 0, SLOW: 0, REPLACED: 0})

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, response: MonitoredResponse) -> bool:
        return response in self._all

    def workspace_ids(self) -> set[str]:
        """Return the workspaces that have a response open."""
        return {each.caller.id for each in self._all}

    def add(self, response: MonitoredResponse) -> None:
        """Start checking a response."""
        self._all.add(response)
        if self._monitor_task is None or self._monitor_task.done():
            self._monitor_task = asyncio.create_task(self._monitor_loop())

    def discard(self, response: MonitoredResponse) -> None:
        """Remove a response that has ended."""
        self._all.discard(response)

    def end_unauthorized(self) -> None:
        """Terminate the responses whose credential has ended."""
        for response in list(self._all):
            if self._has_lost_access(response):
                self.disconnects[ENDED] += 1
                response.terminate(InvalidCredential())

    async def _monitor_loop(self) -> None:
        while self._all:
            await clock_sleep(self._clock, self._limits.live_seconds)
            self.end_unauthorized()
            for response in list(self._all):
                reason = response.check()
                if reason is not None:
                    self.disconnects[reason] += 1

    async def close(self) -> None:
        """Stop the checks."""
        if self._monitor_task is not None:
            self._monitor_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._monitor_task


class PostResponse:
    """Response to one POST. Tasks working on it find it with `current_response`."""

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
        """Create an undecided response.

        `holder`: owner of the messages that tools claim, a session or a credential hash. `request_ids`: ids that need
        an answer. `on_abandoned`: called with the ids for which the client no longer waits."""
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
        self._stream = SseResponse(self._send_buffered, self.abandon)
        self.on_finished: Callable[[], None] = lambda: None

    @property
    def caller(self) -> Caller:
        """Return the caller."""
        return self.request.caller

    @property
    def workspace_id(self) -> str:
        """Return the id of the caller's workspace."""
        return self.caller.id

    @property
    def is_complete(self) -> bool:
        """Return whether all requests are answered."""
        return not self._pending_ids

    async def wait_decided(self) -> None:
        """Wait until it is decided whether the response is JSON or a stream."""
        await asyncio.wait((self._format_decided,))

    async def send(self, message: JsonRpcMessage) -> None:
        """Send an answer, or a message before it. Waits while the client has not read what came before."""
        if "method" not in message:
            self._pending_ids.discard(message["id"])
            self.answers.append(message)
        elif not self._accepts_events:  # it accepts only JSON, which holds the answer alone
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
        await self._stream.wait_drained()  # the call counts as running until its client has the answer

    def _finish_if_sent(self) -> None:
        """Close the stream after the last answer, if no event is still waiting to be sent."""
        if self.is_complete and not self._unsent_events:
            self._stream.finish()

    def _decide_format(self, *, stream: bool) -> None:
        if not self._format_decided.done():
            self.is_stream = stream
            self._format_decided.set_result(None)

    def to_stream_response(self) -> Response:
        """Return the response that sends events."""
        return event_stream_response(self._stream)

    def _send_buffered(self) -> None:
        """Send the messages that came before the stream was open."""
        buffered, self._buffered = self._buffered, []
        self._stream.write(b"".join(buffered))
        if self.is_complete:
            self._stream.finish()

    def check(self) -> str | None:
        """Send a keepalive if the answer takes long; disconnect a client that reads nothing."""
        self._checks += 1
        if self._stream.is_open:
            if self._stream.is_stuck():
                self._stream.abort()
                return SLOW
            self._stream.send_keepalive()
        elif self.is_stream:  # the connection was lost before the stream took it over
            self.abandon()
        elif self._checks > 1 and self._accepts_events:
            self._decide_format(stream=True)
        return None

    def terminate(self, error: MoleculeError) -> None:
        """End it, with an error response if nothing has been sent yet."""
        self.error = error
        if self._stream.is_open:
            self._stream.abort()
        else:
            self._decide_format(stream=False)
            self.abandon()

    def abandon(self) -> None:
        """Drop the pending requests and notify `on_abandoned`; the client no longer waits."""
        abandoned_ids, self._pending_ids = self._pending_ids, set()
        if abandoned_ids:
            self._on_abandoned(abandoned_ids)
        self.on_finished()

    def cancel_request(self, id_: RpcId) -> None:
        """Drop a request that the client has cancelled; it gets no answer."""
        if id_ not in self._pending_ids:
            return
        self._pending_ids.discard(id_)
        if not self._pending_ids and self._stream.is_open:
            self._finish_if_sent()
        elif not self._pending_ids:
            self._decide_format(stream=bool(self._buffered) and self._accepts_events)


class ServerStream:
    """Stream that a client has opened for messages of its session that answer no request."""

    def __init__(self, request: Request, credential: str, on_lost: Callable[[], None], limit: int) -> None:
        self.caller = request.caller
        self.credential = credential
        self.workspace_id = request.caller.id
        self._on_lost = on_lost
        self._checks = 0
        self._stream = ServerStreamConnection(on_lost, limit)

    def to_response(self) -> Response:
        """Return the response that sends events."""
        return event_stream_response(self._stream)

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a message, if the stream is open."""
        if self._stream.is_open:
            self._stream.send_now(format_event(message))
            await self._stream.wait_drained()

    def check(self) -> str | None:
        """Send a keepalive; disconnect a client that reads nothing."""
        self._checks += 1
        if self._stream.is_open:
            if self._stream.is_stuck() or not self._stream.send_now(_KEEPALIVE):
                self._stream.abort()
                return SLOW
        elif self._checks > 1:  # the connection was lost before the stream took it over
            self._on_lost()
        return None

    def terminate(self, _error: MoleculeError) -> None:
        """End the stream."""
        if self._stream.is_open:
            self._stream.abort()
        else:
            self._on_lost()


_CURRENT: ContextVar[PostResponse] = ContextVar("outlet")


def current_response() -> PostResponse | None:
    """Return the response that the current task works on; None outside requests."""
    return _CURRENT.get(None)


@contextlib.contextmanager
def responding_to(post_response: PostResponse) -> Iterator[None]:
    """Make `post_response` the current response of this block and of tasks started in it."""
    token = _CURRENT.set(post_response)
    try:
        yield
    finally:
        _CURRENT.reset(token)
