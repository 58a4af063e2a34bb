"""The HTTP connection: uvicorn's, with the bounds and the repair it lacks.

- Headers are bounded in size and time, bodies in time. No timer is set for a request that arrives in one piece.
- A request that offers `Upgrade: h2c` (Java's client and curl --http2 do) is served as the HTTP/1.1 request it is;
  uvicorn 0.54 loses its body.
- What a client goes on sending after it was refused is thrown away up to a bound, so that it can still read the
  refusal, then the connection is cut.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from molecule_core.edges.problems import problem_body, problem_of
from molecule_core.ground.errors import BadHttp, BodyTooSlow, HeadersTooLarge, HeadersTooSlow, MoleculeError
from molecule_core.ground.limits import Limits

# Enough for a client that looks at the answer late, little enough to cost nothing.
_READ_AFTER_REFUSAL = 8 << 20
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}
_IDLE, _HEAD, _BODY = range(3)


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. `limits` is set on a subclass made by `protocol_with`."""

    limits: Limits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stage = _HEAD
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_stage = _IDLE
        self._head_size = 0
        self._discarded = 0
        self._h2c = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            too_large = self._head_size > self.limits.header_bytes
            self._refuse(HeadersTooLarge(limit=self.limits.header_bytes) if too_large else BadHttp())
            return
        if self._stage == _HEAD and self._head_size + len(getattr(self, "url", b"")) > self.limits.header_bytes:
            self._refuse(HeadersTooLarge(limit=self.limits.header_bytes))
        elif self._stage != _IDLE:
            self._watch()
        elif self._deadline is not None:
            self._unwatch()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
            self._serve_as_http1(data[upgrade.args[0] :])

    def _serve_as_http1(self, rest: bytes) -> None:
        """Starts over with a parser that sees the same request without the offer to upgrade."""
        lines = [self.parser.get_method(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in (b"upgrade", b"connection", b"http2-settings"):
                lines += [name, b": ", value, b"\r\n"]
        self._h2c = False
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"".join([*lines, b"\r\n", rest]))

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._stage, self._head_size = _HEAD, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self.limits.header_bytes:
            raise ValueError("the headers are too large")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and not self._should_upgrade():
            self._h2c = True
            return
        self._stage = _BODY
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > _READ_AFTER_REFUSAL:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._h2c:
            return
        self._stage, self._discarded = _IDLE, 0
        super().on_message_complete()

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Sets the deadline of the stage the request is in, once."""
        if self._deadline_stage == self._stage:
            return
        self._unwatch()
        self._deadline_stage = self._stage
        seconds = self.limits.header_seconds if self._stage == _HEAD else self.limits.body_seconds
        self._deadline = self.loop.call_later(seconds, self._overdue)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._deadline_stage = _IDLE

    def _overdue(self) -> None:
        if self._stage == _HEAD:
            self._refuse(HeadersTooSlow(seconds=self.limits.header_seconds))
        else:
            self._refuse(BodyTooSlow(seconds=self.limits.body_seconds))

    def _refuse(self, error: MoleculeError) -> None:
        """Answers without the application, and hangs up. A request that waits for its body is told to give up."""
        self._unwatch()
        if self.transport.is_closing():
            return
        waiting: RequestResponseCycle | None = self.cycle
        if waiting is None or waiting.response_complete or not waiting.response_started:
            body = problem_body(error)
            status = problem_of(error).status
            head = (
                b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head % (status, _REASONS[status], len(body)) + body)
        if waiting is not None:
            waiting.disconnected = True
            waiting.message_event.set()
        self.transport.close()


def protocol_with(limits: Limits) -> type[BoundedHttpProtocol]:
    """The connection class for one server's limits, as uvicorn's documented `http=` setting takes it."""
    return type("LimitedHttpProtocol", (BoundedHttpProtocol,), {"limits": limits})
