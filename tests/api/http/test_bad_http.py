"""HTTP as it should not be: each mistake is named, and the connection stays usable or is closed, never confused."""

import asyncio

import pytest

from molecule_core.store.journal import log_key
from testing.clocks import settle
from testing.raw_http import Reply, ask, chunk, request, wire
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import IN_PROCESS_SECONDS, eventually
from tests.requirements import requirement

HOST = b"Host: 127.0.0.1\r\n"
BEARER = b"Authorization: Bearer " + ADMIN_TOKEN.encode() + b"\r\n"
BROKEN = {
    "no HTTP at all": b"hello\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method that nobody knows": b"BREW /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a method in small letters": b"get /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a version that does not exist": b"GET /health HTTP/7.3\r\n" + HOST + b"\r\n",
    "a blank in the target": b"GET /he alth HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target that is no path": b"GET health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n",
    "a header without a name": b"GET /health HTTP/1.1\r\n" + HOST + b": x\r\n\r\n",
    "a blank before the colon": b"GET /health HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    "a NUL in a header": b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "a folded header": b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\r\n b: c\r\n\r\n",
    "a bare carriage return": b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\rY: b\r\n\r\n",
    "a length that is no number": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: ten\r\n\r\n{}",
    "a length below zero": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\n{}",
    "a length beyond 64 bits": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "two lengths": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a list of lengths": b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a length and chunks": (
        b"POST /orgs HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "an encoding that nobody knows": b"POST /orgs HTTP/1.1\r\n" + HOST + BEARER + b"Transfer-Encoding: cow\r\n\r\n{}",
    "chunked, but not last": b"POST /orgs HTTP/1.1\r\n"
    + HOST
    + BEARER
    + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
}
BROKEN_CHUNKS = {
    "a size that is no number": b"xyz\r\n{}\r\n0\r\n\r\n",
    "a size below zero": b"-1\r\n{}\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"fffffffffffffffff\r\n{}\r\n",
    "more bytes than said": b"1\r\n{}\r\n0\r\n\r\n",
}
HOSTS = {
    *(
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8080",
        "127.0.0.2",
        "0.0.0.0",
        "[::2]",
        "::1",
        "localhost.",
    ),
    *(
        "127.0.0.1:80:80",
        "127.0.0.1:x",
        "user@127.0.0.1",
        "127.0.0.1/",
        "127.0.0.1#",
        "127.1",
        "2130706433",
        "0x7f000001",
    ),
    *(
        "localhost evil.example",
        "localhost,evil.example",
        "xn--lcalhost-n4a",
        "l\u043ecalhost".encode().decode("latin-1"),
    ),
    *("169.254.169.254", "metadata.google.internal", "[::ffff:127.0.0.1]", "127.0.0.1%00", "null", "*", "."),
}


async def _closing_answer(server: Running, data: bytes) -> tuple[Reply, bool]:
    """The answer to bytes, and whether the server then hung up without another word."""
    async with wire(server.port) as connection:
        await connection.send(data)
        return await connection.reply(), await connection.hung_up()


@requirement("S14")
async def test_what_is_not_http_is_answered_once_and_then_cut_off(plain: Running) -> None:
    wrong: dict[str, object] = {}
    for name, data in BROKEN.items():
        try:
            reply, alone = await _closing_answer(plain, data)
        except TimeoutError:
            wrong[name] = "no end of it"
            continue
        if (reply.status, reply.json.get("code"), alone) != (400, "bad_http", True) or reply.headers[
            "connection"
        ] != "close":
            wrong[name] = (reply, alone)
    assert wrong == {}
    assert (await ask(plain.port, "GET", "/health")).status == 200


@requirement("S14")
async def test_a_path_that_is_not_utf_8_is_refused_and_the_next_request_answered(plain: Running) -> None:
    async with wire(plain.port) as connection:
        for path in ("/%ff", "/%ed%a0%80", "/workspaces/%c0%af"):
            reply = await connection.ask("GET", path)
            assert (reply.status, reply.json["code"]) == (400, "bad_http"), path
        assert (await connection.ask("GET", "/health")).status == 200


@requirement("S14")
async def test_a_chunk_that_is_broken_is_answered_once_and_then_cut_off(plain: Running) -> None:
    head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"})
    wrong = {}
    for name, data in BROKEN_CHUNKS.items():
        reply, alone = await _closing_answer(plain, head + data)
        if (reply.status, reply.json.get("code"), alone) != (400, "bad_http", True):
            wrong[name] = (reply, alone)
    assert wrong == {}


@requirement("S14")
async def test_a_broken_body_after_a_refusal_is_not_answered_a_second_time(plain: Running) -> None:
    head = request("POST", "/orgs", headers={"Transfer-Encoding": "chunked"})
    reply, alone = await _closing_answer(plain, head + b"xyz\r\n")
    assert (reply.status, reply.json["code"], alone) == (401, "missing_credential", True)


@requirement("S14")
async def test_a_path_that_does_not_exist_says_where_the_paths_are_listed(plain: Running) -> None:
    for path in (
        "/nope",
        "//",
        "/health/",
        "//health",
        "/workspaces//a2a",
        "/Health",
        "/health%20",
        "/..%2fhealth",
    ):
        reply = await ask(plain.port, "GET", path)
        assert (reply.status, "/openapi.json" in reply.error) == (404, True), path


@requirement("S14")
async def test_a_wrong_method_is_told_the_right_ones(plain: Running) -> None:
    routes = plain.server.routes.routes
    allowed = {path: {row.method for row in routes if row.path == path} for path in {row.path for row in routes}}
    wrong = {}
    for path, methods in allowed.items():
        filled = path.replace("{id}", "x").replace("{org_id}", "x")
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - methods:
            reply = await ask(plain.port, method, filled)
            told = set(reply.headers.get("allow", "").split(", "))
            if reply.status != 405 or not methods <= told or method not in reply.error:
                wrong[method, path] = (reply, methods)
    assert wrong == {}


@requirement("S14")
async def test_an_answer_to_head_has_no_body_and_the_next_request_its_own(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(request("HEAD", "/nope") + request("HEAD", "/health") + request("GET", "/health"))
        raw = b""
        while b'"status":"ok"' not in raw:
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                raw += await connection._reader.read(1 << 16)
    heads = raw.split(b"\r\n\r\n")
    assert [head.split(b" ")[1] for head in heads[:3]] == [b"404", b"405" if b"allow: " in heads[1] else b"200", b"200"]
    assert all(head.startswith(b"HTTP/1.1 ") for head in heads[:3])
    assert heads[3].startswith(b"{") and len(heads) == 4


@requirement("S18")
async def test_every_host_name_that_is_not_ours_is_refused(plain: Running) -> None:
    answers = {}
    for host in HOSTS:
        reply = await ask(plain.port, "GET", "/openapi.json", token=ADMIN_TOKEN, headers={"Host": host})
        answers[host] = (reply.status, reply.json["code"])
    assert {host: answer for host, answer in answers.items() if answer != (421, "wrong_host")} == {}


@requirement("S18")
async def test_a_host_name_of_ours_is_taken_in_every_spelling(plain: Running) -> None:
    for host in (
        "127.0.0.1",
        "localhost",
        "LocalHost",
        f"localhost:{plain.port}",
        "[::1]",
        "[::1]:1",
        "127.0.0.1:65535",
    ):
        assert (await ask(plain.port, "GET", "/health", headers={"Host": host})).status == 200, host


@requirement("S18")
async def test_a_refused_host_learns_what_the_operator_can_do(plain: Running) -> None:
    reply = await ask(plain.port, "GET", "/openapi.json", headers={"Host": "evil.example"})
    assert "--allowed-host" in reply.error
    assert "evil.example" in reply.error


@requirement("S18", "S14")
async def test_a_request_without_a_host_is_refused(plain: Running) -> None:
    async with wire(plain.port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\n\r\n")
        assert 400 <= (await connection.reply()).status < 500


@requirement("S14", "P6")
@pytest.mark.parametrize("name", ["Host", "host", "Authorization", "AUTHORIZATION", "X-Workspace-ID", "x-workspace-id"])
async def test_a_header_that_decides_something_cannot_stand_twice(plain: Running, name: str) -> None:
    seat = await plain.seat()
    once = {"Host": "127.0.0.1", "Authorization": f"Bearer {seat.token}", "X-Workspace-ID": seat.id}
    again = next(value for each, value in once.items() if each.lower() == name.lower())
    replies = [
        await ask(plain.port, "GET", f"/workspaces/{seat.id}/activity", headers=pairs)
        for pairs in (once, [*once.items(), (name, again)])
    ]
    assert [reply.status for reply in replies] == [200, 400]


@requirement("S14")
async def test_other_headers_may_stand_twice(plain: Running) -> None:
    reply = await ask(plain.port, "GET", "/health", headers=[("Accept", "a"), ("Accept", "b"), ("X", ""), ("x", "")])
    assert reply.status == 200


@requirement("S14")
async def test_an_older_client_is_answered_and_its_connection_closed(plain: Running) -> None:
    reply, alone = await _closing_answer(plain, b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert (reply.status, reply.headers["connection"], alone) == (200, "close", True)


@requirement("S14")
async def test_a_connection_is_kept_until_its_client_wants_it_closed(plain: Running) -> None:
    async with wire(plain.port) as connection:
        for _ in range(3):
            reply = await connection.ask("GET", "/health")
            assert (reply.status, "connection" in reply.headers) == (200, False)
        reply = await connection.ask("GET", "/health", headers={"Connection": "close"})
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await connection.hung_up()


@requirement("S14")
async def test_a_refusal_leaves_the_connection_usable(plain: Running) -> None:
    async with wire(plain.port) as connection:
        for body in (b"{", b'{"name": ""}', b""):
            assert (await connection.ask("POST", "/orgs", body, token=ADMIN_TOKEN)).status in (400, 422)
        assert (await connection.ask("POST", "/orgs", {"name": "x"})).status == 401
        assert (await connection.ask("GET", "/orgs", token=ADMIN_TOKEN)).status == 200


@requirement("S14")
async def test_a_whole_address_as_a_target_is_understood(plain: Running) -> None:
    for target in (f"http://127.0.0.1:{plain.port}/health?x=1", "http://localhost/health", "HTTP://LOCALHOST/health"):
        assert (await ask(plain.port, "GET", target)).status == 200, target
    assert (await ask(plain.port, "GET", "http://localhost")).status == 302
    assert (await ask(plain.port, "GET", "http://[::1/health")).status == 400


@requirement("S14")
async def test_a_fragment_and_a_query_are_no_part_of_the_path(plain: Running) -> None:
    for target in ("/health?", "/health?a#b", "/health?/nope", "/he%61lth"):
        assert (await ask(plain.port, "GET", target)).status == 200, target


@requirement("S14")
async def test_who_asks_before_sending_is_told_to_go_on(plain: Running) -> None:
    async with wire(plain.port) as connection:
        body = b'{"name": "Asked first"}'
        headers = {"Expect": "100-continue", "Content-Length": str(len(body))}
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            assert await connection._reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await connection.send(body)
        assert (await connection.reply()).status == 201


@requirement("S14")
async def test_who_asks_before_sending_too_much_is_told_so_before_sending(plain: Running) -> None:
    async with wire(plain.port) as connection:
        headers = {"Expect": "100-continue", "Content-Length": str(1 << 30)}
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        assert (await connection.reply()).status == 413


@requirement("S14")
async def test_a_body_in_any_pieces_is_the_same_body(plain: Running) -> None:
    body = b'{"name": "In pieces"}'
    async with wire(plain.port) as connection:
        head = request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Transfer-Encoding": "chunked"})
        pieces = b"".join(chunk(body[i : i + 1]) for i in range(len(body)))
        for byte in head + pieces + b"0;extension=1\r\nTrailer: x\r\n\r\n":
            await connection.send(bytes([byte]))
        assert (await connection.reply()).json["name"] == "In pieces"
        assert (await connection.ask("GET", "/health")).status == 200


@requirement("S14")
async def test_who_hangs_up_during_a_long_poll_is_no_longer_waited_for(server: Running) -> None:
    seat = await server.seat()

    async def waiters() -> int:
        await settle()
        return server.server.wakeups.count_waiters(log_key(seat.id))

    async with wire(server.port) as connection:
        await connection.send(request("GET", f"/workspaces/{seat.id}/activity?claim=60&wait=25", token=seat.token))
        await eventually(waiters, lambda count: count == 1)
    await eventually(waiters, lambda count: count == 0)
    await server.admin.send(seat.id, "still here")
    (row,) = await seat.api.get(f"/workspaces/{seat.id}/activity", claim=60)
    assert row["attempt"] == 1  # nobody took it for the client that had gone
