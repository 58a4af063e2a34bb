"""*Add agent*: a machine with a runner, what is installed there, and an agent that is started and answers."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.machine_runner import MachineRunner, RunnerOptions
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import SystemRandomness
from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.running_server import Running, running
from testing.terminals import terminal
from testing.waits import PROCESS_START_SECONDS
from tests.canvas.chat import Chat
from tests.canvas.expectations import expect

SCRIPTED = Path(__file__).resolve().parents[2] / "testing" / "scripted_claude.py"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield server


@pytest.fixture
async def page(browser: Browser, server: Running) -> AsyncIterator[Page]:
    """The page of an organisation without agents."""
    desk = Desk(browser, Stage(server))
    yield await desk.open("/app/connect")
    await desk.close()


@contextlib.asynccontextmanager
async def runner_of(server: Running, home: Path, *programs: str) -> AsyncIterator[None]:
    """A machine whose runner may use one folder, and on which these programs are installed."""
    for name in ("bin", "shop", "sessions", "state"):
        (home / name).mkdir(parents=True, exist_ok=True)
    for name in programs:
        program = home / "bin" / name
        version = '[ "$1" = --version ] && echo "2.1.332 (Claude Code)" && exit'
        program.write_text(f'#!/bin/sh\n{version}\nexec {sys.executable} {SCRIPTED} "$@"\n')
        program.chmod(0o755)
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    token = (await server.admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"}))["token"]
    options = RunnerOptions(
        url=server.url,
        token=token,
        state=home / "state",
        configuration=RunnerConfiguration(folders=(str(home / "shop"),)),
        settings=RunnerSettings(),
        environment={
            **public_environment(os.environ),
            "PATH": str(home / "bin"),  # this machine may have real ones
            "SCRIPTED_CLAUDE": str(home / "sessions"),
        },
    )
    task = asyncio.create_task(MachineRunner(options, clock=SystemClock(), randomness=SystemRandomness()).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_person_starts_claude_code_on_a_machine_and_it_answers(
    server: Running, page: Page, tmp_path: Path
) -> None:
    async with runner_of(server, tmp_path / "home", "claude"):
        form = page.get_by_role("form", name="Add an agent")
        await expect(form.get_by_label("Agent", exact=True)).to_have_text("Claude Code 2.1.332")
        await expect(form.get_by_label("Permission mode").locator("option")).to_have_text(
            ["manual", "acceptEdits", "plan"]
        )
        await form.get_by_label("Name").fill("Scout")
        await expect(form.get_by_label("Folder on Laptop")).to_have_value(str(tmp_path / "home" / "shop" / "Scout"))
        await form.get_by_label("Folder on Laptop").fill(str(tmp_path))
        await form.get_by_role("button", name="Add agent").click()
        await expect(form.get_by_role("alert")).to_contain_text("is not below a folder that runner.toml allows")
        await form.get_by_label("Folder on Laptop").fill(str(tmp_path / "home" / "shop"))
        await form.get_by_role("button", name="Add agent").click()
        await expect(page.get_by_text("“Scout” is online.")).to_be_visible(timeout=PROCESS_START_SECONDS * 1000)
        await page.get_by_role("button", name="Open chat").click()
        chat = Chat(page, "Scout")
        await chat.write("hello")
        await expect(chat.message("so: From the person")).to_have_count(1, timeout=PROCESS_START_SECONDS * 1000)
        assert [each["name"] for each in await server.admin.get("/workspaces")] == ["Scout"]
        await page.get_by_role("link", name="Connect").click()
        machines = page.get_by_role("region", name="Machines")
        await expect(machines.get_by_role("listitem")).to_contain_text(f"Scout: runningclaude in {tmp_path}/home/shop")
        (agent,) = await agents(server)
        await machines.get_by_role("button", name="Restart Scout").click()
        await expect(page.get_by_text("Scout restarted")).to_be_attached(timeout=PROCESS_START_SECONDS * 1000)
        await expect(machines.get_by_role("listitem")).to_contain_text("Scout: running")
        assert await agents(server) == [agent]
        await machines.get_by_role("button", name="Stop Scout").click()
        await expect(machines).to_have_count(0, timeout=PROCESS_START_SECONDS * 1000)
        assert await agents(server) == []


async def agents(server: Running) -> list[tuple[str, str]]:
    """The agents of the only machine: folders and modes."""
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    (runner,) = await server.admin.get(f"/orgs/{org_id}/runners")
    return [(each["folder"], each["mode"]) for each in runner["agents"]]


async def test_a_machine_without_agents_shows_what_to_install(server: Running, page: Page, tmp_path: Path) -> None:
    async with runner_of(server, tmp_path / "home"):
        form = page.get_by_role("form", name="Add an agent")
        await expect(form.get_by_text("No agent is installed on Laptop.")).to_be_visible()
        await expect(form.get_by_role("region", name="command that installs Claude Code")).to_be_visible()
        await expect(form.get_by_role("button", name="Add agent")).to_have_count(0)
        await page.get_by_role("button", name="Connect an agent that you start yourself").click()
        await expect(page.get_by_role("button", name="Create workspace")).to_be_visible()


async def test_an_agent_in_a_terminal_of_a_machine_is_connected_from_the_page(
    server: Running, page: Page, tmp_path: Path
) -> None:
    home, program = tmp_path / "home", tmp_path / "claude"
    program.write_text("read line\n")
    (home / "shop").mkdir(parents=True)
    async with terminal(home / "shop", program), runner_of(server, home, "claude"):
        sessions = page.get_by_role("list", name="Sessions in terminals of Laptop")
        session = sessions.get_by_role("listitem").filter(has_text=str(home / "shop"))
        await session.get_by_label("Name").fill("Scout")
        await session.get_by_role("button", name="Connect").click()
        told = session.get_by_role("status")
        await expect(told).to_contain_text(
            "start it again with `claude --continue`", timeout=PROCESS_START_SECONDS * 1000
        )
        await expect(page.get_by_text("Scout: attached")).to_be_visible(timeout=PROCESS_START_SECONDS * 1000)
        assert (home / "shop" / ".mcp.json").exists()
