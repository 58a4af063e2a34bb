"""A server whose disk is really full: a small disk in memory, filled to its last byte."""

import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from molecule_core.client.api import ApiError
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, client, environment, serving, started
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN
from testing.waits import eventually
from tests.requirements import requirement

_MEGABYTE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No byte more fits on the disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(_MEGABYTE))
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1))
    try:
        yield
    finally:
        filler.unlink()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A port for a server."""
    yield free_port()


async def ready(port: int) -> Reply:
    """Ask whether the server is ready."""
    return await ask(port, "GET", "/ready")


async def doctor(state: Path, port: int) -> str:
    """Return what doctor prints."""
    async with started(MOLECULE, "doctor", env=environment(state, port)) as process:
        await process.ended()
        return await process.output()


@requirement("O1", "P1")
async def test_a_store_that_cannot_write_is_logged_and_not_ready_until_it_recovers(disk: Path, port: int) -> None:
    state = disk / "state"
    async with serving(state, port, MOLECULE_LIMIT_SWEEP_SECONDS="1") as server, client(port) as admin:
        seat = str((await admin.post("/workspaces", {"name": "Ops"}))["id"])
        before = await ready(port)
        with filled(disk):
            with pytest.raises(ApiError) as refused:
                for _ in range(200):  # what SQLite has reserved already may take some
                    await admin.send(seat, "x" * 40_000)
            meanwhile = await ready(port)
            checked = await doctor(state, port)
            await server.says("the store cannot be written")
        after = await eventually(lambda: ready(port), lambda reply: reply.status == 200)
        sent = await admin.send(seat, "after")
        await server.says("the store can be written again")
        said = server.said

    assert (before.status, refused.value.status) == (200, 503)
    assert (meanwhile.status, meanwhile.json["code"]) == (503, "store_write_failed")
    assert "database or disk is full" in said
    assert said.count("the store cannot be written") == 1
    assert "FAIL  server" in checked
    assert "the store of the server cannot be written" in checked
    assert after.json["status"] == "ready"
    assert sent["activity_id"]


@requirement("O1")
@pytest.mark.parametrize("begun", [False, True], ids=["a first start", "a later start"])
async def test_a_start_on_a_full_disk_says_so(disk: Path, port: int, begun: bool) -> None:
    state = disk / "state"
    if begun:
        async with serving(state, port):
            pass
    else:
        state.mkdir(mode=0o700)
    with filled(disk):
        async with started(MOLECULE, "serve", env=environment(state, port)) as process:
            code = await process.refused()
            said = process.said.strip().splitlines()
    async with serving(state, port) as server:
        await server.says(LISTENS)
        health = await ask(port, "GET", "/health", token=ADMIN_TOKEN)

    assert code == 2
    assert "invalid setting" not in said[-1]
    assert "Restore a backup" not in said[-1]
    assert any(words in said[-1] for words in ("no space left", "disk is full")), said
    assert health.status == 200
