"""Hostile uploads: too large, too slow, lying, cut, malformed, on a disk that is full. Nothing of them stays."""

import asyncio
import contextlib
import os
import resource
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.api.http.request_body import MAX_BUFFERED_BYTES, StreamingBody
from molecule_core.common.limits import Limits
from testing.raw_http import Wire, ask, chunk, request, wire
from testing.running_server import ADMIN_TOKEN, Running, Seat, running
from testing.upload_forms import BOUNDARY, FORM, end, form, on_disk, part, upload, uploaded
from testing.waits import IN_PROCESS_SECONDS, eventually
from tests.api.http.rejection_checks import check_refusal
from tests.requirements import requirement

_MIB = 1 << 20
_FILE = 25 * _MIB  # the default of limits.attachment_bytes
_REQUEST = 251 * _MIB  # the default of limits.upload_bytes
CHUNKED = {**FORM, "Transfer-Encoding": "chunked"}


@pytest.fixture
async def seat(plain: Running) -> Seat:
    """Who is sent files."""
    return await plain.seat("Target")


def head(seat: Seat, headers: dict[str, str], token: str = ADMIN_TOKEN) -> bytes:
    """The head of an upload."""
    return request("POST", f"/workspaces/{seat.id}/chat/uploads", token=token, headers=headers)


async def nothing_stays(server: Running) -> None:
    """Waits until the folder of files is empty."""

    async def look() -> set[str]:
        await checkpoint()
        return on_disk(server)

    await eventually(look, lambda found: not found)


# -- too much, too slow ------------------------------------------------------------------------------------------------


@requirement("S14")
async def test_a_length_over_the_limit_is_refused_before_a_byte(plain: Running, seat: Seat) -> None:
    async with wire(plain.port) as connection:
        await connection.send(head(seat, {**FORM, "Content-Length": str(_REQUEST + 1)}))
        reply = check_refusal(await connection.reply(), 413)
    assert (reply.json["code"], str(_REQUEST) in reply.error) == ("body_too_large", True)
    assert on_disk(plain) == set()


@requirement("S14")
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_file_over_the_limit_is_refused_with_the_byte_that_is_too_much(
    plain: Running, seat: Seat, chunked: bool
) -> None:
    piece = b"x" * _MIB
    headers = CHUNKED if chunked else {**FORM, "Content-Length": str(200 * _MIB)}
    async with wire(plain.port) as connection:
        await connection.send(head(seat, headers))
        start = part("large", b"")[:-2]
        await connection.send(chunk(start) if chunked else start)
        for _ in range(25):
            await connection.send(chunk(piece) if chunked else piece)
        assert not connection.answered
        await connection.send(chunk(b"x") if chunked else b"x")
        reply = check_refusal(await connection.reply(), 413)
    assert (reply.json["code"], str(_FILE) in reply.error) == ("file_too_large", True)
    await nothing_stays(plain)


@requirement("S14", "M35")
async def test_a_file_of_just_the_limit_is_taken_and_the_connection_goes_on(plain: Running, seat: Seat) -> None:
    async with wire(plain.port) as connection:
        path = f"/workspaces/{seat.id}/chat/uploads"
        reply = await connection.ask("POST", path, form(("large", b"x" * _FILE)), token=ADMIN_TOKEN, headers=FORM)
        assert (reply.status, reply.json["files"][0]["size"]) == (200, _FILE)
        assert (await connection.ask("GET", "/health")).status == 200
        small = await connection.ask("POST", path, form(("small", b"y")), token=ADMIN_TOKEN, headers=FORM)
        assert small.status == 200


@requirement("S14")
async def test_a_whole_request_over_the_limit_is_refused_however_its_files_are_cut(tmp_path: Path) -> None:
    limits = Limits(upload_bytes=4 * _MIB)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        seat = await server.seat()
        async with wire(server.port) as connection:
            await connection.send(head(seat, CHUNKED))
            for number in range(4):
                await connection.send(chunk(part(f"{number}", b"x" * _MIB)))
            assert check_refusal(await connection.reply(), 413).json["code"] == "body_too_large"
        await nothing_stays(server)


@requirement("S14", "S20")
@pytest.mark.parametrize("token", ["", "mol_ws_unknown", "viewer", "stranger"])
async def test_who_may_not_send_is_told_so_before_the_first_byte(plain: Running, seat: Seat, token: str) -> None:
    if token == "viewer":
        person = await plain.person("viewer")
        token = person._headers["authorization"].removeprefix("Bearer ")
    elif token == "stranger":
        token = (await plain.seat("Stranger", org_id=await plain.org("Elsewhere"))).token
    async with wire(plain.port) as connection:
        headers = {**FORM, "Content-Length": "1000", "Expect": "100-continue"}
        await connection.send(
            head(seat, headers, token)
            if token
            else request("POST", f"/workspaces/{seat.id}/chat/uploads", headers=headers)
        )
        check_refusal(await connection.reply(), 401, 403, 404)


async def test_who_asks_whether_to_go_on_is_told_once_somebody_reads(plain: Running, seat: Seat) -> None:
    body = form(("a.txt", b"hello"))
    async with wire(plain.port) as connection:
        headers = {**FORM, "Content-Length": str(len(body)), "Expect": "100-continue"}
        await connection.send(head(seat, headers))
        assert (await connection.reply()).status == 100
        await connection.send(body)
        assert (await connection.reply()).status == 200


@pytest.fixture
async def hurried(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that gives each kibibyte of a body one second."""
    limits = Limits(body_seconds=1, body_bytes=1024)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        yield server


async def _drip(connection: Wire, piece: bytes, *, every: float, seconds: float) -> None:
    """Sends a piece every so often, for so long or until there is an answer."""
    now = asyncio.get_running_loop().time
    until, due = now() + seconds, now()
    while now() < until and not connection.answered:
        if now() >= due:
            await connection.send(piece)
            due += every
        await checkpoint()


@requirement("S14")
@pytest.mark.parametrize("piece", [b"x", b""])
async def test_an_upload_that_drips_is_given_up_and_nothing_of_it_stays(hurried: Running, piece: bytes) -> None:
    seat = await hurried.seat()
    async with wire(hurried.port) as connection:
        await connection.send(head(seat, {**FORM, "Content-Length": "100000"}) + part("slow", b"")[:-2])
        await _drip(connection, piece, every=0.05, seconds=IN_PROCESS_SECONDS)
        assert check_refusal(await connection.reply(), 408).json["code"] == "body_too_slow"
        assert await connection.hung_up()
    await nothing_stays(hurried)


@requirement("M35")
async def test_a_large_file_may_take_longer_than_a_message(hurried: Running) -> None:
    seat = await hurried.seat()
    async with wire(hurried.port) as connection:
        await connection.send(head(seat, CHUNKED) + chunk(part("slow", b"")[:-2]))
        await _drip(connection, chunk(b"x" * 1024), every=0.25, seconds=2)
        await connection.send(chunk(b"\r\n" + end()) + chunk(b""))
        assert (await connection.reply()).status == 200


# -- lies, cuts, malformed forms ---------------------------------------------------------------------------------------

_FEW = form(("a.txt", b"hello"))
_NO_NAME = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"\r\n\r\nhello\r\n'.encode() + end()
_BARE = f"--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nhello\r\n".encode() + end()
MALFORMED = {
    "nothing": b"",
    "no file": end(),
    "no boundary in it": b"hello",
    "another boundary": _FEW.replace(BOUNDARY.encode(), b"other"),
    "no end": _FEW[: -len(end())],
    "half an end": _FEW[:-6],
    "no header": f"--{BOUNDARY}\r\n\r\nhello\r\n".encode() + end(),
    "no disposition": _BARE,
    "no file name": _NO_NAME,
    "another field": part("a.txt", b"x", field="file") + end(),
    "a header without an end": f"--{BOUNDARY}\r\nX: ".encode() + b"x" * 100_000,
    "a header that is too long": _FEW.replace(b"\r\n\r\nhello", b"\r\nX: " + b"x" * 20_000 + b"\r\n\r\nhello"),
    "many headers": f"--{BOUNDARY}\r\n".encode() + b"X-A: b\r\n" * 1000 + b"\r\n" + end(),
    "eleven files": b"".join(part(f"{n}", b"x") for n in range(11)) + end(),
    "sixty-four files": b"".join(part(f"{n}", b"") for n in range(64)) + end(),
    "ten thousand parts": part("x", b"") * 10_000 + end(),
    "a part that lies about its length": _FEW.replace(b"\r\n\r\nhello", b"\r\nContent-Length: 3\r\n\r\nhello"),
}


@requirement("S17", "S14")
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_form_is_refused_with_a_reason_and_nothing_of_it_stays(
    plain: Running, seat: Seat, body: bytes
) -> None:
    path = f"/workspaces/{seat.id}/chat/uploads"
    for pieces in ([body], [body[at : at + 7] for at in range(0, min(len(body), 5000), 7)]):
        async with wire(plain.port) as connection:
            await connection.send(head(seat, CHUNKED))
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    await connection.send(chunk(piece) if piece else b"")
                await connection.send(chunk(b""))
            assert check_refusal(await connection.reply(), 400).json["code"] == "invalid_upload"
    whole = check_refusal(await ask(plain.port, "POST", path, body, token=ADMIN_TOKEN, headers=FORM), 400)
    assert "the server cannot read this upload: " in whole.error
    await nothing_stays(plain)
    assert await seat.api.claim(seat.id, wait=0) == []


# How common clients write a name that is not ASCII.
FILE_NAMES = {
    "a browser, curl: UTF-8": ('filename="Grüße 日本.txt"'.encode(), "Grüße 日本.txt"),
    "an old program: Latin-1": ('filename="Grüße.txt"'.encode("latin-1"), "Grüße.txt"),
    "Windows: cp1252": ('filename="Preis 5 €.txt"'.encode("cp1252"), "Preis 5 €.txt"),
    "urllib3 1: filename* alone": (b"filename*=utf-8''Gr%C3%BC%C3%9Fe.txt", "Grüße.txt"),
    "aiohttp: both, filename* counts": (b"filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt", "Grüße.txt"),
    "filename* first": (b"filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt; filename=\"Gr__e.txt\"", "Grüße.txt"),
    "filename* in Latin-1": (b"filename*=ISO-8859-1'de'Gr%FC%DFe.txt", "Grüße.txt"),
    "RFC 2231 in pieces": (b"filename*0*=UTF-8''Gr%C3%BC; filename*1*=%C3%9Fe.txt", "Grüße.txt"),
    "a mail library: RFC 2047, base64": (b'filename="=?UTF-8?B?R3LDvMOfZS50eHQ=?="', "Grüße.txt"),
    "a mail library: RFC 2047, quoted": (b'filename="=?iso-8859-1?Q?Gr=FC=DFe.txt?="', "Grüße.txt"),
    "no encoded word": (b'filename="=?what?.txt"', "=_what_.txt"),
    "an unknown charset": (b"filename=\"a.txt\"; filename*=klingon''b.txt", "b.txt"),
    "a path of Windows": (b'filename="C:\\Users\\Ada\\a.txt"', "a.txt"),
}


@requirement("S14")
@pytest.mark.parametrize(("disposition", "name"), FILE_NAMES.values(), ids=FILE_NAMES)
async def test_the_file_names_of_common_clients_are_read(
    plain: Running, seat: Seat, disposition: bytes, name: str
) -> None:
    header = b'Content-Disposition: form-data; name="files"; ' + disposition
    body = f"--{BOUNDARY}\r\n".encode() + header + b"\r\n\r\nhello\r\n" + end()
    reply = await ask(plain.port, "POST", f"/workspaces/{seat.id}/chat/uploads", body, token=ADMIN_TOKEN, headers=FORM)
    assert (reply.status, [each["name"] for each in reply.json["files"]]) == (200, [name])


@requirement("S14")
@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=x",
        f"multipart/form-data; boundary={'x' * 71}",
        "multipart/form-data; boundary=ü",
    ],
)
async def test_what_is_no_form_is_refused(plain: Running, seat: Seat, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    path = f"/workspaces/{seat.id}/chat/uploads"
    reply = await ask(plain.port, "POST", path, _FEW, token=ADMIN_TOKEN, headers=headers)
    assert check_refusal(reply, 400).json["code"] == "invalid_upload"


@requirement("S14")
async def test_a_length_that_is_too_short_cuts_the_form_and_one_that_is_too_long_is_waited_for(
    hurried: Running,
) -> None:
    seat = await hurried.seat()
    async with wire(hurried.port) as connection:
        await connection.send(head(seat, {**FORM, "Content-Length": str(len(_FEW) - 10)}) + _FEW)
        check_refusal(await connection.reply(), 400)
    async with wire(hurried.port) as connection:
        await connection.send(head(seat, {**FORM, "Content-Length": str(len(_FEW) + 10)}) + _FEW)
        check_refusal(await connection.reply(), 408)
    await nothing_stays(hurried)


@requirement("S17")
async def test_a_form_in_a_form_and_an_archive_are_files_like_any_other(plain: Running, seat: Seat) -> None:
    inner = b"--inner\r\nContent-Disposition: form-data; name=files; filename=x\r\n\r\n1\r\n--inner--\r\n"
    bomb = b"PK\x03\x04" + bytes(1000)
    sent = ("nested", inner, "multipart/mixed; boundary=inner"), ("bomb.zip", bomb, "application/zip")
    files = await uploaded(plain, seat.id, seat.token, *sent)
    assert [file["size"] for file in files] == [len(inner), len(bomb)]
    assert len(on_disk(plain)) == 2


@requirement("M35")
async def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(plain: Running, seat: Seat) -> None:
    async with wire(plain.port) as connection:
        await connection.send(head(seat, CHUNKED) + chunk(part("half", b"x" * _MIB)[:-2]))
        while not any(name.endswith(".part") for name in on_disk(plain)):
            await checkpoint()
    await nothing_stays(plain)
    assert await seat.api.claim(seat.id, wait=0) == []


async def test_requests_around_an_upload_are_answered_in_their_order(plain: Running, seat: Seat) -> None:
    body = form(("a.txt", b"x" * _MIB))
    upload_request = head(seat, {**FORM, "Content-Length": str(len(body))}) + body
    async with wire(plain.port) as connection:
        await connection.send(request("GET", "/health") + upload_request + request("GET", "/ready"))
        replies = [await connection.reply() for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert list(replies[1].json) == ["files"]
    assert replies[2].json == {"status": "ready"}


# -- the disk ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a full disk, no file of this process grows beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@requirement("M35", "S14")
async def test_a_full_disk_is_told_and_nothing_of_the_upload_stays(plain: Running, seat: Seat) -> None:
    with largest_file(8 * _MIB):
        reply = await upload(plain, seat.id, ADMIN_TOKEN, ("fits", b"x"), ("does not", b"x" * (9 * _MIB)))
    assert (reply.status, reply.json["code"]) == (507, "no_room")
    assert "no file of this upload was stored" in reply.error
    await nothing_stays(plain)
    assert await seat.api.claim(seat.id, wait=0) == []
    assert (await upload(plain, seat.id, ADMIN_TOKEN, ("fits", b"x"))).status == 200


@requirement("M35")
async def test_files_leave_room_for_everything_else(tmp_path: Path) -> None:
    limits = Limits(disk_reserve_bytes=1 << 60)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        seat = await server.seat()
        reply = await upload(server, seat.id, ADMIN_TOKEN, ("a.txt", b"x"))
        assert (reply.status, reply.json["code"]) == (507, "no_room")
        assert await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "still here"})


@requirement("M35")
async def test_a_folder_that_does_not_work_is_told(plain: Running, seat: Seat) -> None:
    plain.server.settings.files_folder.rmdir()
    reply = await upload(plain, seat.id, ADMIN_TOKEN, ("a.txt", b"x"))
    assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "files_unavailable", "30")
    assert str(plain.server.settings.files_folder) not in reply.body.decode()


@requirement("S16")
async def test_files_are_for_their_owner_alone(plain: Running, seat: Seat) -> None:
    await uploaded(plain, seat.id, ADMIN_TOKEN, ("a.sh", b"#!/bin/sh"))
    folder = plain.server.settings.files_folder
    assert [oct(os.lstat(each).st_mode)[-3:] for each in (folder, *folder.iterdir())] == ["700", "600"]


# -- who keeps whom waiting --------------------------------------------------------------------------------------------


class Line(asyncio.Transport):
    """A transport that notes whether its client may go on."""

    def __init__(self) -> None:
        super().__init__()
        self._flows = True

    def flows(self) -> bool:
        """Whether it reads."""
        return self._flows

    def pause_reading(self) -> None:
        self._flows = False

    def resume_reading(self) -> None:
        self._flows = True

    def is_closing(self) -> bool:
        return False


@requirement("S14")
async def test_a_client_that_is_faster_than_the_disk_has_to_wait() -> None:
    line = Line()
    body = StreamingBody(line, expects_continue=False)
    body.feed(b"x" * MAX_BUFFERED_BYTES)
    assert line.flows()
    body.feed(b"y")
    assert not line.flows()
    assert len(await anext(body)) == MAX_BUFFERED_BYTES + 1
    assert line.flows()
    body.feed(b"z" * (MAX_BUFFERED_BYTES + 1))
    body.close()
    assert line.flows()
    assert [piece async for piece in body] == []
