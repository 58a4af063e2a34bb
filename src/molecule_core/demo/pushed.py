"""An agent of the company that asks for nothing: its messages are brought to it, as to any A2A agent that is a service.

It listens on this machine alone, says where, and answers each push with what it has to say. One that stumbles fails at
the first push of each delegation, as a service does whose proxy restarts.

Above: agent, which starts it. Below: saying, which answers; presence.
"""

import asyncio
import http.client
import io
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.crafts import quoted
from molecule_core.demo.mail import card_of, pushed_message
from molecule_core.demo.model import Message, Posting
from molecule_core.demo.presence import Presence, SeatGone
from molecule_core.demo.saying import answer
from molecule_core.ground.clock import Clock

_NEAREST = "127.0.0.1"
_READ_BYTES = 64 << 10
# More than any message has; who sends more, or takes longer, is not our server.
_MOST_BYTES = 8 << 20
_DIGITS = 10
_READ_SECONDS = 10.0
_AGAIN_SECONDS = 1.0


class Request(Struct):
    """What was read of a request; without a body it is none."""

    activity_id: str = ""
    attempt: str = ""
    body: bytes = b""


class Pushed:
    """Keeps one seat."""

    def __init__(self, posting: Posting, api: Api, clock: Clock) -> None:
        self._seat = posting.seat
        self._id = posting.workspace_id
        self._api = api
        self._clock = clock
        self._presence = Presence(self._id, api, clock)

    async def run(self, seated: Callable[[], None]) -> None:
        """Listens, says where, and says that it is there; `seated` is called in between. Ends only by raising
        SeatGone."""
        server = await asyncio.start_server(self._serve, _NEAREST, 0, limit=_READ_BYTES)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await self._register(f"http://{_NEAREST}:{port}/a2a")
            seated()
            await self._presence.beat()

    async def _register(self, url: str) -> None:
        """Asks until the server is there and has time. Raises SeatGone."""
        told = {"id": self._id, "agent_card": card_of(self._seat), "delivery_mode": "push", "url": url}
        while True:
            try:
                await self._api.post("/registry/register", told)
                return
            except NoAnswer:
                pass
            except ApiError as error:
                if not error.passes:
                    raise SeatGone(str(error)) from error
            await self._clock.wait(asyncio.get_running_loop().create_future(), _AGAIN_SECONDS)

    # -- one push ------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on each connection."""
        try:
            request = Request()
            if await self._clock.wait(_read(reader, request), _READ_SECONDS) and request.body:
                writer.write(_response(*await self._answered(request)))
                with suppress(OSError):
                    await writer.drain()
        finally:
            writer.close()

    async def _answered(self, request: Request) -> tuple[HTTPStatus, dict[str, Any]]:
        message = _message(request)
        if message is None:
            return HTTPStatus.BAD_REQUEST, {"error": {"message": "this is no message"}}
        if self._seat.stumbles and message.is_delegated and message.attempt <= 1:
            return HTTPStatus.BAD_GATEWAY, {"error": {"message": "the proxy before this agent restarts"}}
        if not message.wants_answer:
            return HTTPStatus.OK, {}
        self._presence.does(quoted(message.text))
        await self._clock.wait(asyncio.get_running_loop().create_future(), self._seat.seconds)
        self._presence.does(None)
        said = {"kind": "text", "text": answer(self._seat, message, ())}
        result = {"kind": "message", "role": "agent", "messageId": f"answer-{message.id}", "parts": [said]}
        return HTTPStatus.OK, {"jsonrpc": "2.0", "id": None, "result": result}


async def _read(reader: asyncio.StreamReader, request: Request) -> None:
    """Reads a request as the server of the company makes it: with a length. Of any other one nothing is taken."""
    with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, http.client.HTTPException, OSError):
        head = io.BytesIO(await reader.readuntil(b"\r\n\r\n"))
        head.readline()
        headers = http.client.parse_headers(head)
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and len(length) < _DIGITS and int(length) <= _MOST_BYTES:
            request.activity_id = headers.get("x-molecule-activity", "")
            request.attempt = headers.get("x-molecule-attempt", "")
            request.body = await reader.readexactly(int(length))


def _message(request: Request) -> Message | None:
    """The message that is pushed: its id and which attempt this is stand in the headers."""
    number = request.attempt
    if not (request.activity_id and number.isascii() and number.isdigit() and len(number) < _DIGITS):
        return None
    try:
        body = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return None
    return pushed_message(body, id=request.activity_id, attempt=int(number))


def _response(status: HTTPStatus, body: dict[str, Any]) -> bytes:
    content = msgspec.json.encode(body)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return head.encode() + f"content-length: {len(content)}\r\n\r\n".encode() + content
