"""What strangers send does not become memory: a real server's peak, as the kernel counts it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.client.api import ApiClient
from testing.ports import free_port
from testing.processes import ANEW, LISTENS, Process, environment, started
from testing.raw_http import Wire, ask, chunk, request, wire
from testing.running_server import ADMIN_TOKEN
from testing.upload_forms import FORM, end, part, place_of
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

_MIB = 1 << 20
_MOST_GROWTH = 16 * _MIB
_PIECE = 1 << 18


class Watched:
    """A server of its own process, warmed up, and a seat in it."""

    def __init__(self, process: Process, port: int, seat: str) -> None:
        self.port = port
        self.seat = seat
        self._status = Path("/proc") / str(process.pid) / "status"
        self._before = self._bytes("VmRSS")

    def _bytes(self, name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+) kB$", self._status.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) << 10

    @property
    def growth(self) -> int:
        """The most memory it ever had, beyond what it had when it was warm."""
        return self._bytes("VmHWM") - self._before


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    """`molecule serve` in a process of its own."""
    port = free_port()
    async with started(*ANEW, "serve", env=environment(tmp_path / "state", port)) as process:
        await process.says(LISTENS)
        async with ApiClient(f"http://127.0.0.1:{port}", ADMIN_TOKEN) as api:
            seat = str((await api.post("/workspaces", {"name": "Watched"}))["id"])
            for number in range(5):  # what is loaded or made once is there before it is looked at
                await api.send(seat, "x" * 200_000, message_id=f"warm-{number}")
            await api.get("/openapi.json")
        yield Watched(process, port, seat)


async def _pour(connection: Wire, piece: bytes, size: int) -> None:
    """Sends so many bytes, or as many as the other side takes."""
    with contextlib.suppress(ConnectionError):
        for _ in range(size // len(piece)):
            await connection.send(piece)


async def _pour_until_answered(connection: Wire, piece: bytes, size: int) -> int:
    """Sends so many bytes, or until an answer has come, as clients that look at it do; the status of the answer."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        for _ in range(size // len(piece)):
            if connection.answered:
                break
            await connection.send(piece)
            await checkpoint()  # a client that never looks up cannot see the answer
        return (await connection.reply()).status


@requirement("S14")
@pytest.mark.parametrize("looks_up", [True, False])
async def test_an_upload_of_300_mib_is_refused_and_leaves_no_trace_in_memory(watched: Watched, looks_up: bool) -> None:
    async with wire(watched.port) as connection:
        headers = {"Transfer-Encoding": "chunked"}
        await connection.send(request("POST", f"/workspaces/{watched.seat}/a2a", token=ADMIN_TOKEN, headers=headers))
        piece = chunk(b"x" * _PIECE)
        if looks_up:
            assert await _pour_until_answered(connection, piece, 300 * _MIB) == 413
        else:
            await _pour(connection, piece, 300 * _MIB)
    assert watched.growth <= _MOST_GROWTH


@requirement("S14")
@pytest.mark.parametrize("looks_up", [True, False])
async def test_a_file_of_300_mib_is_refused_and_leaves_no_trace_in_memory(watched: Watched, looks_up: bool) -> None:
    async with wire(watched.port) as connection:
        headers = {**FORM, "Transfer-Encoding": "chunked"}
        path = f"/workspaces/{watched.seat}/chat/uploads"
        await connection.send(request("POST", path, token=ADMIN_TOKEN, headers=headers))
        await connection.send(chunk(part("large", b"")[:-2]))
        piece = chunk(b"x" * _PIECE)
        if looks_up:
            assert await _pour_until_answered(connection, piece, 300 * _MIB) == 413
        else:
            await _pour(connection, piece, 300 * _MIB)
    assert watched.growth <= _MOST_GROWTH


@requirement("S14", "M35")
async def test_ten_files_of_the_largest_size_come_and_go_without_a_trace_in_memory(watched: Watched) -> None:
    piece = b"x" * _PIECE
    files = [part(f"{number}", b"")[:-2] for number in range(10)]
    size = sum(map(len, files)) + 10 * (25 * _MIB + 2) + len(end())
    async with wire(watched.port) as connection, asyncio.timeout(PROCESS_START_SECONDS):
        headers = {**FORM, "Content-Length": str(size)}
        path = f"/workspaces/{watched.seat}/chat/uploads"
        await connection.send(request("POST", path, token=ADMIN_TOKEN, headers=headers))
        for each in files:
            await connection.send(each)
            for _ in range(25 * _MIB // _PIECE):
                await connection.send(piece)
            await connection.send(b"\r\n")
        await connection.send(end())
        reply = await connection.reply()
        assert reply.status == 200
    for file in reply.json["files"][:3]:
        got = await ask(watched.port, "GET", place_of(file), token=ADMIN_TOKEN)
        assert len(got.body) == 25 * _MIB
    assert watched.growth <= _MOST_GROWTH


@requirement("S14")
async def test_a_header_that_never_ends_is_refused_and_leaves_no_trace_in_memory(watched: Watched) -> None:
    async with wire(watched.port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        assert await _pour_until_answered(connection, b"x" * (1 << 16), 64 * _MIB) == 431
    assert watched.growth <= _MOST_GROWTH


@requirement("S14")
async def test_chunks_that_carry_only_extensions_leave_no_trace_in_memory(watched: Watched) -> None:
    async with wire(watched.port) as connection:
        headers = {"Transfer-Encoding": "chunked"}
        await connection.send(request("POST", "/orgs", token=ADMIN_TOKEN, headers=headers))
        await _pour(connection, b"1;" + b"x" * 60_000 + b"\r\n{\r\n", 64 * _MIB)
        await connection.send(chunk(b""))
        assert (await connection.reply()).status == 400
    assert watched.growth <= _MOST_GROWTH


@requirement("S14")
async def test_questions_whose_answers_nobody_reads_leave_no_trace_in_memory(watched: Watched) -> None:
    """Answers of far more than the bound, if they were all made: `/openapi.json` is well over a hundred kilobytes."""
    async with wire(watched.port) as connection:
        question = request("GET", "/openapi.json", token=ADMIN_TOKEN)
        with contextlib.suppress(TimeoutError, ConnectionError):
            await connection.send(question * 20_000)
        async with wire(watched.port) as other:
            assert (await other.ask("GET", "/health")).status == 200
        assert watched.growth <= _MOST_GROWTH
