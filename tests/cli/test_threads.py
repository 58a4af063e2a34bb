"""`molecule threads` as people and agents meet it."""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.ports import free_port
from testing.processes import MOLECULE, client, environment, serving, started
from tests.requirements import requirement


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def port() -> int:
    """A port for a server."""
    return free_port()


class Shell:
    """Calls the command as somebody."""

    def __init__(self, state: Path, port: int, **env: str) -> None:
        self._env = environment(state, port, **env)

    async def __call__(self, *args: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        async with started(MOLECULE, "threads", *args, env=self._env) as process:
            code = await process.ended()
            return code, (await process.output()).strip(), process.said.strip()

    async def told(self, *args: str) -> Any:
        """What it tells as JSON."""
        code, out, said = await self(*args, "--json")
        assert code == 0, said
        return json.loads(out)


@requirement("TH12")
async def test_a_thread_is_started_shown_driven_and_closed_from_a_shell(state: Path, port: int, tmp_path: Path) -> None:
    base = tmp_path / "base.md"
    base.write_text("You are Ops.\n\x1b[2JBe kind.")
    async with serving(state, port), client(port) as admin:
        ops = await admin.post("/workspaces", {"name": "Ops"})
        mine, url = ("--workspace", ops["id"]), f"http://127.0.0.1:{port}"
        shell = Shell(state, port)
        assert await shell("list", *mine) == (0, "no threads", "")
        _, out, said = await shell("start", "hello", *mine)
        assert out == "" and "base" in said, "without a prompt and without --base it is refused, and says why"
        item = await shell.told("start", "hello", *mine, "--base", str(base), "--nickname", "Desk", "--key", "k")
        thread = item["thread_id"]
        assert (await shell.told("start", "hello", *mine, "--base", str(base), "--key", "k"))["thread_id"] == thread

        code, out, _ = await shell("list", *mine, "--state", "open")
        assert (code, out.split()[0], "(Desk)" in out) == (0, thread, True)
        _, out, _ = await shell("show", thread)
        assert "  You are Ops." in out.splitlines() and "  Be kind." in out.splitlines() and "\x1b" not in out
        _, out, _ = await shell("show", thread, "--sight")
        assert out.splitlines()[0].startswith("developer base 1 (")
        assert "turn_accepted" in (await shell("show", thread, "--log"))[1]
        assert (await shell("say", thread, "more"))[1].endswith("accepted")

        agent = Shell(
            state,
            port,
            WORKSPACE_ID=ops["id"],
            PLATFORM_URL=url,
            MOLECULE_WORKSPACE_TOKEN=ops["connection"]["auth_token"],
        )
        born = {"call_id": "c", "task_name": "part", "message": "do a part"}
        await admin.post(f"/threads/{thread}/agents/spawn", born)
        _, out, said = await agent("tree", thread)
        assert [each.split()[3] for each in out.splitlines()] == ["root", "root/part"] and "active threads 1" in said
        fork = await agent.told("fork", thread, "--nickname", "Other")
        assert (fork["forked_from"]["thread_id"], fork["base"]["item_id"]) == (thread, item["base"]["item_id"])
        assert (await agent("interrupt", thread))[0] == 0
        assert "shutdown" in (await agent("close", thread, "--descendants", "close"))[1]
        resumed = await agent.told("resume", thread, "--base", str(base), "--model", "openai:other")
        assert (resumed["model"], resumed["base"]["version"], resumed["closed"]) == ("openai:other", 2, False)
        assert len((await agent.told("list"))["threads"]) == 3


@requirement("TH12", "O1")
async def test_what_cannot_be_done_with_a_thread_is_said_in_one_line(state: Path, port: int) -> None:
    async with serving(state, port), client(port) as admin:
        ops = await admin.post("/workspaces", {"name": "Ops"})
        shell = Shell(state, port)
        agent = Shell(
            state,
            port,
            WORKSPACE_ID=ops["id"],
            PLATFORM_URL=f"http://127.0.0.1:{port}",
            MOLECULE_WORKSPACE_TOKEN=ops["connection"]["auth_token"],
        )
        for who, words, args, code in (
            (shell, "thread not found", ["show", "nobody"], 2),
            (shell, "--workspace", ["list"], 2),
            (shell, "cannot be read", ["start", "--workspace", ops["id"], "--base", str(state / "none")], 2),
            (shell, "cannot be combined", ["show", "x", "--sight", "--log"], 2),
            (agent, "thread not found", ["close", "nobody"], 1),
        ):
            found, out, said = await who(*args)
            assert (found, out, len(said.splitlines()), words in said) == (code, "", 1, True), said
        stranger = Shell(state, port, MOLECULE_TOKEN="mol_nobody_" + "x" * 32)
        found, _, said = await stranger("list", "--workspace", ops["id"])
        assert (found, len(said.splitlines())) == (2, 1), "the token of a person counts before the machine's own"
