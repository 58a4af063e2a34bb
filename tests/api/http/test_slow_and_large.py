"""Whoever sends too much, too slowly or not at all costs little, and is told so while it still listens."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.common.limits import Limits
from testing.live_clients import hand_made
from testing.ports import free_port
from testing.processes import serving
from testing.raw_http import Wire, ask, chunk, request, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement

_BODY = 1 << 20  # the default of limits.body_bytes
_HEAD = 64 << 10  # the default of limits.header_bytes
_UNHURRIED = 60  # longer than a test waits: with it, no other deadline can be the one that rang


@pytest.fixture
async def hurried(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that gives a request one second for its headers and two for its body."""
    limits = Limits(header_seconds=1, body_seconds=2, idle_seconds=_UNHURRIED)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        yield server


@requirement("S14")
@pytest.mark.parametrize(
    "started",
    [
        b"GET /health HTTP/1.1\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: a",
        b"GET /hea",
        b"POST /orgs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n",
    ],
)
async def test_headers_that_do_not_come_are_given_up_with_a_word(hurried: Running, started: bytes) -> None:
    async with wire(hurried.port) as connection:
        await connection.send(started)
        reply = await connection.reply()
        assert (reply.status, reply.json["code"], "1 seconds" in reply.error) == (408, "headers_too_slow", True)
        assert await connection.hung_up()


@requirement("S14")
async def test_headers_that_trickle_do_not_buy_time(hurried: Running) -> None:
    """A byte now and then is what a slow-loris sends: here as often as the loop turns."""
    async with wire(hurried.port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nX: ")
        trickling = asyncio.create_task(_trickle(connection, b"a"))
        assert (await connection.reply()).status == 408
        trickling.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await trickling


@requirement("S14")
async def test_a_body_that_trickles_does_not_buy_time(hurried: Running) -> None:
    async with wire(hurried.port) as connection:
        headers = {"Transfer-Encoding": "chunked"}
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        trickling = asyncio.create_task(_trickle(connection, chunk(b" ")))
        reply = await connection.reply()
        trickling.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await trickling
    assert (reply.status, reply.json["code"]) == (408, "body_too_slow")


async def _trickle(connection: Wire, piece: bytes) -> None:
    """Sends a piece about a hundred times a second: often enough to seem alive, too seldom to reach a limit of size."""
    now, due = asyncio.get_running_loop().time, 0.0
    while True:
        if now() >= due:
            await connection.send(piece)
            due = now() + 0.01
        await checkpoint()


@requirement("S14")
@pytest.mark.parametrize("encoding", [{"Content-Length": "100"}, {"Transfer-Encoding": "chunked"}])
async def test_a_body_that_does_not_come_is_given_up_with_a_word(hurried: Running, encoding: dict[str, str]) -> None:
    async with wire(hurried.port) as connection:
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=encoding))
        reply = await connection.reply()
        assert (reply.status, reply.json["code"], "2 seconds" in reply.error) == (408, "body_too_slow", True)
        assert await connection.hung_up()
    assert len(await hurried.admin.get("/orgs")) == 1


@requirement("S14")
async def test_a_refused_body_that_does_not_come_is_not_answered_a_second_time(hurried: Running) -> None:
    async with wire(hurried.port) as connection:
        await connection.send(request("POST", "/orgs", headers={"Content-Length": "100"}))
        assert (await connection.reply()).status == 401
        assert await connection.hung_up()


@requirement("S14")
async def test_a_slow_request_behind_a_quick_one_has_its_own_deadline(hurried: Running) -> None:
    async with wire(hurried.port) as connection:
        await connection.send(request("GET", "/health") + b"GET /health HTTP/1.1\r\n")
        assert [(await connection.reply()).status for _ in range(2)] == [200, 408]


@requirement("S14")
async def test_a_connection_that_never_says_anything_is_closed(hurried: Running) -> None:
    async with wire(hurried.port) as connection:
        assert await connection.hung_up()


@requirement("S14")
async def test_what_came_while_the_server_was_held_up_is_not_late(tmp_path: Path) -> None:
    port = free_port()
    async with serving(tmp_path / "state", port, MOLECULE_LIMIT_HEADER_SECONDS="1") as server, wire(port) as early:
        await early.send(request("GET", "/health"))
        await early.reply()
        async with wire(port) as connection:
            await early.send(request("GET", "/health"))
            await early.reply()  # by now the other one has been taken, and its time runs
            server.send(signal.SIGSTOP)
            await connection.send(request("GET", "/health"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await connection.reply()
            server.send(signal.SIGCONT)
            reply = await connection.reply()
    assert reply.status == 200


@requirement("S14")
async def test_a_connection_without_a_next_request_is_closed_after_a_while(tmp_path: Path) -> None:
    limits = Limits(idle_seconds=1, header_seconds=_UNHURRIED)
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, limits=limits) as server, wire(server.port) as connection:
        assert (await connection.ask("GET", "/health")).status == 200
        assert await connection.hung_up()


@requirement("S14")
async def test_a_connection_whose_answers_are_not_taken_is_cut_off(tmp_path: Path) -> None:
    limits = Limits(unread_seconds=1, idle_seconds=_UNHURRIED, header_seconds=_UNHURRIED, body_seconds=_UNHURRIED)
    place = str(tmp_path / "molecule.db")
    async with (
        running("sqlite", place, tmp_path, limits=limits) as server,
        hand_made(server, reads=4096) as connection,
    ):
        await connection.send(request("GET", "/openapi.json", token=ADMIN_TOKEN) * 50)
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            with pytest.raises(ConnectionError):
                await _trickle(connection, b"\r\n")


@requirement("S14")
async def test_a_held_request_has_no_deadline_but_its_own(hurried: Running) -> None:
    """Longer than headers and body may take together, so that each of their deadlines would have rung."""
    seat = await hurried.seat()
    async with wire(hurried.port) as connection:
        reply = await connection.ask("GET", f"/workspaces/{seat.id}/activity?wait=3", token=seat.token)
        assert (reply.status, reply.json) == (200, [])


@requirement("S14")
@pytest.mark.parametrize(
    "headers",
    [
        b"X: " + b"a" * (_HEAD + 1) + b"\r\n",
        b"X: a\r\n" * (_HEAD // 2 + 1),
        b"".join(b"X-%d: %b\r\n" % (n, b"a" * 1000) for n in range(70)),
        b"a" * (_HEAD + 1) + b": x\r\n",
    ],
)
async def test_a_flood_of_headers_is_refused_with_the_limit(plain: Running, headers: bytes) -> None:
    async with wire(plain.port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n")
        reply = await connection.reply()
    assert (reply.status, reply.json["code"], str(_HEAD) in reply.error) == (431, "headers_too_large", True)


@requirement("S14")
@pytest.mark.parametrize("start", [b"X: ", b"X", b""])
async def test_a_header_without_an_end_is_refused_when_it_is_too_large(plain: Running, start: bytes) -> None:
    """Not only once it has ended, or when its time is over: by then it can be gigabytes."""
    async with wire(plain.port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + start + b"a" * (4 * _HEAD))
        reply = await connection.reply()
    assert (reply.status, reply.json["code"]) == (431, "headers_too_large")


@requirement("S14")
async def test_headers_that_are_just_small_enough_are_taken(plain: Running) -> None:
    reply = await ask(plain.port, "GET", "/health", headers={"X": "a" * (_HEAD - 1000)})
    assert reply.status == 200


@requirement("S14")
async def test_a_flood_of_trailers_is_refused(plain: Running) -> None:
    async with wire(plain.port) as connection:
        head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"})
        await connection.send(head + chunk(b'{"name": "x"}') + b"0\r\n" + b"X: a\r\n" * _HEAD + b"\r\n")
        assert (await connection.reply()).status == 431
    assert len(await plain.admin.get("/orgs")) == 1


@requirement("S14")
async def test_a_length_over_the_limit_is_refused_before_a_byte_of_the_body(plain: Running) -> None:
    async with wire(plain.port) as connection:
        headers = {"Content-Length": str(_BODY + 1)}
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        reply = await connection.reply()
    assert (reply.status, reply.json["code"], str(_BODY) in reply.error) == (413, "body_too_large", True)


@requirement("S14")
async def test_chunks_over_the_limit_are_refused_with_the_byte_that_is_too_much(plain: Running) -> None:
    async with wire(plain.port) as connection:
        head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"})
        await connection.send(head + chunk(b" " * _BODY))
        assert not connection.answered
        await connection.send(chunk(b" "))
        assert (await connection.reply()).status == 413


@requirement("S14")
async def test_a_body_of_just_the_limit_is_read(plain: Running) -> None:
    body = b'{"name": "Large"}'.ljust(_BODY)
    assert (await ask(plain.port, "POST", "/orgs", body, token=ADMIN_TOKEN)).status == 201
    async with wire(plain.port) as connection:
        head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"})
        await connection.send(head + chunk(body.replace(b"Large", b"Chunk")) + chunk(b""))
        assert (await connection.reply()).status == 201


@requirement("S14")
@pytest.mark.parametrize("chunked", [True, False])
async def test_who_goes_on_sending_too_much_still_reads_the_refusal(plain: Running, chunked: bool) -> None:
    """Most clients send all before they read: they must not be cut off with the answer unread."""
    size = 6 << 20
    headers = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(size)}
    piece = chunk(b"x" * (1 << 16)) if chunked else b"x" * (1 << 16)
    async with wire(plain.port) as connection:
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        for _ in range(size >> 16):
            await connection.send(piece)
        if chunked:
            await connection.send(chunk(b""))
        assert (await connection.reply()).status == 413
        assert (await connection.ask("GET", "/health")).status == 200


@requirement("S14")
async def test_what_is_read_on_behind_a_refusal_has_a_limit_and_that_has_an_edge(tmp_path: Path) -> None:
    limits = Limits(body_bytes=1_000, refused_bytes=5_000)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        for size in (5_000, 5_001):
            async with wire(server.port) as connection:
                head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Content-Length": str(size)})
                await connection.send(head)
                assert (await connection.reply()).status == 413
                await connection.send(b"x" * size)
                if size == limits.refused_bytes:
                    assert (await connection.ask("GET", "/health")).status == 200
                else:
                    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                        await connection.ask("GET", "/health")


@requirement("S14")
async def test_who_never_stops_sending_is_cut_off(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Content-Length": str(1 << 40)}))
        assert (await connection.reply()).status == 413
        with pytest.raises(ConnectionError):
            for _ in range((64 << 20) >> 16):
                await connection.send(b"x" * (1 << 16))


@requirement("S14")
async def test_fifty_stalled_connections_do_not_stop_the_others(server: Running) -> None:
    seat = await server.seat()
    halves = (
        b"",
        b"GET /hea",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        request("POST", f"/workspaces/{seat.id}/a2a", token=ADMIN_TOKEN, headers={"Content-Length": "1000"}) + b"{",
        request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"}) + b"fff\r\n",
    )
    async with contextlib.AsyncExitStack() as open_ones:
        stalled = [await open_ones.enter_async_context(wire(server.port)) for _ in range(50)]
        for number, connection in enumerate(stalled):
            await connection.send(halves[number % len(halves)])
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await asyncio.gather(*(server.admin.send(seat.id, f"number {n}") for n in range(20)))
        assert len(await seat.api.claim(seat.id, wait=0)) == 20
        assert not [connection for connection in stalled if connection.answered]


@requirement("S14")
async def test_more_connections_than_the_limit_are_told_to_come_later(tmp_path: Path) -> None:
    limits = Limits(connections=2)
    place = str(tmp_path / "molecule.db")
    async with (
        running("sqlite", place, tmp_path, limits=limits) as server,
        wire(server.port) as first,
        wire(server.port) as second,
    ):
        assert [(await each.ask("GET", "/health")).status for each in (first, second)] == [200, 200]
        async with wire(server.port) as third:
            reply = await third.reply()
            assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "server_busy", "1")
            assert await third.hung_up()
        assert (await first.ask("GET", "/health")).status == 200
