"""What `molecule connect` writes and what the page says, as hosts use it: the command is started as it stands there."""

import asyncio
import contextlib
import json
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client import jsonc_edit
from molecule_core.tools.host_config import HOSTS, Host, find_host
from testing.connect_home import Home
from testing.hostile_modules import HostileModules
from testing.mcp_host import Agent
from testing.mcp_host import environment as agents_environment
from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from testing.waits import PROCESS_START_SECONDS
from tests.cli.test_connect import FILES
from tests.requirements import requirement

WAIT = str(int(PROCESS_START_SECONDS))


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


@pytest.fixture
def home(tmp_path: Path, port: int) -> Home:
    """A person on the machine of that server."""
    return Home(tmp_path, tmp_path / "state", port)


def entry_in(host: Host, text: str) -> tuple[list[str], dict[str, str]]:
    """The command and the environment that a host reads in its configuration."""
    read: Any = tomllib.loads(text) if host.language == "toml" else jsonc_edit.value_of(text)
    for name in host.entry_path:
        read = read[name]
    if host.name == "opencode":
        return read["command"], read["environment"]
    return [read["command"], *read["args"]], read["env"]


@contextlib.asynccontextmanager
async def hosted(host: Host, text: str, folder: Path, cwd: Path = Path("/"), **more: str) -> AsyncIterator[Agent]:
    """What a host starts that has this configuration and is opened in the folder `cwd`."""
    command, told = entry_in(host, text)
    env = {**agents_environment(folder / f"state of {host.name}", **told), **more}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd)
    agent = Agent(process)
    try:
        await agent.greet(host.name)
        yield agent
    finally:
        await agent.kill()


@requirement("G24", "C81")
@pytest.mark.parametrize("host", [each for each in HOSTS if each.entry_path], ids=lambda each: each.name)
async def test_what_is_applied_starts_an_agent_that_is_seen_with_its_tools_reads_and_answers(
    home: Home, port: int, host: Host
) -> None:
    hostile = HostileModules(home.project, home.folder / "executed")
    async with serving(home.state, port), client(port) as admin:
        args = ("connect", host.name, "--workspace", "Ops", "--create", "--apply", "--wait", WAIT)
        async with home.running(*args) as connecting:
            await connecting.says("waiting")
            text = (home.folder / FILES[host.name]).read_text()
            async with hosted(host, text, home.folder, home.project) as agent:
                tools = (await agent.request("tools/list"))["tools"]
                assert await connecting.ended() == 0, connecting.said
                assert connecting.said.splitlines()[-1] == f"connected, {len(tools)} tools"
                (seat,) = await admin.get("/workspaces")
                await admin.send(seat["id"], "are you there?")
                message = await agent.next()
                assert message["text"] == "are you there?"
                await agent.call("reply_to_workspace", text="I am.", activity_id=message["activity_id"])
                chat = await admin.get(f"/workspaces/{seat['id']}/chat-history")
                assert [each["content"] for each in chat["messages"]] == ["are you there?", "I am."]
    assert hostile.executed == []


@requirement("G24")
async def test_one_host_process_carries_both_workspaces_that_were_connected(home: Home, port: int) -> None:
    host = find_host("codex")
    assert host is not None
    async with serving(home.state, port), client(port) as admin:
        for name in ("One", "Two"):
            assert (await home.connect("codex", "--workspace", name, "--create", "--apply")).code == 0
        text = (home.folder / FILES["codex"]).read_text()
        async with hosted(host, text, home.folder) as agent:
            for seat in await admin.get("/workspaces"):
                await admin.send(seat["id"], f"for {seat['name']}")
                message = await agent.next()
                assert (message["text"], message["arrival_workspace_id"]) == (f"for {seat['name']}", seat["id"])
                await agent.call("inbox_pop", activity_id=message["activity_id"])


@requirement("C81", "G24")
async def test_what_the_page_says_works_by_hand_as_it_is_written(home: Home, port: int) -> None:
    on_path = {"HOME": str(home.folder), "PATH": f"{Path(MOLECULE).parent}:/usr/bin:/bin"}
    host = find_host("cursor")
    assert host is not None
    async with serving(home.state, port), client(port) as admin:
        seat = await admin.post("/workspaces", {"name": "Ops"})
        page = await admin.get(f"/workspaces/{seat['id']}/connect", host=host.name)
        keep, paste = page["by_hand"]
        (home.folder / "paste").write_text(seat["connection"]["auth_token"] + "\n")
        line = f'cd "$HOME" && {{ {keep["text"]}; }} < paste'
        async with started("sh", "-c", line, env=on_path) as process:
            assert (await process.ended(), process.said) == (0, "")
        async with hosted(host, paste["text"], home.folder, Path("/"), **on_path) as agent:
            await admin.send(seat["id"], "by hand?")
            assert (await agent.next())["text"] == "by hand?"


@requirement("C81", "G24", "O3")
async def test_the_pages_one_command_works_as_it_is_written_when_the_token_is_pasted(home: Home, port: int) -> None:
    host = find_host("claude-code")
    assert host is not None
    async with serving(home.state, port), client(port) as admin:
        seat = await admin.post("/workspaces", {"name": "Ops"})
        token = seat["connection"]["auth_token"]
        page = await admin.get(f"/workspaces/{seat['id']}/connect", host=host.name)
        elsewhere = environment(home.folder / "another state", port, MOLECULE_ADMIN_TOKEN="")
        elsewhere |= {"HOME": str(home.folder), "PATH": f"{Path(MOLECULE).parent}:/usr/bin:/bin"}
        elsewhere |= {"MOLECULE_CONNECT_WAIT": WAIT}
        (home.folder / "paste").write_text(token + "\n")
        line = f'cd "$HOME"/project && {page["quick"]["text"]} < ../paste'
        async with started("sh", "-c", line, env=elsewhere) as connecting:
            await connecting.says("waiting")
            text = (home.project / ".mcp.json").read_text()
            assert token not in text + json.dumps(page)
            async with hosted(host, text, home.folder):
                assert await connecting.ended() == 0, connecting.said
        assert "connected, " in connecting.said
        assert token not in connecting.said


@requirement("C81", "G24")
async def test_the_lines_for_langchain_give_a_program_the_tools_of_the_seat(home: Home, port: int) -> None:
    async with serving(home.state, port), client(port) as admin:
        said = await home.connect("langchain", "--workspace", "Ops", "--create")
        assert said.code == 0, said
        (seat,) = await admin.get("/workspaces")
        await admin.send(seat["id"], "are you there?")
        program = said.out + (
            "by_name = {tool.name: tool for tool in molecule_tools}\n"
            "waiting = by_name['wait_for_message'].invoke({'timeout_secs': 30})\n"
            "by_name['send_message_to_user'].invoke({'message': 'I am.'})\n"
            "print(waiting)\n"
        )
        env = agents_environment(home.folder / "program")
        async with home.running("connect", "langchain", "--workspace", "Ops", "--wait", WAIT) as connecting:
            await connecting.says("waiting")
            async with started(sys.executable, "-c", program, env=env) as process:
                assert await process.ended() == 0, process.said
                assert "are you there?" in await process.output()
            assert await connecting.ended() == 0, connecting.said
        assert connecting.said.splitlines()[-1].startswith("connected")
        assert (await admin.get(f"/workspaces/{seat['id']}"))["status"] == "online"
        chat = await admin.get(f"/workspaces/{seat['id']}/chat-history")
        assert [each["content"] for each in chat["messages"]] == ["are you there?", "I am."]
