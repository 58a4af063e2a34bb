"""`molecule connect --apply` where the host's file is not what it expects: edited rightly, or refused unchanged."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.connect_home import Home
from testing.ports import free_port
from testing.processes import client, serving
from tests.cli.test_connect import FILES, SETTINGS
from tests.requirements import requirement

Maker = Callable[[Path], None]


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def home(tmp_path: Path, port: int) -> Home:
    """A person on the machine of that server."""
    return Home(tmp_path, tmp_path / "state", port)


def text(content: str | bytes) -> Maker:
    """A file with this content."""

    def write(file: Path) -> None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def link_to(target: str) -> Maker:
    """A link; the target may be outside."""
    return lambda file: file.symlink_to(target)


def outside(file: Path) -> None:
    """A link to a file of the person's, beside the home."""
    target = file.parents[2] / "profile"
    target.write_text("{}")
    file.symlink_to(target)


def folder_outside(file: Path) -> None:
    """The file's folder is a link to one outside the project."""
    other = file.parent.parent.parent / "other"
    other.mkdir()
    file.parent.rmdir()
    file.parent.symlink_to(other)


REFUSED: list[tuple[str, str, Maker, str]] = [
    ("claude-code", FILES["claude-code"], text('{\n  // mine\n  "a": 1\n}'), "line 2 has a comment"),
    ("claude-code", FILES["claude-code"], text('{\n  "a": 1,\n}'), "line 2 has a comma after the last member"),
    ("claude-code", FILES["claude-code"], text('{"a": 1}'.encode("utf-16")), "line 1 is not UTF-8"),
    ("claude-code", FILES["claude-code"], outside, "it is a link to"),
    ("claude-code", FILES["claude-code"], link_to("../../not-there"), "it is a link to"),
    ("claude-code", FILES["claude-code"], link_to("/dev/null"), "it is a link to /dev/null"),
    ("claude-code", FILES["claude-code"], os.mkfifo, "it is not a regular file"),
    ("claude-code", FILES["claude-code"], Path.mkdir, "it is not a regular file"),
    ("claude-code", SETTINGS, text("{} // mine"), "line 1 has a comment"),
    ("claude-code", SETTINGS, folder_outside, "it is a link to"),
    ("codex", FILES["codex"], os.mkfifo, "it is not a regular file"),
    ("codex", FILES["codex"], link_to("/dev/zero"), "it is a link to /dev/zero"),
    ("codex", FILES["codex"], text("[mcp_servers\n"), "line 1"),
    ("gemini", FILES["gemini"], text('\ufeff{"theme": "dark"}'), "line 1 has a byte order mark"),
    ("gemini", FILES["gemini"], text('{\n "a": [1, 2, ]}'), "line 2 has a comma"),
    ("cline", FILES["cline"], text("{} /* mine */"), "line 1 has a comment"),
]


@requirement("G24")
@pytest.mark.parametrize(("host", "name", "make", "reason"), REFUSED, ids=[f"{n}" for n in range(len(REFUSED))])
async def test_a_file_that_the_host_cannot_read_or_that_is_elsewhere_is_refused_unchanged(
    home: Home, port: int, host: str, name: str, make: Maker, reason: str
) -> None:
    file = home.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    make(file)
    before = home.files()
    async with serving(home.state, port), client(port) as admin:
        said = await home.connect(host, "--workspace", "Ops", "--create", "--apply")
        assert (said.code, said.out) == (2, ""), said
        assert len(said.err.splitlines()) == 1
        assert reason in said.err
        assert file.name in said.err
        assert await admin.get("/workspaces") == []
    assert home.files() == before
    assert not home.agents.exists()


EDITED: list[tuple[str, str]] = [
    ("claude-code", '\ufeff{"mcpServers": {"molecule": {"type": "http", "url": "https://old.example/mcp"}}}'),
    ("codex", '\ufeff# mine\n[mcp_servers.molecule]\nurl = "https://old.example/mcp"\nbearer_token_env_var = "T"\n'),
    ("gemini", '// mine\n{"mcpServers": {"molecule": {"httpUrl": "https://old.example/mcp", "headers": {}}}}'),
    ("opencode", '\ufeff// mine\n{"mcp": {"molecule": {"type": "remote", "url": "https://old.example/mcp", }}, }'),
]


@requirement("G24")
@pytest.mark.parametrize(("host", "content"), EDITED, ids=[host for host, _ in EDITED])
async def test_an_entry_of_a_remote_server_becomes_one_with_a_command_and_undo_brings_it_back(
    home: Home, port: int, host: str, content: str
) -> None:
    file = home.folder / FILES[host]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    async with serving(home.state, port):
        said = await home.connect(host, "--workspace", "Ops", "--create", "--apply")
        assert said.code == 0, said
        edited = file.read_text()
        assert "old.example" not in edited
        assert str(home.launcher) in edited
        assert edited.startswith("\ufeff") == content.startswith("\ufeff")
        assert ("mine" in edited) == ("mine" in content)
        if host == "codex":
            entry = tomllib.loads(edited.removeprefix("\ufeff"))["mcp_servers"]["molecule"]
            assert "bearer_token_env_var" not in entry
        assert (await home.connect(host, "--undo")).code == 0
    assert file.read_text() == content


@requirement("G24")
async def test_a_link_within_the_project_stays_a_link(home: Home, port: int) -> None:
    (home.project / "config").mkdir()
    kept = home.project / "config" / "servers.json"
    kept.write_text("{}")
    link = home.project / ".mcp.json"
    link.symlink_to("config/servers.json")
    async with serving(home.state, port):
        assert (await home.connect("claude-code", "--workspace", "Ops", "--create", "--apply")).code == 0
    assert link.is_symlink()
    assert "molecule" in json.loads(kept.read_text())["mcpServers"]
