"""The HTTP connection: llhttp parses, one write answers.

A request is read whole (a route that `streams` reads its body itself, piece by piece) and handed to the application
without an ASGI scope, messages or, on the hot path, a task: that is what makes a durable message affordable
(docs/decisions/0004 has the figures). Bounded here: headers in size and time, bodies in size and time, idle connections
and unread answers in time, pipelined requests in number. One timer a connection, none a request.

Above: the listener, the socket. Below: `edges/app.py`.
"""

import asyncio
from collections import deque
from typing import cast

import httptools

from molecule_core.edges.app import App, refusal
from molecule_core.edges.bodies import Body
from molecule_core.edges.crowd import Crowd
from molecule_core.edges.deadlines import Deadline, Unread
from molecule_core.edges.exchange import Exchange, head_without_upgrade, wants_websocket
from molecule_core.edges.rates import Visitor
from molecule_core.edges.routes import Answer, Taker
from molecule_core.ground import errors
from molecule_core.ground.limits import Limits

# What a client still sends after its refusal is thrown away so long, so that it gets to read the refusal.
_LINGER_SECONDS = 2.0
# More requests than this in one go, unanswered, and reading pauses until the client has taken some answers.
_MOST_PIPELINED = 16
_IDLE, _HEAD, _BODY, _BUSY = range(4)


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, app: App, limits: Limits, crowd: Crowd) -> None:
        self.app = app
        self.limits = limits
        self._crowd = crowd
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[Exchange] = deque()
        self._reading: Exchange | None = None
        self._closing = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._unfinished = 0
        self._discarded = 0
        self._deaf = False
        self._proceeding = False
        self._upgrade_ignored = False
        self._upgrading = False
        self._early: list[bytes] = []
        self._stage = _HEAD
        self._unread: Unread | None = None
        self._deadline = Deadline(asyncio.get_running_loop(), self._on_deadline)

    # -- the transport's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self._visitor = Visitor(transport.get_extra_info("peername"), self.app.rates)
        self._crowd.connections.add(self)
        self._watch()
        if len(self._crowd.connections) > self.limits.connections:
            self._hang_up(errors.ServerBusy())

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went: what works on its answers may stop; what was accepted stays accepted."""
        self._crowd.connections.discard(self)
        self._closing = True
        self._deadline.stop()
        for exchange in self._queue:
            exchange.give_up()
        self._queue.clear()

    def pause_writing(self) -> None:
        """The client reads slowly: take no more of its requests, and make no more answers."""
        self._transport.pause_reading()
        self._unread = Unread(self._transport)
        self._deadline.begin()
        self._watch()

    def resume_writing(self) -> None:
        """The client has read."""
        self._unread = None
        if not self._transport.is_closing():
            if len(self._queue) <= _MOST_PIPELINED:
                self._transport.resume_reading()
            self._proceed()

    def shutdown(self) -> None:
        """The server stops: whoever waits for nothing is let go, the others after their answer."""
        self._closing = True
        for exchange in self._queue:
            exchange.keep_alive = False
        if not self._queue:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._upgrading:
            self._keep_early(data)
            return
        if self._deaf:
            self._discard(len(data))
            return
        in_head = self._stage == _HEAD
        try:
            self._feed(data)
        except httptools.HttpParserError:
            too_large = self._head_size > self.limits.header_bytes
            self._broken(errors.HeadersTooLarge(limit=self.limits.header_bytes) if too_large else errors.BadHttp())
            return
        if self._stage == _HEAD:
            # The parser keeps a line to itself until it ends, so what came is counted here too.
            self._unfinished = self._unfinished + len(data) if in_head else 0
            if self._unfinished > self.limits.header_bytes:
                self._broken(errors.HeadersTooLarge(limit=self.limits.header_bytes))
                return
        else:
            self._unfinished = 0
        if self._stage in (_HEAD, _BODY):
            self._watch()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            (self._keep_early if self._upgrading else self._serve_without_upgrade)(data[upgrade.args[0] :])

    def _keep_early(self, data: bytes) -> None:
        """What a client says before its WebSocket has been opened waits for that; it has no reason to say much."""
        if data:
            self._early.append(data)
            if sum(map(len, self._early)) > self.limits.frame_bytes:
                self._transport.abort()

    def _serve_without_upgrade(self, rest: bytes) -> None:
        """Starts over with a parser that sees the same request without the offer to upgrade. (Java's client and
        curl --http2 offer h2c with every first request; uvicorn 0.54 loses the body of such a request.)"""
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if method == b"CONNECT":  # asks for a tunnel, and would do so again
            self._broken(errors.BadHttp())
            return
        head = head_without_upgrade(method, self._url, version, self._headers)
        self._upgrade_ignored = False
        self._parser = httptools.HttpRequestParser(self)
        self._feed(head + rest)

    def _broken(self, error: errors.MoleculeError) -> None:
        """What comes now cannot be understood; what came before is still answered."""
        is_half = self._reading is not None and not self._reading.answered and self._queue[-1] is self._reading
        unfinished = self._queue.pop() if is_half else None
        self._deaf = True
        if self._queue:
            self._reading = None
            if self._queue[-1].keep_alive:  # nobody answers what comes behind a wish to close
                said = Exchange(self._visitor, keep_alive=False)
                said.refused, said.complete = refusal(error), True
                self._queue.append(said)
            return
        if unfinished is not None:
            self._queue.append(unfinished)
        self._hang_up(error, linger=True)

    def _discard(self, size: int) -> None:
        """What nobody reads any more is thrown away, up to a bound."""
        self._discarded += size
        if self._discarded > self.limits.refused_bytes:  # control: refused-body-limit
            self._transport.abort()

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request starts."""
        self._url = b""
        self._headers = []
        self._head_size = 0
        self._enter(_HEAD)

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count_head(len(name) + len(value))
        self._headers.append((name.lower(), value))

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.limits.header_bytes:
            raise ValueError("the headers are too large")  # the parser stops, and data_received says so

    def on_headers_complete(self) -> None:
        """Who is it, and may they? Said before a byte of the body is kept."""
        if self._parser.should_upgrade():
            opens = wants_websocket(self._headers) and self.app.upgrades(self._parser.get_method(), self._url)
            self._upgrading = opens and not self._queue
            if not self._upgrading:
                self._upgrade_ignored = True
                return
        keep_alive = self._parser.get_http_version() != "1.0" and self._parser.should_keep_alive()
        method, stays = self._parser.get_method(), not (self._closing or self._upgrading)
        exchange = Exchange(self._visitor, keep_alive=keep_alive and stays, head_only=method == b"HEAD")
        self._reading = exchange
        self._queue.append(exchange)
        self._stage = _BODY
        try:
            exchange.call = self.app.admit(method, self._url, self._headers, self._visitor)
        except errors.MoleculeError as error:
            self._refuse(exchange, error)
            return
        expects = b"expect" in exchange.call.headers and len(self._queue) == 1
        if exchange.call.route.streams:
            exchange.stream = exchange.call.stream = Body(self._transport, expects=expects)
            self._proceed()
        elif expects:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        exchange = self._reading
        if exchange is None:
            return
        exchange.size += len(body)
        limit = self.limits.body_bytes if exchange.stream is None else self.limits.upload_bytes
        if exchange.refused is not None or exchange.answered:
            self._discard(len(body))
        elif exchange.size > limit:  # control: body-limit
            exchange.give_up()
            self._refuse(exchange, errors.BodyTooLarge(limit=limit))
        elif exchange.stream is None:
            exchange.body.append(body)
        else:
            exchange.stream.feed(body)
            # A file may take longer than a message, but each part of it that is as large as one no longer.
            if exchange.size % self.limits.body_bytes < len(body):
                self._deadline.begin()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._upgrade_ignored:
            return
        exchange, self._reading = self._reading, None
        if exchange is None:
            return
        exchange.complete = True
        if exchange.stream is not None:
            exchange.stream.end()
        self._discarded = 0
        self._enter(_BUSY)
        if exchange.answered:
            self._finish(exchange)
            return
        if len(self._queue) > _MOST_PIPELINED:
            self._transport.pause_reading()
        self._proceed()

    # -- answers -------------------------------------------------------------------------------------------------------

    def _refuse(self, exchange: Exchange, error: errors.MoleculeError) -> None:
        """Settles an exchange before its handler is asked; the answer leaves when it is its turn."""
        exchange.refused = refusal(error, self._visitor.standing)
        if self._queue[0] is exchange:
            self._write(exchange, exchange.refused)

    def _proceed(self) -> None:
        """Answers what is whole, in the order it came. (A loop, not a chain of calls: thousands may be waiting.)"""
        if self._proceeding:
            return
        self._proceeding = True
        try:
            while self._unread is None and self._queue and self._queue[0].ready:
                self._start(self._queue[0])
        finally:
            self._proceeding = False
        if not self._queue and self._stage == _BUSY and not self._transport.is_closing():
            self._enter(_IDLE)
            self._watch()

    def _start(self, exchange: Exchange) -> None:
        exchange.started = True
        if exchange.refused is not None or exchange.call is None:
            self._write(exchange, exchange.refused or refusal(errors.BadHttp()))
            return
        exchange.call.body = b"".join(exchange.body)  # of one piece, that piece
        task = self.app.respond(exchange.call, lambda answer: self._write(exchange, answer))
        if task is not None and not exchange.answered:
            exchange.task = task
            self._crowd.tasks.add(task)
            task.add_done_callback(self._crowd.tasks.discard)

    def _write(self, exchange: Exchange, answer: Answer) -> None:
        """Sends an answer in one piece."""
        exchange.answered = True
        if exchange.stream is not None:
            exchange.stream.close()
        if self._transport.is_closing():
            return
        self.app.answered(exchange.call, answer.status, self._deadline.elapsed())
        if answer.take is not None:
            self._hand_over(answer.take, exchange.rate(answer))
            return
        self._queue.popleft()  # control: answered-dropped
        if len(self._queue) == _MOST_PIPELINED and self._unread is None:
            self._transport.resume_reading()
        head = exchange.head(answer, self._crowd.date())
        self._transport.write(head if exchange.head_only else head + answer.body)
        if exchange.complete:
            self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        """The answer is out and the request is in: on to the next one."""
        if exchange.keep_alive:
            self._proceed()
        else:
            self._transport.close()

    def _hand_over(self, take: Taker, rate: bytes) -> None:
        """From here on another protocol speaks on this connection."""
        self._deadline.stop()
        self._crowd.connections.discard(self)
        self._queue.clear()
        self._transport.resume_reading()
        take(self._transport, self._crowd.connections, b"".join(self._early), rate)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _enter(self, stage: int) -> None:
        self._stage = stage
        self._deadline.begin()

    def _watch(self) -> None:
        self._deadline.watch(self._patience())

    def _patience(self) -> int:
        if self._unread is not None:
            return self.limits.unread_seconds  # control: unread-timeout
        if self._stage == _HEAD:
            return self.limits.header_seconds  # control: header-timeout
        return self.limits.body_seconds if self._stage == _BODY else self.limits.idle_seconds

    def _on_deadline(self) -> None:
        """Late, or only early for the stage that came since? A request that is being answered has no deadline here, and
        a client whom we keep waiting is not slow."""
        if self._stage == _BUSY and self._unread is None:
            return
        if self._unread is not None and self._deadline.has_passed(self._patience()):
            if self._unread.is_stuck():
                self._transport.abort()
                return
            self._deadline.begin()
        if self._reading is not None and self._reading.stream is not None and self._reading.stream.holds:
            self._deadline.begin()
        if not self._deadline.has_passed(self._patience()):
            self._watch()
        elif self._stage == _IDLE or (self._stage == _HEAD and self._head_size == 0):
            self._transport.close()
        elif self._stage == _HEAD:
            self._hang_up(errors.HeadersTooSlow(seconds=self.limits.header_seconds))
        else:
            self._hang_up(errors.BodyTooSlow(seconds=self.limits.body_seconds))

    def _hang_up(self, error: errors.MoleculeError, *, linger: bool = False) -> None:
        """Says why, if nothing else has been or is being said, and closes: at once, or, for a client that is still
        sending, once it has had time to read why (closing earlier would take the refusal from it)."""
        exchange = self._reading or (self._queue[0] if self._queue else Exchange(self._visitor, keep_alive=False))
        exchange.give_up()
        settled = exchange.answered or exchange.complete or len(self._queue) > 1
        if not self._transport.is_closing() and not settled:
            exchange.keep_alive = False
            answer = refusal(error)
            self._transport.write(exchange.head(answer, self._crowd.date()) + answer.body)
        if not linger or self._transport.is_closing():
            self._transport.close()
            return
        self._deaf = True
        self._stage = _BUSY
        self._deadline.end_with(self._transport.abort, _LINGER_SECONDS)
        self._transport.write_eof()
