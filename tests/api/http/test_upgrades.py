"""The offer of h2c, which Java's client and `curl --http2` make with a first request: it is declined, its body kept."""

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from testing.raw_http import Reply, chunk, request, wire
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement

BODY = b'{"name": "Over h2c"}'
OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"}


def _offered(body: bytes = BODY, **more: str) -> bytes:
    headers = {**OFFER, "Content-Length": str(len(body)), **more}
    return request("POST", "/orgs", body, token=ADMIN_TOKEN, headers=headers)


@requirement("S14", "W1")
async def test_a_request_that_offers_h2c_is_served_with_its_body(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(_offered())
        reply = await connection.reply()
        assert (reply.status, reply.json["name"]) == (201, "Over h2c")
        assert (await connection.ask("GET", "/orgs", token=ADMIN_TOKEN)).json[-1]["name"] == "Over h2c"


@requirement("S14")
async def test_plain_uvicorn_loses_the_body_of_the_same_bytes() -> None:
    """The control: what our own connection class is for. If this fails, uvicorn has been mended."""
    assert json.loads((await _ask_plain_uvicorn(_offered())).body) == {"body": ""}
    without = request("POST", "/orgs", BODY, token=ADMIN_TOKEN)
    assert json.loads((await _ask_plain_uvicorn(without)).body) == {"body": BODY.decode()}


@requirement("S14")
@pytest.mark.parametrize("cut", ["head", "middle of the head", "first byte of the body", "every byte"])
async def test_the_body_is_whole_wherever_the_network_cuts(plain: Running, cut: str) -> None:
    data = _offered()
    head = data.index(b"\r\n\r\n") + 4
    places = {"head": [head], "middle of the head": [40], "first byte of the body": [head + 1]}
    cuts = [0, *places.get(cut, list(range(1, len(data)))), len(data)]
    async with wire(plain.port) as connection:
        for start, end in itertools.pairwise(cuts):
            await connection.send(data[start:end])
            assert (await _peace(plain)) == 200
        assert (await connection.reply()).json["name"] == "Over h2c"


async def _peace(server: Running) -> int:
    """Another client's request in between: after it, what was sent before has been read."""
    async with wire(server.port) as connection:
        return (await connection.ask("GET", "/health")).status


@requirement("S14")
async def test_a_chunked_body_is_kept_too(plain: Running) -> None:
    async with wire(plain.port) as connection:
        head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={**OFFER, "Transfer-Encoding": "chunked"})
        await connection.send(head + chunk(BODY[:5]) + chunk(BODY[5:]) + chunk(b""))
        assert (await connection.reply()).status == 201


@requirement("S14")
async def test_offers_in_a_row_are_each_declined_and_served(plain: Running) -> None:
    bodies = [b'{"name": "Offer %d"}' % n for n in range(5)]
    async with wire(plain.port) as connection:
        await connection.send(b"".join(_offered(body) for body in bodies))
        assert [(await connection.reply()).json["name"] for _ in bodies] == [f"Offer {n}" for n in range(5)]


@requirement("S14", "P6")
async def test_an_offer_opens_nothing_that_is_closed(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(request("POST", "/orgs", BODY, headers={**OFFER, "Content-Length": str(len(BODY))}))
        assert (await connection.reply()).status == 401
        await connection.send(_offered(Host="evil.example"))
        assert (await connection.reply()).status == 421
        await connection.send(_offered(b" " * (1 << 20) + BODY))
        assert (await connection.reply()).status == 413
    assert len(await plain.admin.get("/orgs")) == 1


@requirement("S14")
async def test_an_offer_of_something_else_is_declined_too(plain: Running) -> None:
    for protocol in ("websocket", "TLS/1.3", "nonsense"):
        async with wire(plain.port) as connection:
            headers = {"Connection": "Upgrade", "Upgrade": protocol, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
            reply = await connection.ask("GET", "/health", headers=headers)
            assert (reply.status, reply.json["status"]) == (200, "ok"), protocol


@requirement("S14")
async def test_a_wish_to_close_is_heard_beside_an_offer(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(_offered(Connection="Upgrade, HTTP2-Settings, close"))
        assert (await connection.reply()).headers.get("connection") == "close"


async def _echo(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Any) -> None:
    """An ASGI application that answers with the body it was given."""
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    answer = json.dumps({"body": body.decode()}).encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def _plain_uvicorn() -> AsyncIterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(_echo, http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([listener]))
        listener.listen()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                await serving


async def _ask_plain_uvicorn(data: bytes) -> Reply:
    async with _plain_uvicorn() as port, wire(port) as connection:
        await connection.send(data)
        return await connection.reply()
