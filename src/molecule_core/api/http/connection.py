"""HTTP/1.1 connection: llhttp parses, each response is one write.

A request is read completely (a streamed body is read in chunks by its handler) and passed to the application without an
ASGI scope, messages or, on the hot path, a task; docs/explanation/http-server.md has the measurements. `api/asgi/`
runs the same application behind other servers. Bounded here:
headers and bodies in size and time, idle connections and unread responses in time, pipelined requests in number.
There is one timer per connection, none per request.

Called by the listener; calls `api/application.py`.
"""

import asyncio
from collections import deque
from typing import Generic, cast

import httptools

from molecule_core.api.http.application_protocol import HttpApplication, R
from molecule_core.api.http.connection_registry import ConnectionRegistry
from molecule_core.api.http.deadlines import Deadline, WriteBacklog
from molecule_core.api.http.held_connection import EventStreamConnection
from molecule_core.api.http.request_body import StreamingBody
from molecule_core.api.http.request_cycle import RequestCycle, head_without_upgrade, offers_websocket
from molecule_core.api.http.response import EventStream, Response, StreamedBody, WebSocketUpgrade
from molecule_core.api.http.response_head import render_stream_head
from molecule_core.api.http.streaming_response import StreamingResponse
from molecule_core.api.http.websocket_connection import ServerWebSocket
from molecule_core.api.http.websocket_protocol import handshake_response
from molecule_core.common import errors
from molecule_core.common.limits import Limits

# Data after a rejection is discarded for this long, so that the client gets to read the rejection.
_LINGER_SECONDS = 2.0
# Above this many unanswered requests, reading pauses until the client has received some responses.
_MAX_PIPELINED = 16
_IDLE, _HEAD, _BODY, _BUSY = range(4)


class Connection(asyncio.Protocol, Generic[R]):
    """Server side of one client connection."""

    def __init__(self, application: HttpApplication[R], limits: Limits, registry: ConnectionRegistry) -> None:
        self.application = application
        self.limits = limits
        self._registry = registry
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[RequestCycle[R]] = deque()
        self._current: RequestCycle[R] | None = None
        self._closing = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._unparsed_bytes = 0
        self._discarded_bytes = 0
        self._discarding = False
        self._is_processing = False
        self._upgrade_ignored = False
        self._upgrading = False
        self._upgrade_buffer: list[bytes] = []
        self._stage = _HEAD
        self._write_backlog: WriteBacklog | None = None
        self._deadline = Deadline(asyncio.get_running_loop(), self._on_deadline)

    # -- transport callbacks -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or reject it if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self._client = self.application.client_address(transport.get_extra_info("peername"))
        self._registry.connections.add(self)
        self._deadline.arm(self._stage_seconds())
        if len(self._registry.connections) > self.limits.connections:
            self._close_with_error(errors.ServerBusy())

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the running handlers. What they have committed stays committed."""
        self._registry.connections.discard(self)
        self._closing = True
        self._deadline.stop()
        for cycle in self._queue:
            cycle.abandon()
        self._queue.clear()

    def pause_writing(self) -> None:
        """Stop reading requests and starting handlers while the client reads slowly."""
        self._transport.pause_reading()
        self._write_backlog = WriteBacklog(self._transport)
        self._deadline.restart()
        self._deadline.arm(self._stage_seconds())

    def resume_writing(self) -> None:
        """Resume reading requests and starting handlers: the client has read."""
        self._write_backlog = None
        if not self._transport.is_closing():
            if len(self._queue) <= _MAX_PIPELINED:
                self._transport.resume_reading()
            self._process_queue()

    def shutdown(self) -> None:
        """Close the connection at once if it is idle, otherwise after its last response."""
        self._closing = True
        for cycle in self._queue:
            cycle.keep_alive = False
        if not self._queue:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, without its response."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._upgrading:
            self._buffer_upgrade_data(data)
            return
        if self._discarding:
            self._discard(len(data))
            return
        in_head = self._stage == _HEAD
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._handle_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            too_large = self._head_size > self.limits.header_bytes
            self._protocol_error(
                errors.HeadersTooLarge(limit=self.limits.header_bytes) if too_large else errors.BadHttp()
            )
            return
        if self._stage == _HEAD:
            # The parser buffers an incomplete line itself, so its bytes are counted here too.
            self._unparsed_bytes = self._unparsed_bytes + len(data) if in_head else 0
            if self._unparsed_bytes > self.limits.header_bytes:
                self._protocol_error(errors.HeadersTooLarge(limit=self.limits.header_bytes))
                return
        else:
            self._unparsed_bytes = 0
        if self._stage in (_HEAD, _BODY):
            self._deadline.arm(self._stage_seconds())

    def _buffer_upgrade_data(self, data: bytes) -> None:
        """Buffer bytes that arrive before the WebSocket is open, at most `frame_bytes`."""
        if data:
            self._upgrade_buffer.append(data)
            if sum(map(len, self._upgrade_buffer)) > self.limits.frame_bytes:
                self._transport.abort()

    def _handle_upgrade(self, rest: bytes) -> None:
        """Upgrade to WebSocket, or parse the request again without its upgrade offer. `rest`: what follows its head.

        Java's client and curl --http2 offer h2c with every first request; uvicorn 0.54 loses its body."""
        if self._upgrading:
            self._buffer_upgrade_data(rest)
            return
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if method == b"CONNECT":  # a tunnel: a second parse would end here again
            self._protocol_error(errors.BadHttp())
            return
        head = head_without_upgrade(method, self._url, version, self._headers)
        self._upgrade_ignored = False
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    def _protocol_error(self, error: errors.MoleculeError) -> None:
        """Reject unparsable input after the requests before it have been answered."""
        is_half = self._current is not None and not self._current.is_answered and self._queue[-1] is self._current
        unfinished = self._queue.pop() if is_half else None
        self._discarding = True
        if self._queue:
            self._current = None
            if self._queue[-1].keep_alive:  # after `Connection: close` nothing more is answered
                error_cycle = RequestCycle[R](self._client, keep_alive=False)
                error_cycle.rejection, error_cycle.is_complete = self.application.error_response(error), True
                self._queue.append(error_cycle)
            return
        if unfinished is not None:
            self._queue.append(unfinished)
        self._close_with_error(error, linger=True)

    def _discard(self, size: int) -> None:
        """Discard unneeded input; abort the connection past `refused_bytes`."""
        self._discarded_bytes += size
        if self._discarded_bytes > self.limits.refused_bytes:  # control: refused-body-limit
            self._transport.abort()

    # -- parser callbacks ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start a request."""
        self._url = b""
        self._headers = []
        self._head_size = 0
        self._stage = _HEAD
        self._deadline.restart()

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a header. Raises ValueError if the headers are too large."""
        self._count_head(len(name) + len(value))
        self._headers.append((name.lower(), value))

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.limits.header_bytes:
            raise ValueError("the headers are too large")  # stops the parser; `data_received` then rejects the request

    def on_headers_complete(self) -> None:
        """Authorize the request, before any of its body is buffered."""
        if self._parser.should_upgrade():
            is_websocket = offers_websocket(self._headers) and self.application.is_websocket_route(
                self._parser.get_method(), self._url
            )
            self._upgrading = is_websocket and not self._queue
            if not self._upgrading:
                self._upgrade_ignored = True
                return
        keep_alive = self._parser.get_http_version() != "1.0" and self._parser.should_keep_alive()
        method, stays_open = self._parser.get_method(), not (self._closing or self._upgrading)
        cycle: RequestCycle[R] = RequestCycle(
            self._client, keep_alive=keep_alive and stays_open, head_only=method == b"HEAD"
        )
        self._current = cycle
        self._queue.append(cycle)
        self._stage = _BODY
        try:
            cycle.request = self.application.authorize(method, self._url, self._headers, self._client)
        except errors.MoleculeError as error:
            self._reject(cycle, error)
            return
        expects = b"expect" in cycle.request.headers and len(self._queue) == 1
        if cycle.request.route.streams_body:
            cycle.body_stream = cycle.request.body_stream = StreamingBody(self._transport, expects_continue=expects)
            self._process_queue()
        elif expects:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Append a part of the body."""
        cycle = self._current
        if cycle is None:
            return
        cycle.body_size += len(body)
        limit = self.limits.body_bytes if cycle.body_stream is None else self.limits.upload_bytes
        if cycle.rejection is not None or cycle.is_answered:
            self._discard(len(body))
        elif cycle.body_size > limit:  # control: body-limit
            cycle.abandon()
            self._reject(cycle, errors.BodyTooLarge(limit=limit))
        elif cycle.body_stream is None:
            cycle.body.append(body)
        else:
            cycle.body_stream.feed(body)
            # An upload may take longer than a message, but each `body_bytes` of it must arrive within the body timeout.
            if cycle.body_size % self.limits.body_bytes < len(body):
                self._deadline.restart()

    def on_message_complete(self) -> None:
        """Complete the request."""
        if self._upgrade_ignored:
            return
        cycle, self._current = self._current, None
        if cycle is None:
            return
        cycle.is_complete = True
        if cycle.body_stream is not None:
            cycle.body_stream.end()
        self._discarded_bytes = 0
        self._stage = _BUSY
        self._deadline.restart()
        if cycle.is_answered:
            self._finish_cycle(cycle)
            return
        if len(self._queue) > _MAX_PIPELINED:
            self._transport.pause_reading()
        self._process_queue()

    # -- responses -----------------------------------------------------------------------------------------------------

    def _reject(self, cycle: RequestCycle[R], error: errors.MoleculeError) -> None:
        """Reject a request before its handler runs. The response is sent in its turn."""
        cycle.rejection = self.application.error_response(error, self._client.rate_status)
        if self._queue[0] is cycle:
            self._write_response(cycle, cycle.rejection)

    def _process_queue(self) -> None:
        """Handle complete requests in order. A loop, not recursion: thousands may be pending."""
        if self._is_processing:
            return
        self._is_processing = True
        try:
            while self._write_backlog is None and self._queue:
                cycle = self._queue[0]
                if cycle.is_started or not (cycle.is_complete or cycle.body_stream is not None):
                    break
                self._start_handler(cycle)
        finally:
            self._is_processing = False
        if not self._queue and self._stage == _BUSY and not self._transport.is_closing():
            self._stage = _IDLE
            self._deadline.restart()
            self._deadline.arm(self._stage_seconds())

    def _start_handler(self, cycle: RequestCycle[R]) -> None:
        cycle.is_started = True
        if cycle.rejection is not None or cycle.request is None:
            self._write_response(cycle, cycle.rejection or self.application.error_response(errors.BadHttp()))
            return
        cycle.request.body = b"".join(cycle.body)  # no copy if there is only one part
        task = self.application.dispatch(cycle.request, lambda response: self._write_response(cycle, response))
        if task is not None and not cycle.is_answered:
            cycle.task = task
            self._registry.tasks.add(task)
            task.add_done_callback(self._registry.tasks.discard)

    def _write_response(self, cycle: RequestCycle[R], response: Response) -> None:
        """Send a response in one write."""
        cycle.is_answered = True
        if cycle.body_stream is not None:
            cycle.body_stream.close()
        if self._transport.is_closing():
            return
        if response.takeover is not None:
            self._take_over(cycle, response)
            return
        self.application.record_response(cycle.request, response.status, self._deadline.elapsed())
        self._queue.popleft()  # control: answered-dropped
        if len(self._queue) == _MAX_PIPELINED and self._write_backlog is None:
            self._transport.resume_reading()
        head = cycle.head_bytes(response, self._registry.date_header())
        self._transport.write(head if cycle.head_only else head + response.body)
        if cycle.is_complete:
            self._finish_cycle(cycle)

    def _finish_cycle(self, cycle: RequestCycle[R]) -> None:
        """Continue with the next request, or close the connection."""
        if cycle.keep_alive:
            self._process_queue()
        else:
            self._transport.close()

    def _take_over(self, cycle: RequestCycle[R], response: Response) -> None:
        """Pass the connection on to a protocol that sends the rest of the response."""
        takeover, handshake = response.takeover, None
        if isinstance(takeover, WebSocketUpgrade):
            handshake = None if cycle.request is None else handshake_response(cycle.request.headers)
            if handshake is None:
                self._write_response(cycle, self.application.error_response(errors.WebSocketRequired()))
                return
        self.application.record_response(cycle.request, response.status, self._deadline.elapsed())
        self._deadline.stop()
        connections, rate = self._registry.connections, cycle.rate_header_bytes(response)
        connections.discard(self)
        self._queue.clear()
        self._transport.resume_reading()
        if isinstance(takeover, EventStream):
            head = render_stream_head(response, rate)
            EventStreamConnection(takeover.handler).take_over(self._transport, connections, head)
        elif isinstance(takeover, StreamedBody):
            StreamingResponse(
                response, takeover.source, self._registry.send_semaphore, stall_seconds=self.limits.body_seconds
            ).take_over(self._transport, connections, rate)
        elif isinstance(takeover, WebSocketUpgrade) and handshake is not None:
            head = handshake.removesuffix(b"\r\n") + rate + b"\r\n"
            received = b"".join(self._upgrade_buffer)
            ServerWebSocket(takeover.handler).take_over(self._transport, connections, head, received)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _stage_seconds(self) -> int:
        if self._write_backlog is not None:
            return self.limits.unread_seconds  # control: unread-timeout
        if self._stage == _HEAD:
            return self.limits.header_seconds  # control: header-timeout
        return self.limits.body_seconds if self._stage == _BODY else self.limits.idle_seconds

    def _on_deadline(self) -> None:
        """Close the connection if the deadline of its current stage has passed, otherwise arm the timer again.

        A request being handled has no deadline here, and time that the client waits for the server does not count."""
        if self._stage == _BUSY and self._write_backlog is None:
            return
        if self._write_backlog is not None and self._deadline.has_passed(self._stage_seconds()):
            if self._write_backlog.is_stuck():
                self._transport.abort()
                return
            self._deadline.restart()
        if self._current is not None and self._current.body_stream is not None and self._current.body_stream.has_unread:
            self._deadline.restart()
        if not self._deadline.has_passed(self._stage_seconds()):
            self._deadline.arm(self._stage_seconds())
        elif self._stage == _IDLE or (self._stage == _HEAD and self._head_size == 0):
            self._transport.close()
        elif self._stage == _HEAD:
            self._close_with_error(errors.HeadersTimeout(seconds=self.limits.header_seconds))
        else:
            self._close_with_error(errors.BodyTimeout(seconds=self.limits.body_seconds))

    def _close_with_error(self, error: errors.MoleculeError, *, linger: bool = False) -> None:
        """Send an error, unless a response has been sent or is in progress, and close the connection.

        `linger`: the client is still sending; an immediate close would keep it from reading the error."""
        cycle = self._current or (self._queue[0] if self._queue else RequestCycle(self._client, keep_alive=False))
        cycle.abandon()
        is_answered = cycle.is_answered or cycle.is_complete or len(self._queue) > 1
        if not self._transport.is_closing() and not is_answered:
            cycle.keep_alive = False
            response = self.application.error_response(error)
            self._transport.write(cycle.head_bytes(response, self._registry.date_header()) + response.body)
        if not linger or self._transport.is_closing():
            self._transport.close()
            return
        self._discarding = True
        self._stage = _BUSY
        self._deadline.run_after(self._transport.abort, _LINGER_SECONDS)
        self._transport.write_eof()
