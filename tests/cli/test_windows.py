"""The command line on Windows: `connect` writes the HTTP form, and verbs that cannot run there say so."""

import asyncio
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from molecule_core.cli import COMMANDS, _platform, molecule
from molecule_core.tools.host_config import Host, find_host
from testing.mcp_clients import greeting
from testing.ports import free_port
from testing.processes import environment, serving
from testing.raw_http import ask
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

REMOTE_HOSTS = ("claude-code", "codex", "cursor", "gemini", "opencode")
UNSUPPORTED = (
    *("serve", "up", "backup", "restore", "doctor", "mcp", "bridge", "agent", "runner", "inbox-hook", "host-hook"),
)
POSIX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "uvloop")


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line take this machine for one with Windows."""
    monkeypatch.setattr(_platform, "current_platform", lambda: "win32")


async def molecule_on(state: Path, port: int, *args: str) -> Result:
    """Run a command in this process, which believes in Windows."""
    env: dict[str, str | None] = {**environment(state, port)}
    async with asyncio.timeout(PROCESS_START_SECONDS):
        return await asyncio.to_thread(CliRunner().invoke, molecule, args, None, env)


def entry_in(host: Host, text: str) -> dict[str, Any]:
    """Return our entry of a configuration."""
    value: Any = tomllib.loads(text) if host.language == "toml" else json.loads(text)
    for name in host.entry_path:
        value = value[name]
    return dict(value)


@requirement("G24", "O3")
@pytest.mark.parametrize("name", REMOTE_HOSTS)
async def test_connect_writes_the_http_form_whose_address_answers_to_the_token(name: str, tmp_path: Path) -> None:
    host, state, port, config = find_host(name), tmp_path / "state", free_port(), tmp_path / "config"
    assert host is not None
    args = ("connect", name, "--workspace", "Ops", "--wait", "0", "--file", str(config))
    async with serving(state, port):
        printed = await molecule_on(state, port, *args, "--create")
        applied = await molecule_on(state, port, *args, "--apply")
        entry = entry_in(host, config.read_text())
        (token_file,) = (state / "agents").glob(f"*.{name}.token")
        token = token_file.read_text().strip()
        url = str(entry.get("url") or entry["httpUrl"])
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        path, body = url.removeprefix(f"http://127.0.0.1:{port}"), json.dumps(greeting()).encode()
        answer = await ask(port, "POST", path, body, token=token, headers=headers)
        undone = await molecule_on(state, port, *args, "--undo")

    assert (printed.exit_code, applied.exit_code, undone.exit_code) == (0, 0, 0), (printed, applied, undone)
    assert entry_in(host, printed.stdout) == entry
    assert url == f"http://127.0.0.1:{port}/mcp"
    assert "MOLECULE_WORKSPACE_TOKEN" in json.dumps(entry)
    assert not {"command", "args", "env"} & set(entry)
    assert f'(Get-Content -Raw "{token_file}").Trim()' in printed.stderr
    assert token not in config.name + printed.output + applied.output
    assert answer.status == 200
    assert not config.exists()


@requirement("G24")
@pytest.mark.parametrize("args", [("cline",), ("env",), ("claude-code", "--hooks")])
async def test_what_needs_a_process_of_ours_is_refused(args: tuple[str, ...], tmp_path: Path) -> None:
    said = await molecule_on(tmp_path, free_port(), "connect", *args, "--workspace", "Ops")
    assert "Windows" in str(said.exception)


@requirement("G24", "O8")
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verb_that_cannot_run_says_what_to_do_and_all_others_have_their_help(verb: str) -> None:
    said = CliRunner().invoke(molecule, [verb, "--help"])
    if verb in UNSUPPORTED:
        assert f"`molecule {verb}` cannot run on Windows" in str(said.exception)
        assert "WSL" in str(said.exception)
    else:
        assert (said.exit_code, said.stdout.startswith("Usage")) == (0, True)


@requirement("G24", "O8")
def test_the_other_verbs_need_no_module_that_windows_lacks() -> None:
    verbs = [verb for verb in COMMANDS if verb not in UNSUPPORTED]
    program = f"import sys; sys.modules.update(dict.fromkeys({POSIX_MODULES}))\n"
    program += f"from molecule_core.cli import COMMANDS\nprint([COMMANDS[verb][1]().name for verb in {verbs}])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PROCESS_START_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split(",")) == len(verbs)
