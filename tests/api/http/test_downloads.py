"""Downloads: hostile names, links in the folder, clients that do not read."""

import asyncio
import contextlib
import gc
import hashlib
import itertools
import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.common.errors import FilesUnavailable, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import sanitize_file_name
from molecule_core.store.blob_store import BlobStore
from testing.raw_http import ask, request, wire
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.upload_forms import BOUNDARY, FORM, end, id_of, on_disk, place_of, uploaded
from testing.waits import eventually
from tests.api.http.rejection_checks import check_refusal
from tests.requirements import requirement

_MIB = 1 << 20
ID = "01900000-0000-7000-8000-00000000beef"

# 40 beginnings, 50 endings.
_STEMS = (
    *("../../../../tmp/pwned", "..\\..\\windows\\pwned", "/etc/passwd", "C:\\boot.ini"),
    *("\\\\host\\share\\x", "~/x", "..", ".", "", " ", "file://x", "a/b/c", "....//....//x"),
    *("%2e%2e%2fx", "%00", "x\x00y", "x\ry", "x\ny", "x\r\nSet-Cookie: a=b", "\u202eexe.gpj"),
    *("\u2066a\u2069", "\u200b", "\ufeffx", "\U000e0041x", "דוח\u202dx", "سجل", "字" * 1700),
    *("x" * 5000, "CON", "nul", "COM1", "lpt9.txt", "aux.", 'x"; filename="y', "x'; rm -rf", "$(x)"),
    *("`x`", "x;y=z", "*?<>|", "é\u0301\u0301"),
)
_TAILS = (
    *("", ".txt", ".", "..", " ", "/", "\\", "\x00", "\r\n", '"', "'", ";", "%", "%0d%0a", "\u202e"),
    *("\u2029", ".exe", ".html", ".svg", ".PNG", ".tar.gz", ".p\x00ng", ".\u202egnp", "/..", "/."),
    *("\\..", ":x", "::$DATA", "|x", "?x", "*", "<x>", "{x}", "~", "#", "&", "=", "+", ",", "@", "!"),
    *("^", "\t", "\x0b", "\x1b[31m", "\x7f", "\x85", "." * 300, "." + "z" * 300, "字"),
)
NAMES = ["".join(each) for each in itertools.product(_STEMS, _TAILS)]


def raw_part(name: str) -> bytes:
    """A part with a name as it is; only what would end the name or the line is written as browsers do."""
    called = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="{called}"\r\n\r\nx\r\n'.encode()


@requirement("S16", "S19")
async def test_two_thousand_hostile_names_lead_nowhere_and_break_no_header(tmp_path: Path) -> None:
    assert len(NAMES) >= 2000
    limits = Limits(inbox_unhandled=100_000, attachments=50)
    before = set(tmp_path.parent.iterdir())
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        seat = await server.seat()
        ids, wrong = set[str](), []
        async with wire(server.port) as connection:
            for batch in _batches(50):
                body = b"".join(map(raw_part, batch)) + end()
                path = f"/workspaces/{seat.id}/chat/uploads"
                reply = await connection.ask("POST", path, body, token=ADMIN_TOKEN, headers=FORM)
                assert reply.status == 200, (reply, batch)
                for sent, file in zip(batch, reply.json["files"], strict=True):
                    ids.add(id_of(file))
                    got = await ask(server.port, "GET", place_of(file), token=ADMIN_TOKEN)
                    said = re.fullmatch(
                        r"attachment; filename=\"([A-Za-z0-9 ._()-]+)\"; filename\*=UTF-8''([A-Za-z0-9%._~-]+)",
                        got.headers["content-disposition"],
                    )
                    safe = file["name"] == sanitize_file_name(file["name"], 255)
                    if said is None or unquote(said[2]) != file["name"] or not safe or "set-cookie" in got.headers:
                        wrong.append((sent, file, got))
        assert wrong == []
        assert on_disk(server) == ids
        assert len(ids) == len(NAMES)
    assert set(tmp_path.parent.iterdir()) == before
    assert {each.name for each in tmp_path.iterdir()} <= {
        *("files", "molecule.db", "molecule.db-wal", "molecule.db-shm", "molecule.lock"),
    }


def _batches(size: int) -> list[list[str]]:
    return [NAMES[first : first + size] for first in range(0, len(NAMES), size)]


@requirement("S16")
@pytest.mark.parametrize(
    "tail", ["..", "%2e%2e", "%2e%2e%2fmolecule.db", "..%2f..%2fetc%2fpasswd", "%00", "x" * 3000, ID]
)
async def test_an_id_that_is_none_is_an_unknown_file(plain: Running, tail: str) -> None:
    seat = await plain.seat()
    for path in (f"files/{tail}", f"files/{tail}/preview", f"pending-uploads/{tail}/content"):
        check_refusal(await ask(plain.port, "GET", f"/workspaces/{seat.id}/{path}", token=seat.token), 404)


@requirement("S16")
@pytest.mark.parametrize("planted", ["a link", "a folder", "a pipe", "nothing", "another size"])
async def test_what_lies_in_the_place_of_a_file_and_is_none_is_not_read(
    plain: Running, tmp_path: Path, planted: str
) -> None:
    seat = await plain.seat()
    (file,) = await uploaded(plain, seat.id, ADMIN_TOKEN, ("a.png", b"secret"))
    secret = tmp_path / "secret"
    secret.write_bytes(b"SECRET")
    place = plain.server.settings.files_folder / id_of(file)
    place.unlink()
    if planted == "a link":
        place.symlink_to(secret)
    elif planted == "a folder":
        place.mkdir()
    elif planted == "a pipe":
        os.mkfifo(place)
    elif planted == "another size":
        place.write_bytes(b"longer than it was")
    for tail in ("", "/preview"):
        reply = check_refusal(await ask(plain.port, "GET", place_of(file) + tail, token=ADMIN_TOKEN), 404)
        assert b"SECRET" not in reply.body


@requirement("S16")
async def test_a_link_that_waits_where_a_file_is_to_be_written_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    disk = BlobStore(tmp_path / "files", reserved_bytes=0)
    disk.open()
    try:
        (tmp_path / "files" / f"{ID}.part").symlink_to(target)
        with pytest.raises(FilesUnavailable):
            await disk.open_writer(ID)
        assert not target.exists()
        for name in ("../target", "target", "", "/etc/passwd", ID.upper()):
            with pytest.raises(NotFound):
                await disk.open_writer(name)
            with pytest.raises(NotFound):
                await disk.open_reader(name, 1)
    finally:
        disk.close()


@requirement("S14")
async def test_a_file_that_was_opened_for_somebody_who_has_gone_is_not_held_open(tmp_path: Path) -> None:
    disk = BlobStore(tmp_path / "files", reserved_bytes=0)
    disk.open()
    try:
        (tmp_path / "files" / ID).write_bytes(b"hello")
        outgoing = await disk.open_reader(ID, 5)
        assert len(_held(tmp_path)) == 2, "the folder and the file"
        del outgoing
        await checkpoint()  # the turn of the loop in which it came holds it
        gc.collect()
        assert len(_held(tmp_path)) == 1
    finally:
        disk.close()


@requirement("S14")
async def test_a_file_that_comes_byte_by_byte_is_written_in_few_pieces_and_whole(tmp_path: Path) -> None:
    disk = BlobStore(tmp_path / "files", reserved_bytes=0)
    disk.open()
    written = tmp_path / "files" / f"{ID}.part"
    content = bytes(range(256)) * 300  # more than is gathered, and no multiple of it
    try:
        incoming = await disk.open_writer(ID)
        sizes = set()
        for byte in content:
            await incoming.write(bytes((byte,)))
            sizes.add(written.stat().st_size)
        assert sizes == {0, 64 << 10}
        await incoming.commit()
        assert written.with_suffix("").read_bytes() == content
        assert (incoming.size, incoming.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    finally:
        disk.close()


def _open_files(server: Running) -> int:
    """How many files of the folder this process holds open."""
    folder = str(server.server.settings.files_folder) + "/"
    return sum(each.startswith(folder) for each in _held(server.server.settings.files_folder))


def _held(below: Path) -> list[str]:
    """What this process holds open at a place and below it."""
    held = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            held.append(str(each.readlink()))
    return [each for each in held if each.startswith(str(below))]


async def _until_open(server: Running, wanted: int) -> None:
    async def look() -> int:
        await checkpoint()
        return _open_files(server)

    await eventually(look, lambda found: found == wanted)


@requirement("S14", "M35")
async def test_a_reader_that_takes_nothing_is_cut_off_and_others_are_served(tmp_path: Path) -> None:
    limits = Limits(body_seconds=1)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        seat = await server.seat()
        content = bytes(range(256)) * (20 * _MIB // 256)
        (file,) = await uploaded(server, seat.id, ADMIN_TOKEN, ("large", content))
        async with wire(server.port) as stalled:
            await stalled.send(request("GET", place_of(file), token=ADMIN_TOKEN))
            await _until_open(server, 1)
            assert (await ask(server.port, "GET", place_of(file), token=ADMIN_TOKEN)).body == content
            await _until_open(server, 0)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await stalled.reply()


@requirement("M35")
async def test_a_reader_that_hangs_up_lets_go_of_the_file(plain: Running) -> None:
    seat = await plain.seat()
    (file,) = await uploaded(plain, seat.id, ADMIN_TOKEN, ("large", b"x" * (20 * _MIB)))
    async with wire(plain.port) as connection:
        await connection.send(request("GET", place_of(file), token=ADMIN_TOKEN))
        await _until_open(plain, 1)
    await _until_open(plain, 0)
    assert (await ask(plain.port, "GET", "/health")).status == 200
