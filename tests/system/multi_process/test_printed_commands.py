"""The three processes of docs/how-to/postgresql.md, started by the commands that the page prints."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from testing.engines import new_database
from testing.ports import free_port
from testing.processes import ROOT, client, started
from testing.raw_http import ask
from testing.upload_forms import FORM, form, place_of
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement
from tests.system.docs.blocks import read_blocks

PRINTED_PORTS = ("8081", "8082", "8083")
PRINTED_NATS = "nats://user:password@queue:4222"
NATS_SERVER = str(Path(sys.executable).parent / "nats-server")


def printed_block(word: str) -> str:
    """Return the block of the page that has a word."""
    (text,) = [each.text for each in read_blocks(ROOT / "docs/how-to/postgresql.md") if word in each.text]
    return text


def printed_commands(database: str, folder: Path, ports: list[int]) -> str:
    """Return the block of the page, with places and ports of this test."""
    text = printed_block(PRINTED_PORTS[2])
    places = {
        "postgresql://molecule@db.internal/molecule": database,
        "https://molecule.example": f"http://127.0.0.1:{ports[0]}",
        "/shared/": f"{folder}/shared/",
        "/var/lib/molecule": f"{folder}/state",
        **{printed: str(port) for printed, port in zip(PRINTED_PORTS, ports, strict=True)},
    }
    for printed, real in places.items():
        assert printed in text
        text = text.replace(printed, real)
    return text


def printed_nats(port: int) -> str:
    """Return the line of the page that names the NATS server, with the port of this test."""
    (line,) = [each for each in printed_block(PRINTED_NATS).splitlines() if PRINTED_NATS in each]
    return line.replace("queue:4222", f"127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def nats_server(port: int) -> AsyncIterator[None]:
    """Run a NATS server that asks for the user and password of the page."""
    login = ("--user", "user", "--pass", "password")
    async with started(NATS_SERVER, "--addr", "127.0.0.1", "--port", str(port), *login, env={}) as process:
        await process.says("Server is ready")
        yield


@contextlib.asynccontextmanager
async def printed_processes(commands: str, folder: Path) -> AsyncIterator[None]:
    """Run the commands of the page in a shell of its own, until the block ends."""
    script = folder / "commands.sh"
    script.write_text(f"set -e\n{commands}\nwait\n")
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "HOME": str(folder),
        "MOLECULE_LOG_LEVEL": "error",
    }
    shell = await asyncio.create_subprocess_exec("bash", script, cwd=folder, env=environment, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        async with asyncio.timeout(PROCESS_START_SECONDS):
            await shell.wait()


@requirement("O1", "M38")
@pytest.mark.parametrize("bus", ["postgres", "nats"])
async def test_the_printed_processes_share_token_files_and_mail(postgres: str, tmp_path: Path, bus: str) -> None:
    ports, nats_port = [free_port() for _ in PRINTED_PORTS], free_port()
    commands = printed_commands(await new_database(postgres), tmp_path, ports)
    async with contextlib.AsyncExitStack() as stack:
        if bus == "nats":
            await stack.enter_async_context(nats_server(nats_port))
            commands = f"{printed_nats(nats_port)}\n{commands}"
        await stack.enter_async_context(printed_processes(commands, tmp_path))
        for port in ports:
            await eventually(partial(wake_ups, port), lambda said: said == "listening", PROCESS_START_SECONDS)
        token = (tmp_path / "admin-token").read_text().strip()
        async with client(ports[0], token) as admin:
            workspace = await admin.post("/workspaces", {"name": "Ops"})
        path = f"/workspaces/{workspace['id']}/chat/uploads"
        uploaded = await ask(ports[1], "POST", path, form(("a.txt", b"hello")), token=token, headers=FORM)
        read = await ask(ports[2], "GET", place_of(uploaded.json["files"][0]), token=token)
        async with client(ports[2], token) as sender, client(ports[1], workspace["connection"]["auth_token"]) as agent:
            await sender.send(workspace["id"], "read it")
            rows = await agent.claim(workspace["id"])

    assert (tmp_path / "admin-token").stat().st_mode & 0o777 == 0o600
    assert (read.status, read.body) == (200, b"hello")
    assert [row["summary"] for row in rows][-1] == "read it"


async def wake_ups(port: int) -> str:
    """Return what a process says of its wake-ups; empty until it is ready."""
    try:
        reply = await ask(port, "GET", "/ready")
    except OSError:
        return ""
    return str(reply.json["wake_ups"]) if reply.status == 200 else ""
