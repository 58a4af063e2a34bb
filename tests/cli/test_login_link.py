"""`molecule login-link` as a person meets it: a link that works, or one line that says what to do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


async def link(state: Path, port: int, *args: str, **env: str) -> tuple[int, str, str]:
    """What the command says: exit code, standard output, standard error."""
    async with started(MOLECULE, "login-link", *args, env=environment(state, port, **env)) as process:
        code = await process.ended()
        return code, (await process.output()).strip(), process.said.strip()


async def log_in(port: int, url: str) -> Reply:
    """What the page does with a link."""
    code = url.partition("#login=")[2]
    return await ask(port, "POST", "/login", {"code": code}, headers={"X-Molecule-Client": "canvas"})


def check_one_line(outcome: tuple[int, str, str], *words: str) -> None:
    """A refusal as a person should see it."""
    code, out, err = outcome
    assert (code, out) == (2, ""), outcome
    (line,) = err.splitlines()
    assert line.startswith("molecule: ")
    assert [word for word in words if word not in line] == [], line


@requirement("C74", "O1")
async def test_a_link_of_the_running_server_logs_its_first_owner_in_once(state: Path, port: int) -> None:
    async with serving(state, port):
        code, url, said = await link(state, port)
        assert (code, said) == (0, "")
        assert url.startswith(f"http://127.0.0.1:{port}/app/#login=mol_ln_")
        assert len(url.splitlines()) == 1
        reply = await log_in(port, url)
        assert (reply.status, reply.json["user"]["name"], reply.json["user"]["role"]) == (200, "Owner", "owner")
        assert (await log_in(port, url)).status == 401
        _, again, _ = await link(state, port, "--port", str(port), MOLECULE_PORT="1")
        second = await log_in(port, again)
        assert (second.status, second.json["user"]) == (200, reply.json["user"])


@requirement("C74", "O1")
async def test_a_link_is_for_the_organisation_and_the_person_that_are_named(state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        org = await admin.post("/orgs", {"name": "Second one"})
        for name, role in (("Ada", "viewer"), ("Grace", "operator")):
            await admin.post(f"/orgs/{org['id']}/people", {"name": name, "role": role})
        _, url, _ = await link(state, port, "--org", "Second one", "--person", "Grace")
        reply = await log_in(port, url)
        assert (reply.json["user"]["name"], reply.json["org"]["name"]) == ("Grace", "Second one")
        check_one_line(await link(state, port, "--org", "No such"), "organisation", "No such", "Default", "Second one")
        check_one_line(await link(state, port, "--org", "Second one", "--person", "Zoe"), "person", "Ada", "Grace")
        check_one_line(await link(state, port, "--person", "Ada"), "person", "Ada")
        assert len(await admin.get(f"/orgs/{org['id']}/people")) == 2


@requirement("C74", "O1")
async def test_no_server_or_another_ones_token_is_said_in_one_line(state: Path, port: int) -> None:
    check_one_line(await link(state, port), "no server responds", str(port), "--server")
    async with serving(state, port):
        check_one_line(await link(state, port, MOLECULE_ADMIN_TOKEN="x" * 40), "cannot create a login link")
        code, out, err = await link(state, port)
        assert (code, err) == (0, "")
        assert ADMIN_TOKEN not in out


@requirement("C74", "O1")
@pytest.mark.parametrize("body", [b"<html>another program</html>", b'{"status": "ok"}', b'["x"]', b"[]", b"null", b""])
async def test_another_program_on_the_port_is_said_in_one_line(state: Path, port: int, body: bytes) -> None:
    async with another_program(port, body):
        check_one_line(await link(state, port), "cannot create a login link")


@contextlib.asynccontextmanager
async def another_program(port: int, body: bytes) -> AsyncIterator[None]:
    """Something else that speaks HTTP."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()


@requirement("C74", "O1")
async def test_asking_leaves_nothing_behind_where_no_server_ever_was(state: Path, port: int) -> None:
    """A mistyped folder must not become a new one, with a token that no server knows."""
    env = {**environment(state, port)}
    del env["MOLECULE_ADMIN_TOKEN"]
    async with started(MOLECULE, "login-link", env=env) as process:
        assert await process.ended() == 2
        assert "Traceback" not in process.said
    assert not state.exists()


@requirement("C74", "O3")
async def test_a_link_is_in_no_log(state: Path, port: int) -> None:
    async with serving(state, port, MOLECULE_LOG_LEVEL="debug") as process:
        _, url, _ = await link(state, port)
        await log_in(port, url)
        assert url.partition("#login=")[2] not in process.said
        assert "mol_se_" not in process.said
