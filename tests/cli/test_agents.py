"""`molecule up` with its runner, and `molecule agents`, as an operator uses them."""

import fcntl
import signal
import sys
from pathlib import Path

import pytest

from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, client, environment, started
from testing.waits import PROCESS_START_SECONDS, eventually

SCRIPTED = Path(__file__).resolve().parents[2] / "testing" / "scripted_claude.py"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with Claude Code and nothing else."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "sessions").mkdir()
    claude = tmp_path / "bin" / "claude"
    version = '[ "$1" = --version ] && echo "2.1.332 (Claude Code)" && exit'
    claude.write_text(f'#!/bin/sh\n{version}\nexec {sys.executable} {SCRIPTED} "$@"\n')
    claude.chmod(0o755)
    variables = environment(tmp_path / "state", free_port())
    return {**variables, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SCRIPTED_CLAUDE": str(tmp_path / "sessions")}


async def _agents(env: dict[str, str], *args: str) -> tuple[int, str]:
    """What `molecule agents` says: exit code, and both outputs."""
    async with started(MOLECULE, "agents", *args, env=env) as process:
        code = await process.ended()
        return code, (await process.output()) + process.said


def _is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


async def test_an_operator_starts_and_stops_an_agent_on_the_machine_of_up(tmp_path: Path, env: dict[str, str]) -> None:
    port, home = int(env["MOLECULE_PORT"]), tmp_path / "state" / "runner"
    async with started(MOLECULE, "up", env=env) as server, client(port) as admin:
        await server.says(LISTENS)
        shop = await admin.post("/workspaces", {"name": "Shop"})

        async def listed() -> str:
            return (await _agents(env, "list"))[1]

        await eventually(listed, lambda found: "online): Claude Code 2.1.332" in found, PROCESS_START_SECONDS)
        code, said = await _agents(env, "start", "Shop", "--folder", str(tmp_path))
        assert (code, "is not below a folder that runner.toml allows" in " ".join(said.split())) == (2, True)
        code, said = await _agents(env, "start", "Shop", "--mode", "bypassPermissions")
        assert (code, "the runner does not allow it" in " ".join(said.split())) == (2, True)
        code, said = await _agents(env, "start", "Shop")
        assert (code, said.strip()) == (0, f"started Shop in {home / 'work' / 'Shop'}")

        await admin.send(shop["id"], "hello")

        async def chat() -> str:
            return str(await admin.get(f"/workspaces/{shop['id']}/chat-history"))

        await eventually(chat, lambda found: "'role': 'agent'" in found, PROCESS_START_SECONDS)
        await eventually(listed, lambda found: "running    Shop  claude in" in found, PROCESS_START_SECONDS)
        assert "bridged to Claude Code 2.1.332" in (await _agents(env, "logs", "Shop"))[1]
        assert (await _agents(env, "stop", "Shop"))[1].strip() == "stopped"
        assert "Shop" not in await listed()
        server.send(signal.SIGTERM)
        assert await server.ended() == 0

    async def ended() -> bool:
        return _is_free(home / "runner.lock")

    await eventually(ended, bool, PROCESS_START_SECONDS)


async def test_another_machine_is_enrolled_and_removed(env: dict[str, str], tmp_path: Path) -> None:
    async with started(MOLECULE, "up", "--no-runner", env=env) as server:
        await server.says(LISTENS)
        assert "No runners." in (await _agents(env, "list"))[1]
        code, said = await _agents(env, "enrol", "Laptop")
        token = next(word for word in said.split() if word.startswith("mol_ru_"))
        address = f"http://127.0.0.1:{env['MOLECULE_PORT']}"
        flags = ("--state", str(tmp_path / "laptop"), "--server", address)
        async with started(MOLECULE, "runner", *flags, env={**env, "MOLECULE_RUNNER_TOKEN": token}) as runner:

            async def listed() -> str:
                return (await _agents(env, "list"))[1]

            await eventually(listed, lambda found: "online): Claude Code" in found, PROCESS_START_SECONDS)
            assert (await _agents(env, "remove", "Laptop"))[1].strip() == "removed"
            assert await runner.ended() == 3
    assert code == 0
    async with started(MOLECULE, "runner", "--state", str(tmp_path / "empty"), env=env) as process:
        assert await process.ended() == 2
        assert "this machine is not enrolled" in process.said
