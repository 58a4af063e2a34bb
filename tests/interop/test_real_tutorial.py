"""The tutorial with a real Claude Code: its blocks are run and its prompt is typed as printed."""

import asyncio
import json
import os
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from testing.processes import ROOT
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE, KEY, Home, session_environment
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.model_scripts import Act, Asked, Call, Mind, Step
from tests.interop.scene import answer_to, answers
from tests.interop.terminal import Terminal, at_a_terminal
from tests.requirements import requirement
from tests.system.docs.blocks import Block, read_blocks, read_texts
from tests.system.docs.printed_output import find_difference
from tests.system.docs.reader import Reader, Scenario, reading

PAGE = ROOT / "docs" / "tutorial" / "team-of-two.md"
RESULT = "The desk is open from 9 a.m. to 5 p.m."
SCOUTS_ANSWER = "I can read and change the files of my folder."
SCOUTS_QUESTION, LEADS_QUESTION, DELEGATE_PROMPT = read_texts(PAGE)[:3]
_CHOSEN = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_DOWN = "\x1b[B"
_APPROVAL = re.compile(r'approval_id \\?"([0-9a-f-]+)\\?"')


def reads(_asked: Asked) -> Call:
    return Call("wait_for_message", {"timeout_secs": 60})


def looks_for_peers(asked: Asked) -> Act:
    """Ends the turn, until the person types the next prompt."""
    return Call("list_peers", {}) if "delegate this task to the agent Desk" in asked.said else "Answered."


def delegates(asked: Asked) -> Call:
    peers = next(each for each in asked.results if each.tool.endswith("list_peers")).value["peers"]
    desk = next(each for each in peers if each["name"] == "Desk")
    return Call("delegate_task", {"workspace_id": desk["id"], "task": "When is the desk open?"})


def delegates_as_approved(asked: Asked) -> Call:
    """Calls again with the approval that the rejection names, once the decision has come."""
    approval = next(found[1] for each in asked.results if (found := _APPROVAL.search(each.text)))
    assert "approved" in asked.results[-1].text, asked.results[-1].text
    call = delegates(asked)
    return Call(call.tool, {**call.arguments, "approval_id": approval})


def shows_the_result(asked: Asked) -> str:
    assert RESULT in asked.results[-1].text, asked.results[-1].text
    return f"Desk says: {RESULT}"


STEPS: list[Step] = [
    reads,
    answers,
    looks_for_peers,
    delegates,
    reads,
    delegates_as_approved,
    shows_the_result,
]


class TutorialMind(Mind):
    """Plays the script for Lead, and answers the message to Scout, whose session is another one."""

    def answer(self, asked: Asked) -> Act:
        """Answer for the session that asks."""
        return SCOUTS_ANSWER if SCOUTS_QUESTION.strip() in asked.said else super().answer(asked)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """The model of Claude Code, with its script for the tutorial."""
    host = require(CLAUDE)
    async with listening(Endpoint(host.dialect())) as found:
        found.mind = TutorialMind(host.prefix, STEPS)
        yield found


@asynccontextmanager
async def reading_it(folder: Path) -> AsyncIterator[Reader]:
    """A reader of the tutorial, whose `connect` waits for the host as a person's does."""
    with reading(folder, Scenario(is_served=False)) as reader:
        await asyncio.to_thread(reader.main.run, "unset MOLECULE_CONNECT_WAIT")
        yield reader


@asynccontextmanager
async def person_of(reader: Reader) -> AsyncIterator[ApiClient]:
    """The person at the canvas."""
    url, folder = f"http://127.0.0.1:{reader.port}", reader.home / ".molecule"
    token = (folder / "admin-token").read_text(encoding="utf-8").strip()
    async with ApiClient(url, token, seconds=PROCESS_START_SECONDS) as admin:
        (org,) = await admin.get("/orgs")
        person = await admin.post(f"/orgs/{org['id']}/people", {"name": "Ada", "role": "operator"})
    async with ApiClient(url, person["auth_token"], seconds=PROCESS_START_SECONDS) as api:
        yield api


async def add_scout(person: ApiClient) -> None:
    """What the page does by *Add agent*, and a message. tests/interop/test_real_runner.py has the page itself."""
    scout = await person.post("/workspaces", {"name": "Scout"})
    org_id = (await person.get(f"/workspaces/{scout['id']}"))["org_id"]
    place = f"/orgs/{org_id}/runners"

    async def runners() -> list[Any]:
        return list(await person.get(place))

    (runner,) = await eventually(runners, lambda found: bool(found and found[0]["installed"]), PROCESS_START_SECONDS)
    wanted = {"action": "start", "workspace_id": scout["id"], "kind": "claude", "mode": ""}
    made = await person.post(f"{place}/{runner['id']}/requests", {**wanted, "folder": f"{runner['folders'][0]}/Scout"})
    ended = await person.get(f"{place}/{runner['id']}/requests/{made['id']}", wait=25)
    assert (ended["status"], ended["text"]) == ("done", "")
    await person.send(scout["id"], SCOUTS_QUESTION.strip())

    async def said() -> list[str]:
        page = await person.get(f"/workspaces/{scout['id']}/chat-history")
        return [line["content"] for line in page["messages"] if line["role"] == "agent"]

    assert await eventually(said, bool, PROCESS_START_SECONDS) == [SCOUTS_ANSWER]


async def run(reader: Reader, block: Block) -> None:
    assert await asyncio.to_thread(reader.run, block) == []


async def type_in(terminal: Terminal, text: str) -> None:
    """Type a prompt, wait until it is shown, and send it. A line that ends with a backslash goes on."""
    lines = text.rstrip("\n").splitlines()
    terminal.press("\\\r".join(lines))
    await terminal.shows(lines[-1][-30:])
    terminal.press("\r")


def settle(home: Home) -> None:
    """Claude Code was used before on this machine, elsewhere: it asks about the folder and its servers. That its person
    permits our tools is settled, as it would else ask once for each."""
    known = {"approved": [KEY[-20:]], "rejected": []}
    used = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": known}
    home.write("~/.claude.json", json.dumps(used))
    permitted = {"permissions": {"allow": ["mcp__molecule"], "defaultMode": "default"}}
    home.write("~/.claude/settings.json", json.dumps(permitted))


def path_with_claude(folder: Path, command: list[str]) -> str:
    """Return a PATH on which `claude` starts the pinned host."""
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return os.pathsep.join((str(program.parent), os.defpath))


async def choose(terminal: Terminal, option: str, arrow: str) -> None:
    """Choose an option of a dialog of the host, which begins on another one."""
    await terminal.shows(option)
    await terminal.rests()
    terminal.press(arrow)
    await terminal.shows(f"{_CHOSEN}{option}")
    terminal.press("\r")


@requirement("X1")
async def test_the_tutorial_works_with_a_real_claude_code(tmp_path: Path, endpoint: Endpoint) -> None:
    host = require(CLAUDE)
    blocks = {block.text.splitlines()[0].split(" #")[0].rstrip(): block for block in read_blocks(PAGE)}
    async with reading_it(tmp_path / "reader") as reader, AsyncExitStack() as people:
        home = Home(reader.home)
        settle(home)
        path = path_with_claude(tmp_path, host.pinned.command())
        installed = {"PATH": os.pathsep.join((path, reader.environment["PATH"]))}
        reader.environment |= host.variables(home, endpoint)
        # New terminals of the reader begin with what was exported, which includes a PATH.
        exported = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in installed.items())
        home.write("~/variables", home.read("~/variables") + exported)
        await run(reader, blocks["scripts/up"])

        # Step 2: an agent that the page starts.
        person = await people.enter_async_context(person_of(reader))
        await add_scout(person)

        # Step 3: `connect` waits in the second terminal, and Claude Code starts in the third.
        connect = blocks['export CLONE="$PWD" PATH="$PWD/.venv/bin:$PATH"']
        waiting = await asyncio.to_thread(reader.main.run_until, reader.filled(connect.text), "Start Claude Code now")
        start = blocks["cd ~/my-project"]
        env = session_environment(home, endpoint) | {"PATH": path}
        async with (
            at_a_terminal(("bash", "-c", start.text), env, reader.home) as terminal,
        ):
            await choose(terminal, "Yes, I trust this folder", _DOWN)
            await choose(terminal, "No, keep manual mode", _DOWN)
            ran = await asyncio.to_thread(reader.main.wait, waiting)
            (printed,) = start.outputs
            assert (ran.failures, find_difference("…\n" + printed, ran.output)) == ([], "")

            # Step 4: the first message.
            lead = next(each for each in await person.get("/workspaces") if each["name"] == "Lead")
            await person.send(lead["id"], LEADS_QUESTION.strip())

            async def chat() -> list[Any]:
                page = await person.get(f"/workspaces/{lead['id']}/chat-history")
                return [line["content"] for line in page["messages"]]

            await terminal.shows("Answered.")
            assert await chat() == [LEADS_QUESTION.strip(), answer_to(LEADS_QUESTION.strip())]
            assert "1 message waits" in endpoint.mind.asked[0].said

            # Steps 5 and 6: the second agent, and the rule.
            for beginning in ("mkdir -p ~/my-team", 'export PATH="$PWD/.venv/bin', "LEAD=$(grep"):
                await run(reader, next(each for first, each in blocks.items() if first.startswith(beginning)))

            # Step 7: the delegation, with the approval.
            await type_in(terminal, DELEGATE_PROMPT)

            async def pending() -> list[Any]:
                return list((await person.get("/approvals/pending"))["approvals"])

            (waits,) = await eventually(pending, lambda found: len(found) == 1, PROCESS_START_SECONDS)
            path = f"/workspaces/{lead['id']}/approvals/{waits['approval_id']}/decide"
            await person.post(path, {"decision": "approve", "action_hash": waits["action_hash"]})
            await terminal.shows(f"Desk says: {RESULT}")
        await run(reader, blocks["molecule delegations list"])
        await run(reader, blocks["cd ~/my-project && molecule connect claude-code --undo"])
        assert not (reader.home / "my-project" / ".mcp.json").exists()
    assert endpoint.mind.faults == []
