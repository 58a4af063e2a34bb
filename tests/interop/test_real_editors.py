"""`molecule acp` with programs that are editors to it: acpx from npm, and a client of the official TypeScript SDK.

Nothing in them knows Molecule. The official Python SDK is the client of `tests/agent/editor`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.processes import MOLECULE
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS
from tests.agent.editor.editor_client import ScriptedAgent, editor_environment, person_token, words_of
from tests.interop.editor_programs import ACPX, SDK_CLIENT, require_programs
from tests.interop.npm_packages import NODE

pytestmark = [pytest.mark.long]


class Desk:
    """Ada's machine: a home for the programs, her credential, and the agent that she writes to."""

    def __init__(self, agent: ScriptedAgent, programs: Path, home: Path, environment: dict[str, str]) -> None:
        self.agent = agent
        self._programs = programs
        self.home = home
        self._environment = {**environment, "HOME": str(home)}

    async def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Standard output of a program that must end with this code."""
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), str(self._programs / program), *arguments),
            env=self._environment,
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PROCESS_START_SECONDS * 2):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode == code, err.decode() + out.decode()
        return out.decode()

    async def acpx(self, *arguments: str, code: int = 0) -> str:
        """Runs acpx with our command as its agent."""
        return await self.run(ACPX, "--agent", f"{MOLECULE} acp", *arguments, code=code)

    async def sdk(self, *steps: dict[str, Any]) -> Any:
        """Runs the client of the SDK through some steps."""
        return json.loads(await self.run(SDK_CLIENT, json.dumps(steps), MOLECULE, "acp"))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A server with an agent, and a person's machine."""
    programs = require_programs()
    place, home = tmp_path / "server", tmp_path / "home"
    for folder in (place, home):
        folder.mkdir()
    async with running("sqlite", str(place / "molecule.db"), place) as server:
        agent = ScriptedAgent(await server.seat("Ops"))
        await agent.is_online()
        token = await person_token(server)
        playing = asyncio.create_task(play(server, agent))
        yield Desk(agent, programs, home, editor_environment(server.url, home, token))
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


async def play(server: Running, agent: ScriptedAgent) -> None:
    """Answers each message; `approve` in one asks first, `slow` in one writes until it is stopped."""
    while True:
        message = await agent.message()
        text = words_of(message)
        await agent.live(
            message, {"type": "status", "status": "working"}, {"type": "text", "text": "I begin. ", "at": 0}
        )
        if "slow" in text:
            await stopped(agent, message)
            continue
        if "approve" in text:
            item = await agent.request_approval("send the mail")
            where = f"/workspaces/{agent.seat.id}/approvals/{item['approval_id']}"
            text = (await agent.seat.api.get(where, wait=20, seq=item["seq"]))["status"]
        await agent.answer(message, f"answer: {text}")


async def stopped(agent: ScriptedAgent, message: dict[str, Any]) -> None:
    """Waits until a person stops the turn."""
    where = f"/workspaces/{agent.seat.id}/live/controls"
    while not (await agent.seat.api.get(where, wait=5, activity_id=message["id"]))["controls"]:
        pass
    await agent.live(message, {"type": "status", "status": "stopped"})


async def test_acpx_holds_a_conversation_in_a_session_of_its_own(desk: Desk) -> None:
    assert "answer: Hello" in await desk.acpx("exec", "Hello")
    await desk.acpx("sessions", "new")
    first = await desk.acpx("--ttl", "1", "prompt", "One")
    second = await desk.acpx("--ttl", "1", "prompt", "Two")
    assert ("answer: One" in first, "answer: Two" in second, "[done] end_turn" in second) == (True, True, True)


# 5: acpx reports that each permission was denied.
@pytest.mark.parametrize(
    ("flag", "decided", "code"),
    [("--approve-all", "approved", 0), ("--deny-all", "denied", 5)],
    ids=["approve", "deny"],
)
async def test_acpx_decides_an_approval(desk: Desk, flag: str, decided: str, code: int) -> None:
    assert f"answer: {decided}" in await desk.acpx(flag, "exec", "Please approve this", code=code)
    page = await desk.agent.seat.api.get(f"/workspaces/{desk.agent.seat.id}/approvals")
    assert [(each["status"], each["decided"]["by"]["name"]) for each in page["approvals"]] == [(decided, "Ada")]


async def test_a_client_of_the_sdk_talks_decides_cancels_and_loads(desk: Desk) -> None:
    hello, approved, cancelled = await desk.sdk(
        {"prompt": "Hello"},
        {"prompt": "Please approve this", "choose": "approve"},
        {"prompt": "A slow one", "cancelAfter": "I begin."},
    )
    assert (hello["version"], hello["stopReason"]) == (1, "end_turn")
    assert any("answer: Hello" in each for each in hello["shown"])
    assert "permission Ops: send the mail: Approve this request once, Deny" in approved["shown"]
    assert any("answer: approved" in each for each in approved["shown"])
    assert cancelled["stopReason"] == "cancelled"

    loaded, further = await desk.sdk({"load": hello["session"]}, {"prompt": "Again"})
    assert loaded["shown"][:3] == [
        "user_message_chunk Hello",
        "agent_message_chunk answer: Hello",
        "user_message_chunk Please approve this",
    ]
    assert any("answer: Again" in each for each in further["shown"])
