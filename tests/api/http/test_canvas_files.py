"""The page and its files: who is sent what, how it is kept and packed, and what every answer says about safety."""

import gzip
import re
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

import pytest

from molecule_core.api.canvas import CanvasRoutes
from testing.live_clients import UPGRADE
from testing.raw_http import Reply, ask, request, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from tests.content_security_policy import PAGE_POLICY
from tests.requirements import requirement

SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
SCRIPT = b"export const answer = 42;" * 100
FILES = {
    "index.html": b'<!doctype html><script type="module" src="/app/assets/main-1a2b.js"></script>',
    "build.json": b"{}",
    "assets/main-1a2b.js": SCRIPT,
    "assets/main-1a2b.js.br": b"br:main",
    "assets/style-3c4d.css": b"body{}",
    "assets/mark-5e6f.svg": b"<svg/>",
    "assets/font-7a8b.woff2": b"font",
    "assets/odd-9c0d.xyz": b"odd",
    "worker.js": b"worker",
    "manifest.webmanifest": b"{}",
    "icons/192.png": b"png",
    "icons/512.png": b"png" * 1000,
}


@pytest.fixture
async def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A server whose package holds a small build."""
    monkeypatch.setattr(CanvasRoutes, "_files", FILES)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield server


async def get(server: Running, target: str, accept: str | None = None) -> Reply:
    """A page's request."""
    headers = {} if accept is None else {"Accept-Encoding": accept}
    return await ask(server.port, "GET", target, headers=headers)


def policy_of(reply: Reply) -> dict[str, str]:
    """The content security policy by directive."""
    directives = reply.headers["content-security-policy"].split(";")
    return {name: value for name, _, value in (each.strip().partition(" ") for each in directives) if name}


# -- pages -------------------------------------------------------------------------------------------------------------


@requirement("C73", "M9")
async def test_the_root_leads_to_the_page(built: Running) -> None:
    for path in ("/", "/app", "/?x=1"):
        reply = await get(built, path)
        assert (reply.status, reply.headers["location"], reply.body) == (302, "/app/", b"")


@requirement("C73", "M9")
@pytest.mark.parametrize(
    "path", ["", "org?focus=1", "chat/abc", "index.html", "a/b/c", "no.js", "assets", "%41", "ä".encode().hex()]
)
async def test_every_path_of_the_page_is_the_page(built: Running, path: str) -> None:
    reply = await get(built, f"/app/{path}")
    assert (reply.status, reply.body) == (200, FILES["index.html"])
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert policy_of(reply) == PAGE_POLICY
    assert "set-cookie" not in reply.headers


@requirement("C73")
async def test_files_are_sent_with_their_type_and_kept_for_ever(built: Running) -> None:
    types = {
        "assets/main-1a2b.js": "text/javascript; charset=utf-8",
        "assets/style-3c4d.css": "text/css; charset=utf-8",
        "assets/mark-5e6f.svg": "image/svg+xml",
        "assets/font-7a8b.woff2": "font/woff2",
        "assets/odd-9c0d.xyz": "application/octet-stream",
    }
    for path, kind in types.items():
        reply = await get(built, f"/app/{path}?v=1")
        assert (reply.status, reply.body, reply.headers["content-type"]) == (200, FILES[path], kind)
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert reply.headers["vary"] == "accept-encoding"
        assert "content-encoding" not in reply.headers
    # These keep their names from version to version.
    lasting = {
        "worker.js": "text/javascript; charset=utf-8",
        "manifest.webmanifest": "application/manifest+json",
        "icons/192.png": "image/png",
    }
    for path, kind in lasting.items():
        reply = await get(built, f"/app/{path}")
        assert (reply.body, reply.headers["content-type"]) == (FILES[path], kind)
        assert reply.headers["cache-control"] == "no-cache"
        assert policy_of(reply) == PAGE_POLICY
    build = await get(built, "/app/build.json")
    assert (build.body, build.headers["cache-control"]) == (b"{}", "no-cache")


@requirement("C73")
@pytest.mark.parametrize("path", ["assets/none.js", "assets/", "assets/main-1a2b.js/", "assets//main-1a2b.js"])
async def test_a_file_that_is_not_there_is_not_the_page(built: Running, path: str) -> None:
    """A page that is out of date must not take the new page for its script."""
    reply = await get(built, f"/app/{path}")
    assert (reply.status, reply.json["code"]) == (404, "no_such_route")
    assert "immutable" not in reply.headers.get("cache-control", "")


@requirement("C73")
async def test_what_is_sent_is_what_lies_in_the_package(plain: Running) -> None:
    folder = resources.files("molecule_core").joinpath("canvas_assets")
    if not folder.joinpath("index.html").is_file():
        pytest.skip("the canvas has not been built here")
    page = await get(plain, "/app/")
    assert page.body == folder.joinpath("index.html").read_bytes()
    names = re.findall(r'(?:src|href)="/app/(assets/[^"]+)"', page.body.decode())
    assert names
    for name in names:
        reply = await get(plain, f"/app/{name}")
        assert reply.body == folder.joinpath(*name.split("/")).read_bytes()
        packed = await get(plain, f"/app/{name}", "gzip")
        body = gzip.decompress(packed.body) if "content-encoding" in packed.headers else packed.body
        assert body == reply.body
        assert name.endswith(".svg") or body is not packed.body, "scripts and styles are packed when they are built"
    assert not re.search(rb"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", page.body)


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with whatever build the package holds."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield server


# -- packing -----------------------------------------------------------------------------------------------------------


@requirement("C73")
@pytest.mark.parametrize(
    ("accept", "allowed"),
    [
        (None, "none"),
        ("", "none"),
        ("identity", "none"),
        ("gzip", "gzip"),
        ("br", "br"),
        ("gzip, br", "br"),
        ("gzip, deflate, br, zstd", "br"),
        ("BR", "br"),
        ("GZip;q=0.5", "gzip"),
        ("gzip;q=1.0, br;q=0", "gzip"),
        ("br;q=0, gzip;q=0", "none"),
        ("br; q=0.000", "none"),
        ("br ; Q=0 , gzip", "gzip"),
        ("*", "br gzip none"),
        ("*;q=0", "none"),
        ("*;q=0, gzip", "gzip"),
        ("br;q=0, *", "gzip none"),
        ("zebra, brotli, x-gzip-like", "none"),
        (",,;,=", "none"),
    ],
)
async def test_a_file_is_packed_as_the_client_can_read_it(built: Running, accept: str | None, allowed: str) -> None:
    """RFC 9110, 12.5.3: what has weight 0 is not acceptable, and a name is a whole word in any case."""
    reply = await get(built, "/app/assets/main-1a2b.js", accept)
    encoding = reply.headers.get("content-encoding", "none")
    assert encoding in allowed.split()
    body = gzip.decompress(reply.body) if encoding == "gzip" else reply.body
    assert (reply.status, body) == (200, b"br:main" if encoding == "br" else SCRIPT)
    assert reply.headers["vary"] == "accept-encoding"
    assert reply.headers["content-type"].startswith("text/javascript")


@requirement("C73")
async def test_small_files_and_pictures_are_sent_plain(built: Running) -> None:
    for path in ("assets/style-3c4d.css", "icons/192.png", "icons/512.png"):
        reply = await get(built, f"/app/{path}", "br, gzip")
        assert ("content-encoding" in reply.headers, reply.body) == (False, FILES[path])


@requirement("C73")
async def test_a_file_is_compressed_once(built: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await get(built, "/app/assets/main-1a2b.js", "gzip")
    monkeypatch.setattr(gzip, "compress", None)
    again = await get(built, "/app/assets/main-1a2b.js", "gzip")
    assert (again.status, again.body) == (200, first.body)
    assert len(first.body) < len(SCRIPT)


# -- nothing else ------------------------------------------------------------------------------------------------------

ESCAPES = [
    "/app/../molecule.db",
    "/app/../../etc/passwd",
    "/app/%2e%2e/%2e%2e/molecule.db",
    "/app/..%2fmolecule.db",
    "/app/assets/../../molecule.db",
    "/app/assets/..%2f..%2fmolecule.db",
    "/app/assets/%2e%2e%2f%2e%2e%2fserver.py",
    "/app/..\\..\\server/composition.py",
    "/app/assets/..%5c..%5cserver.py",
    "/app/%00",
    "/app/index.html%00.js",
    "/app/assets/main-1a2b.js%00",
    "/app//etc/passwd",
    "/app/%2fetc%2fpasswd",
    "/app/file:%2f%2f%2fetc%2fpasswd",
    "/app/./index.html",
    "/app/%252e%252e/molecule.db",
    "/app/" + "../" * 200 + "etc/passwd",
    "/app/" + "a/" * 2000,
    "/app/%ff",
    "/app/%",
    "/app/%zz",
]


@requirement("C73", "S14")
@pytest.mark.parametrize("target", ESCAPES)
async def test_no_path_leads_out_of_the_build(built: Running, target: str) -> None:
    reply = await get(built, target)
    if reply.status == 200:
        assert reply.body == FILES["index.html"]
    else:
        assert reply.status in (400, 404)


@requirement("C73")
async def test_without_a_build_the_page_says_how_to_get_one_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CanvasRoutes, "_files", {})
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        for path in ("/app/", "/app/org"):
            reply = await get(server, path)
            assert reply.status == 503
            assert reply.headers["content-type"] == "text/html; charset=utf-8"
            assert b"scripts/canvas build" in reply.body
            assert policy_of(reply) == PAGE_POLICY
            assert "immutable" not in reply.headers.get("cache-control", "")
        assert (await get(server, "/app/assets/main.js")).status == 404
        assert (await get(server, "/health")).status == 200


@requirement("C73")
@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("/app/", 200),
        ("/app/assets/main-1a2b.js", 200),
        ("/", 302),
        ("/app/assets/none.js", 404),
        ("/health", 200),
        ("/workspaces", 405),
    ],
)
async def test_head_never_has_a_body_and_the_connection_goes_on(built: Running, target: str, wanted: int) -> None:
    length = (await get(built, target)).headers.get("content-length", "")
    async with wire(built.port) as connection:
        await connection.send(request("HEAD", target) + request("GET", "/health"))
        head = await connection._reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        assert status == wanted
        assert status != 405 or b"\r\nallow: GET, POST\r\n" in head
        assert status != 200 or f"\r\ncontent-length: {length}\r\n".encode() in head
        assert (await connection.reply()).json["status"] == "ok"


@requirement("C73")
@pytest.mark.parametrize("target", ["/nope", "/inbox", "/favicon.ico"])
async def test_a_browser_at_a_path_of_no_route_gets_a_page_and_a_client_an_error(built: Running, target: str) -> None:
    page = await ask(built.port, "GET", target, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b'<a href="/app/">' in page.body
    check_safe(page, target)
    for method, accept in (("GET", "*/*"), ("POST", "text/html")):
        reply = await ask(built.port, method, target, headers={"Accept": accept})
        assert (reply.status, reply.json["code"]) == (404, "no_such_route")


# -- every answer ------------------------------------------------------------------------------------------------------


def check_safe(reply: Reply, place: object) -> None:
    """The headers that every answer carries."""
    assert {name: reply.headers.get(name) for name in SAFE} == SAFE, place
    policy = policy_of(reply)
    assert policy["default-src"] == "'none'", place
    assert policy["frame-ancestors"] == "'none'", place
    assert not [value for value in policy.values() if "unsafe" in value or "*" in value], place


@requirement("C73")
async def test_every_answer_of_every_route_carries_a_strict_policy(built: Running) -> None:
    seat = await built.seat("Ops")
    org_id = built.server.registry.orgs()[0].id
    for route in built.server.routes.routes:
        target = route.path.replace("{id}", seat.id).replace("{org_id}", org_id).replace("{path**}", "org")
        for token in (None, "nonsense", seat.token, ADMIN_TOKEN):
            for body in (None,) if route.method == "GET" else (b"{}", b"nonsense"):
                if route.method == "DELETE" and token == ADMIN_TOKEN:
                    continue
                async with wire(built.port) as connection:
                    await connection.send(request(route.method, target, body, token=token))
                    reply = await _head_of(connection)
                assert reply.status != 101
                check_safe(reply, (route.method, target, token, body))


async def _head_of(connection: object) -> Reply:
    """The head of an answer, which may have no end."""
    text = (await connection._reader.readuntil(b"\r\n\r\n")).decode("latin-1")  # type: ignore[attr-defined]
    first, *lines = text.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(int(first.split()[1]), headers, b"")


@requirement("C73")
async def test_refusals_before_any_route_carry_it_too(built: Running) -> None:
    broken = [
        b"GET  nonsense\r\n\r\n",
        request("GET", "/nowhere"),
        request("PUT", "/health"),
        request("GET", "/openapi.json", headers={"Host": "evil.example"}),
        request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Content-Length": str(1 << 30)}),
        request("GET", "/health", headers={"X": "y" * (70 << 10)}),
        request("GET", "/ws", token=ADMIN_TOKEN, headers={**UPGRADE, "Sec-WebSocket-Version": "7"}),
        request("GET", "/events/stream", token=ADMIN_TOKEN, headers={"Last-Event-ID": "x"}),
    ]
    for data in broken:
        async with wire(built.port) as connection:
            await connection.send(data)
            reply = await _head_of(connection)
            assert reply.status >= 400
            check_safe(reply, data[:60])
