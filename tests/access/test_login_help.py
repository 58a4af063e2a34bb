"""The command that the login page shows: exact on the server's own machine, without its paths anywhere else."""

import shlex
import sys
from pathlib import Path

import pytest

from molecule_core.common import own_command
from molecule_core.common.own_command import login_link_command
from molecule_core.common.settings import Settings
from testing.engines import Engine
from testing.raw_http import Reply, ask
from testing.running_server import Running, running
from tests.requirements import requirement

UNKNOWN = {"command": "molecule login-link", "is_exact": False, "needs_admin_token": False}
SQLITE = pytest.mark.parametrize("engine", ["sqlite"])


async def help_of(server: Running, **headers: str) -> Reply:
    """What a page that nobody is logged in to is told."""
    return await ask(server.port, "GET", "/login", headers={"Host": f"127.0.0.1:{server.port}", **headers})


@requirement("C112")
async def test_on_its_own_machine_the_command_names_folder_and_port(server: Running) -> None:
    settings = server.server.settings
    for host in ("127.0.0.1", "localhost"):
        reply = await help_of(server, Host=f"{host}:{server.port}")
        assert reply.status == 200
        assert reply.headers["cache-control"] == "no-store"
        words = shlex.split(reply.json["command"])
        assert words[-5:] == ["login-link", "--state-dir", str(settings.state_folder), "--port", str(server.port)]
        assert reply.json["is_exact"]


@requirement("C112")
async def test_the_admin_token_is_asked_for_where_the_folder_has_none(server: Running) -> None:
    folder = server.server.settings.state_folder
    assert (await help_of(server)).json["needs_admin_token"]
    (folder / "admin-token").write_text("x" * 40)
    told = await help_of(server)
    assert not told.json["needs_admin_token"]
    assert "x" * 40 not in told.body.decode()


@requirement("C112", "S8")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", "molecule.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Real-IP", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1"),
        ("Via", "1.1 proxy"),
    ],
)
async def test_behind_a_proxy_no_path_is_told(server: Running, name: str, value: str) -> None:
    assert (await help_of(server, **{name: value})).json == UNKNOWN


@requirement("C112", "S8")
@SQLITE
async def test_a_server_with_a_public_name_tells_no_path(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, public_url="https://molecule.example") as server:
        for host in (f"127.0.0.1:{server.port}", "molecule.example"):
            assert (await help_of(server, Host=host)).json == UNKNOWN


@requirement("C112")
@SQLITE
async def test_another_name_of_the_machine_tells_no_path(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, allowed_hosts=("laptop.local",)) as server:
        assert (await help_of(server, Host=f"laptop.local:{server.port}")).json == UNKNOWN


# -- the command -------------------------------------------------------------------------------------------------------


def program(path: Path) -> Path:
    """A program of this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@requirement("C112")
def test_the_command_is_quoted_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = program(tmp_path / "Ada's programs" / "molecule")
    monkeypatch.setattr(sys, "argv", [str(script)])
    state = tmp_path / "a state; rm -rf $HOME"
    command = login_link_command(Settings(state_dir=str(state), port=80))
    assert shlex.split(command) == [str(script), "login-link", "--state-dir", str(state), "--port", "80"]


@requirement("C112")
def test_a_folder_is_named_for_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"--state-dir {tmp_path}/here " in login_link_command(Settings(state_dir="here"))


@requirement("C112")
@pytest.mark.parametrize(("host", "port"), [("192.168.1.5", 80), ("::1", 80), ("127.0.0.1", 0)])
def test_a_server_that_is_not_at_the_port_of_this_machine_is_found_by_its_folder(host: str, port: int) -> None:
    assert "--port" not in login_link_command(Settings(host=host, port=port, state_dir="/state"))


@requirement("C112")
def test_a_program_on_the_path_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = program(tmp_path / "bin" / "molecule")
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert own_command.own_command() == str(script)
    monkeypatch.setenv("PATH", str(script.parent))
    assert own_command.own_command() == "molecule"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # of a virtual environment, which a terminal may not activate
    assert own_command.own_command() == str(script)


@requirement("C112")
def test_without_a_program_the_interpreter_runs_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python3"))
    assert own_command.own_command() == f"{tmp_path}/bin/python3 -m molecule_core"
