"""A board (`tests/tools/delegation_board.py`) behind a socket, for programs that make requests of their own;
it plays the operator's routes too."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from molecule_core.tools.spec import APPROVAL_HEADER, ToolError
from tests.tools.delegation_board import Board

PEER = {
    "id": "peer",
    "name": "Tea maker",
    "role": None,
    "status": "online",
    "parent_id": None,
    "active_tasks": 0,
}
_STATUS = {"not_found": 404, "delegation_limit": 429, "talk_denied": 403}


@contextlib.asynccontextmanager
async def behind_a_socket(board: Board) -> AsyncIterator[str]:
    """The address of a server that answers as the board does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                writer.write(await _answered(board, reader))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def _answered(board: Board, reader: asyncio.StreamReader) -> bytes:
    asked = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = asked.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    key = {name: headers[name] for name in ("idempotency-key", APPROVAL_HEADER) if name in headers}
    if path.startswith("/registry/"):
        return _response(200, [PEER])
    try:
        status, told = 200, await board.call(method, path, body=json.loads(data) if data else None, headers=key)
    except ToolError as error:
        status, told = _STATUS[error.code], {"error": error.text, "code": error.code}
    return _response(status, told)


def _response(status: int, told: object) -> bytes:
    body = json.dumps(told).encode()
    return (
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
