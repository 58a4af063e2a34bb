"""A demo agent in push mode: messages are pushed to it, as to any A2A agent that is a service.

It listens on the loopback address, registers its URL and answers each push. One that stumbles fails the first push of
each delegation, as a service does while its proxy restarts."""

import asyncio
import http.client
import io
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.demo.api_rows import build_agent_card, parse_pushed_message
from molecule_core.demo.heartbeat import HeartbeatSender, WorkspaceLostError
from molecule_core.demo.model import AgentAssignment, DemoMessage
from molecule_core.demo.replies import answer_text
from molecule_core.demo.skills import quote_start

_LOOPBACK = "127.0.0.1"
_READ_BYTES = 64 << 10
# 8 MiB is more than any message has; larger or slower requests are not from the server.
_MAX_BYTES = 8 << 20
_MAX_DIGITS = 10
_READ_SECONDS = 10.0
_RETRY_SECONDS = 1.0


class PushRequest(Struct):
    """The parts of a request. An empty body means that it was invalid."""

    activity_id: str = ""
    attempt: str = ""
    body: bytes = b""


class PushAgent:
    """Agent of one workspace."""

    def __init__(self, assignment: AgentAssignment, api: ApiClient, clock: Clock) -> None:
        self._seat = assignment.seat
        self._id = assignment.workspace_id
        self._api = api
        self._clock = clock
        self._heartbeat = HeartbeatSender(self._id, api, clock)

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Listen, register, call `on_ready`, then send heartbeats for ever. Ends only by raising SeatLostError."""
        server = await asyncio.start_server(self._serve_connection, _LOOPBACK, 0, limit=_READ_BYTES)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await self._register(f"http://{_LOOPBACK}:{port}/a2a")
            on_ready()
            await self._heartbeat.send_heartbeats()

    async def _register(self, url: str) -> None:
        """Register the URL, retrying until the server answers. Raises SeatLostError."""
        body = {"id": self._id, "agent_card": build_agent_card(self._seat), "delivery_mode": "push", "url": url}
        while True:
            try:
                await self._api.post("/registry/register", body)
                return
            except NoAnswerError:
                pass
            except ApiError as error:
                if not error.is_transient:
                    raise WorkspaceLostError(str(error)) from error
            await self._clock.wait(asyncio.get_running_loop().create_future(), _RETRY_SECONDS)

    # -- push requests -------------------------------------------------------------------------------------------------

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request on each connection."""
        try:
            request = PushRequest()
            if await self._clock.wait(_read_request(reader, request), _READ_SECONDS) and request.body:
                writer.write(_encode_response(*await self._answer_request(request)))
                with suppress(OSError):
                    await writer.drain()
        finally:
            writer.close()

    async def _answer_request(self, request: PushRequest) -> tuple[HTTPStatus, dict[str, Any]]:
        message = _parse_request(request)
        if message is None:
            return HTTPStatus.BAD_REQUEST, {"error": {"message": "this is not a message"}}
        if self._seat.stumbles and message.is_delegated and message.attempt <= 1:
            return HTTPStatus.BAD_GATEWAY, {"error": {"message": "the proxy of this agent is restarting"}}
        if not message.wants_answer:
            return HTTPStatus.OK, {}
        self._heartbeat.set_current_task(quote_start(message.text))
        await self._clock.wait(asyncio.get_running_loop().create_future(), self._seat.seconds)
        self._heartbeat.set_current_task(None)
        part = {"kind": "text", "text": answer_text(self._seat, message, ())}
        result = {"kind": "message", "role": "agent", "messageId": f"answer-{message.id}", "parts": [part]}
        return HTTPStatus.OK, {"jsonrpc": "2.0", "id": None, "result": result}


async def _read_request(reader: asyncio.StreamReader, request: PushRequest) -> None:
    """Read a request with a content length, as the server sends it. Any other is ignored."""
    with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, http.client.HTTPException, OSError):
        head = io.BytesIO(await reader.readuntil(b"\r\n\r\n"))
        head.readline()
        headers = http.client.parse_headers(head)
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and len(length) < _MAX_DIGITS and int(length) <= _MAX_BYTES:
            request.activity_id = headers.get("x-molecule-activity", "")
            request.attempt = headers.get("x-molecule-attempt", "")
            request.body = await reader.readexactly(int(length))


def _parse_request(request: PushRequest) -> DemoMessage | None:
    """Parse the pushed message. Its id and the number of the attempt are in the headers."""
    number = request.attempt
    if not (request.activity_id and number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS):
        return None
    try:
        body = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return None
    return parse_pushed_message(body, id=request.activity_id, attempt=int(number))


def _encode_response(status: HTTPStatus, body: dict[str, Any]) -> bytes:
    content = msgspec.json.encode(body)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return head.encode() + f"content-length: {len(content)}\r\n\r\n".encode() + content
