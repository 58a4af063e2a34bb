"""`molecule acp` with programs that are editors to it: acpx from npm, and a client of the official TypeScript SDK.

Nothing in them knows Molecule. The official Python SDK is the client of `tests/agent/editor`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testing.processes import MOLECULE
from testing.running_server import running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.editor.editor_client import ScriptedAgent, editor_environment, person_token, words_of
from tests.interop.editor_programs import ACPX, SDK_CLIENT, require_programs
from tests.interop.npm_packages import NODE
from tests.requirements import requirement

pytestmark = [pytest.mark.long]


class PlayedAgent:
    """The agent of a workspace, played by the test. It works on all its messages at once, and answers each.

    `approve` in one asks first, `slow` in one writes until it is stopped, `held` waits for the test."""

    def __init__(self, scripted: ScriptedAgent) -> None:
        self.seat = scripted.seat
        self.begun: list[str] = []
        self.stopped: list[str] = []
        self.release = asyncio.Event()
        self._scripted = scripted

    async def run(self) -> None:
        """Work until the task is cancelled."""
        async with asyncio.TaskGroup() as working:
            while True:
                working.create_task(self._handle(await self._scripted.message()))

    async def begins(self, *texts: str) -> None:
        """Wait until it works on these messages."""

        async def look() -> set[str]:
            return set(self.begun)

        await eventually(look, lambda begun: begun >= set(texts), PROCESS_START_SECONDS)

    async def _handle(self, message: dict[str, Any]) -> None:
        text = answer = words_of(message)
        status, begin = {"type": "status", "status": "working"}, {"type": "text", "text": "I begin. ", "at": 0}
        await self._scripted.live(message, status, begin)
        self.begun.append(text)
        if "slow" in text:
            await self._wait_for_stop(message)
            self.stopped.append(text)
            return
        if "held" in text:
            await self.release.wait()
        if "approve" in text:
            item = await self._scripted.request_approval("send the mail")
            where = f"/workspaces/{self.seat.id}/approvals/{item['approval_id']}"
            answer = (await self.seat.api.get(where, wait=20, seq=item["seq"]))["status"]
        await self._scripted.answer(message, f"answer: {answer}")

    async def _wait_for_stop(self, message: dict[str, Any]) -> None:
        """Wait until a person stops the turn."""
        where = f"/workspaces/{self.seat.id}/live/controls"
        while not (await self.seat.api.get(where, wait=5, activity_id=message["id"]))["controls"]:
            pass
        await self._scripted.live(message, {"type": "status", "status": "stopped"})


class Desk:
    """Ada's machine: a home for the programs, her credential, and the agent that she writes to."""

    def __init__(self, agent: PlayedAgent, programs: Path, home: Path, environment: dict[str, str]) -> None:
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

    async def sdk(self, *steps: dict[str, Any] | list[dict[str, Any]]) -> Any:
        """Runs the client of the SDK through some steps; those of a list at once."""
        return json.loads(await self.run(SDK_CLIENT, json.dumps(steps), MOLECULE, "acp"))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A server with an agent, and a person's machine."""
    programs = require_programs()
    place, home = tmp_path / "server", tmp_path / "home"
    for folder in (place, home):
        folder.mkdir()
    async with running("sqlite", str(place / "molecule.db"), place) as server:
        scripted = ScriptedAgent(await server.seat("Ops"))
        await scripted.is_online()
        token = await person_token(server)
        agent = PlayedAgent(scripted)
        playing = asyncio.create_task(agent.run())
        yield Desk(agent, programs, home, editor_environment(server.url, home, token))
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


def _has_no_process(status: str) -> bool:
    return "status: running" not in status


@requirement("HK6")
async def test_acpx_holds_a_conversation_in_a_session_of_its_own(desk: Desk) -> None:
    assert "answer: Hello" in await desk.acpx("exec", "Hello")
    await desk.acpx("sessions", "new")
    first = await desk.acpx("--ttl", "1", "prompt", "One")
    second = await desk.acpx("--ttl", "1", "prompt", "Two")
    assert ("answer: One" in first, "answer: Two" in second, "[done] end_turn" in second) == (True, True, True)


@requirement("HK6")
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


@requirement("HK6")
async def test_acpx_cancels_the_prompt_of_one_of_two_sessions(desk: Desk) -> None:
    sessions = [(await desk.acpx("sessions", "new", "--name", name)).strip() for name in ("one", "two")]
    prompts = [
        asyncio.create_task(desk.acpx("--ttl", "1", "prompt", "-s", name, text))
        for name, text in (("one", "A slow one"), ("two", "A held one"))
    ]
    await desk.agent.begins("A slow one", "A held one")
    assert "cancel requested" in await desk.acpx("cancel", "-s", "one")
    assert "[done] cancelled" in await prompts[0]
    assert (desk.agent.stopped, prompts[1].done()) == (["A slow one"], False)
    desk.agent.release.set()
    other = await prompts[1]
    assert ("answer: A held one" in other, "[done] end_turn" in other) == (True, True)
    # Each in a new process of ours: acpx resumes sessions, and never loads them from an agent that can resume.
    for name in ("one", "two"):
        await eventually(partial(desk.acpx, "status", "-s", name), _has_no_process, PROCESS_START_SECONDS)
    further = [
        asyncio.create_task(desk.acpx("--ttl", "1", "--format", "json", "prompt", "-s", name, f"More of {name}"))
        for name in ("one", "two")
    ]
    for name, session, wire in zip(("one", "two"), sessions, await asyncio.gather(*further), strict=True):
        called = [json.loads(line) for line in wire.splitlines()]
        assert session in [each["params"]["sessionId"] for each in called if each.get("method") == "session/resume"]
        assert f"answer: More of {name}" in wire and f"More of {'two' if name == 'one' else 'one'}" not in wire
    listed = await desk.acpx("sessions", "list")
    assert [session in listed for session in sessions] == [True, True]


@requirement("HK6")
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


@requirement("HK6")
async def test_two_sessions_of_the_sdk_run_at_once_and_load_each_their_own_history(desk: Desk) -> None:
    [[cancelled, approved]] = await desk.sdk(
        [
            {"in": "one", "prompt": "A slow one", "cancelAfter": "I begin."},
            {"in": "two", "prompt": "Please approve this", "choose": "approve"},
        ]
    )
    assert (cancelled["stopReason"], approved["stopReason"]) == ("cancelled", "end_turn")
    assert any("answer: approved" in each for each in approved["shown"])
    assert not any("answer: approved" in each for each in cancelled["shown"])
    assert desk.agent.stopped == ["A slow one"]

    loads = [{"in": "one", "load": cancelled["session"]}, {"in": "two", "load": approved["session"]}]
    histories, further = await desk.sdk(loads, [{"in": name, "prompt": f"More of {name}"} for name in ("one", "two")])
    assert [each["shown"] for each in histories] == [
        ["user_message_chunk A slow one"],
        ["user_message_chunk Please approve this", "agent_message_chunk answer: approved"],
    ]
    assert [each["session"] for each in further] == [cancelled["session"], approved["session"]]
    for name, turn in zip(("one", "two"), further, strict=True):
        assert turn["stopReason"] == "end_turn"
        assert [f"answer: More of {each}" in "".join(turn["shown"]) for each in ("one", "two")] == [
            name == "one",
            name == "two",
        ]
