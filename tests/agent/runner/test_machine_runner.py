"""A runner with a real server, real processes and a scripted Claude Code: it starts, stops, restarts, and ends all."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.machine_runner import MachineRunner, RunnerOptions, RunnerRejectedError
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.client.api import ApiError
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import SystemRandomness
from testing.running_server import Running, Seat, running
from testing.terminals import terminal
from testing.waits import bounded, eventually

SCRIPTED = Path(__file__).resolve().parents[3] / "testing" / "scripted_claude.py"
SETTINGS = RunnerSettings(restart_seconds=0.05, restart_most_seconds=0.2, end_seconds=5)
# Processes start and end on a machine that other tests use too.
SECONDS = 60
# Replaces `molecule` where only the process counts: it writes its pid, and runs until its runner ends.
PROGRAM = r"""
import os, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--cwd") + 1])
with (folder / "pids").open("a") as file:
    file.write(f"{os.getpid()}\n")
print("token is", pathlib.Path(os.environ["MOLECULE_WORKSPACE_TOKEN_FILE"]).read_text(), flush=True)
if (folder / "final").exists():
    sys.exit(2)
sys.stdin.read()
"""


class Machine:
    """A machine of a test with its runner."""

    def __init__(self, server: Running, place: str, options: RunnerOptions) -> None:
        self.server = server
        self.place = place
        self.options = options
        self.folder = Path(options.configuration.folders[0])
        self.task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        runner = MachineRunner(self.options, clock=SystemClock(), randomness=SystemRandomness())
        self.task = asyncio.create_task(runner.run())

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RunnerRejectedError):
                await self.task

    async def view(self) -> dict[str, Any]:
        runners = await self.server.admin.get(self.place.rpartition("/")[0])
        return dict(next(each for each in runners if self.place.endswith(each["id"])))

    async def state(self) -> str:
        agents = (await self.view())["agents"]
        return str(agents[0]["state"]) if agents else "none"

    async def reaches(self, state: str) -> None:
        await eventually(self.state, lambda found: found == state, SECONDS)

    async def pids(self) -> list[int]:
        file = self.folder / "pids"
        return [int(each) for each in file.read_text().split()] if file.exists() else []

    async def has_started(self, times: int) -> list[int]:
        return await eventually(self.pids, lambda found: len(found) == times, SECONDS)

    async def ask(self, action: str, seat: Seat, **more: str) -> dict[str, Any]:
        body = {"action": action, "workspace_id": seat.id, **more}
        made = await self.server.admin.post(f"{self.place}/requests", body)
        return dict(await bounded(self.server.admin.get(f"{self.place}/requests/{made['id']}", wait=25)))

    async def start(self, seat: Seat, **more: str) -> dict[str, Any]:
        return await self.ask("start", seat, **{"kind": "claude", "folder": str(self.folder), **more})


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A machine with a scripted Claude Code, whose runner may use one folder."""
    home = tmp_path / "home"
    for name in ("bin", "work", "sessions", "state"):
        (home / name).mkdir(parents=True)
    claude, program = home / "bin" / "claude", home / "program.py"
    version = '[ "$1" = --version ] && echo "2.1.332 (Claude Code)" && exit'
    claude.write_text(f'#!/bin/sh\n{version}\nexec {sys.executable} {SCRIPTED} "$@"\n')
    claude.chmod(0o755)
    program.write_text(PROGRAM)
    path, sessions = f"{home / 'bin'}:/usr/bin:/bin", str(home / "sessions")
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path / "server") as server:
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        runner = await server.admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"})
        options = RunnerOptions(
            url=server.url,
            token=runner["token"],
            state=home / "state",
            configuration=RunnerConfiguration(folders=(str(home / "work"),), kinds=("claude",)),
            settings=SETTINGS,
            environment={**public_environment(os.environ), "PATH": path, "SCRIPTED_CLAUDE": sessions},
            command=(sys.executable, str(program)),
        )
        machine = Machine(server, f"/orgs/{org_id}/runners/{runner['id']}", options)
        try:
            yield machine
        finally:
            await machine.end()


async def _online(machine: Machine) -> Seat:
    machine.begin()
    await eventually(machine.view, lambda found: bool(found["installed"]), SECONDS)
    return await machine.server.seat("Shop")


async def test_a_started_claude_code_answers_a_message_by_itself(machine: Machine) -> None:
    machine.options = msgspec.structs.replace(machine.options, command=(sys.executable, "-m", "molecule_core"))
    shop = await _online(machine)
    installed = (await machine.view())["installed"]
    assert [(each["kind"], each["version"], each["modes"]) for each in installed] == [
        ("claude", "2.1.332", ["manual", "acceptEdits", "plan"])
    ]
    assert (await machine.start(shop))["status"] == "done"
    await machine.server.admin.send(shop.id, "hello")

    async def chat() -> str:
        return str(await machine.server.admin.get(f"/workspaces/{shop.id}/chat-history"))

    await eventually(chat, lambda found: "agent_message" in found or "'role': 'agent'" in found, SECONDS)


async def test_the_output_is_returned_without_the_token(machine: Machine) -> None:
    shop = await _online(machine)
    await machine.start(shop)
    await machine.reaches("running")

    async def output() -> str:
        return str((await machine.ask("logs", shop))["output"]).strip()

    assert await eventually(output, bool, SECONDS) == "token is [credential]"


async def test_a_killed_agent_is_started_again_and_a_stopped_one_is_not(machine: Machine) -> None:
    shop = await _online(machine)
    await machine.start(shop)
    os.kill((await machine.has_started(1))[0], 9)
    await machine.has_started(2)
    assert (await machine.ask("restart", shop))["status"] == "done"
    await machine.has_started(3)
    assert (await machine.ask("stop", shop))["status"] == "done"
    assert [_is_alive(each) for each in await machine.pids()] == [False, False, False]
    assert await machine.state() == "none"
    assert list((machine.options.state / "agents").iterdir()) == []


async def test_an_agent_whose_arguments_are_invalid_is_not_started_again(machine: Machine) -> None:
    shop = await _online(machine)
    (machine.folder / "final").touch()
    await machine.start(shop)
    await machine.reaches("stopped")
    assert len(await machine.pids()) == 1
    assert "exit code 2" in (await machine.view())["agents"][0]["text"]


async def test_a_restarted_runner_starts_its_agents_again(machine: Machine) -> None:
    shop = await _online(machine)
    await machine.start(shop)
    (first,) = await machine.has_started(1)
    await machine.end()
    assert not _is_alive(first)
    machine.begin()
    await machine.has_started(2)
    await machine.reaches("running")


async def test_refusals_reach_the_operator_and_start_nothing(machine: Machine) -> None:
    shop = await _online(machine)
    refused = await machine.start(shop, folder=str(machine.folder.parent / "bin"))
    assert refused["status"] == "failed"
    assert "is not below a folder that runner.toml allows" in refused["text"]
    assert (await machine.pids(), await machine.state()) == ([], "none")
    assert (await machine.start(shop))["status"] == "done"


async def test_a_removed_runner_ends_with_its_agents(machine: Machine) -> None:
    shop = await _online(machine)
    await machine.start(shop)
    (pid,) = await machine.has_started(1)
    await machine.server.admin.call("DELETE", machine.place)
    assert machine.task is not None
    with pytest.raises(RunnerRejectedError):
        await bounded(machine.task)
    assert not _is_alive(pid)


async def test_an_agent_that_a_person_has_started_is_listed_connected_and_disconnected(
    machine: Machine, tmp_path: Path
) -> None:
    environment = {**machine.options.environment, "HOME": str(tmp_path / "home")}
    machine.options = msgspec.structs.replace(
        machine.options, command=(sys.executable, "-m", "molecule_core"), environment=environment
    )
    program, folder = tmp_path / "claude", machine.folder
    program.write_text("read line\n")
    async with terminal(folder, program) as pid:
        shop = await _online(machine)
        sessions = [each for each in (await machine.view())["sessions"] if each["pid"] == pid]
        about = {"kind": "claude", "title": "Claude Code", "runtime": "claude-code", "folder": str(folder)}
        assert sessions == [{**about, "pid": pid, "is_connected": False}]

    done = await machine.ask("attach", shop, kind="claude", folder=str(folder))
    assert (done["status"], "`claude --continue`" in done["text"]) == ("done", True), done
    await machine.reaches("attached")
    (token,) = [each.read_text().strip() for each in (machine.options.state / "agents").glob("*.token")]
    assert "molecule" in (folder / ".mcp.json").read_text() and token not in (folder / ".mcp.json").read_text()
    async with machine.server.api(token) as agent:
        assert (await agent.get(f"/workspaces/{shop.id}/waiting"))["workspace_id"] == shop.id
        assert "a person starts this agent" in (await machine.ask("restart", shop))["text"]

        stopped = await machine.ask("stop", shop)
        assert (stopped["status"], "Restart Claude Code in" in stopped["text"]) == ("done", True), stopped
        with pytest.raises(ApiError, match="token"):
            await agent.get(f"/workspaces/{shop.id}/waiting")
    assert not (folder / ".mcp.json").exists() and list((machine.options.state / "agents").glob("*.token")) == []
    assert await machine.state() == "none"


async def test_nothing_is_written_into_a_folder_that_is_not_allowed(machine: Machine, tmp_path: Path) -> None:
    shop = await _online(machine)
    refused = await machine.ask("attach", shop, kind="claude", folder=str(tmp_path))
    assert (refused["status"], "is not below a folder" in refused["text"]) == ("failed", True)
    assert not (tmp_path / ".mcp.json").exists() and await machine.state() == "none"
