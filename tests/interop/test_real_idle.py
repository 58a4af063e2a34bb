"""A host that a person has started and left alone: each message wakes it, and its agent answers by itself."""

import contextlib
import html
import json
import os
import re
import signal
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page

from testing.ports import free_port
from testing.running_server import Running, running
from tests.canvas.expectations import expect
from tests.interop import transcript
from tests.interop.host_requirements import require
from tests.interop.hosts import (
    CLAUDE,
    CLAUDE_OLDER,
    CODEX_CLI,
    OPENCODE_CLI,
    RealHost,
    outside_world,
    session_environment,
)
from tests.interop.model_scripts import Act, Asked, Call, Mind
from tests.interop.scene import Scene, sitting, staged
from tests.interop.terminal import Terminal, at_a_terminal
from tests.interop.test_real_instructions import spelled_out
from tests.requirements import requirement

COUNT = int(os.environ.get("MOLECULE_INTEROP_MESSAGES", "3"))
"""Messages of each test. The figures of docs/interop are of 20."""
_TURNS = 6
"""Turns of a transcript: those of two messages."""
_WOKEN = re.compile(r"Molecule: \d+ messages? waits?, from ")


class WokenMind(Mind):
    """Reads when it is woken, answers what it has read as its instructions say, and ends its turn."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix, [])
        self.replied_at: list[float] = []

    def has_replied(self, count: int) -> bool:
        """Whether so many answers were accepted."""
        return len(self.replied_at) >= count

    def answer(self, asked: Asked) -> Act:
        self.asked.append(asked)
        self.acts.append(self._next(asked))
        return self.acts[-1]

    def _next(self, asked: Asked) -> Act:
        reads = [each.value for each in asked.results if each.tool.endswith("wait_for_message")]
        replies = [each for each in asked.results if each.tool.endswith("__reply")]
        self.replied_at += [time.monotonic()] * (len(replies) - len(self.replied_at))
        shown = [each["message"] for each in reads if each["message"] is not None]
        if len(shown) > len(replies):
            return spelled_out(shown[-1]["instructions"]["text"], shown[-1]["body"])
        if len(_WOKEN.findall(asked.said)) > len(reads):
            return Call(f"{self.prefix}wait_for_message", {"timeout_secs": 0})
        return "Done."


_PROMPTED = re.compile(
    r"<channel [^>]*>\n<instructions>(.*?)</instructions>\n<body>(.*?)</body>\n</channel>", re.DOTALL
)


class PromptedMind(WokenMind):
    """Answers each message that came as a prompt, as its instructions say, and ends its turn."""

    def _next(self, asked: Asked) -> Act:
        if not asked.tools:
            return "A title"
        prompts = _PROMPTED.findall(asked.said)
        replies = [each for each in asked.results if each.tool.startswith(self.prefix)]
        self.replied_at += [time.monotonic()] * (len(replies) - len(self.replied_at))
        if len(prompts) > len(replies):
            words, body = map(html.unescape, prompts[len(replies)])
            return spelled_out(words, body)
        return "Done."


COMMAND = {"command": "rm -rf build && touch ran", "description": "Run it"}


class CarefulMind(WokenMind):
    """Runs a command for each message before it answers."""

    last_run = ""

    def _next(self, asked: Asked) -> Act:
        act = super()._next(asked)
        if isinstance(act, Call) and act.tool.endswith("__reply"):
            replies = [each for each in asked.results if each.tool.endswith("__reply")]
            runs = [each for each in asked.results if each.tool == "Bash"]
            if len(runs) == len(replies):
                return Call("Bash", COMMAND)
            self.last_run = runs[-1].text
        return act

    def has_run(self, result: str) -> bool:
        """Whether the last command gave that."""
        return result in self.last_run


class ForgetfulMind(WokenMind):
    """Answers in its terminal first, and only when it is asked to go on as it should."""

    def _next(self, asked: Asked) -> Act:
        act = super()._next(asked)
        is_reply = isinstance(act, Call) and act.tool.endswith("__reply")
        return "It is the Danube." if is_reply and "is not answered. Call" not in asked.said else act


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that sends instructions with its messages."""
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state, push_instructions_enabled=True) as found:
        yield found


@pytest.fixture(params=(CLAUDE, CLAUDE_OLDER), ids=[each.pinned.version for each in (CLAUDE, CLAUDE_OLDER)])
async def scene(server: Running, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """Claude Code in a workspace of that server."""
    host = require(request.param)
    async with staged(host, tmp_path / "home", await sitting(server, runtime="claude-code")) as found:
        yield found


async def connect(scene: Scene) -> None:
    """The person calls `molecule connect`."""
    flags = ("--workspace", scene.ops.seat.name, "--apply", "--wait", "0")
    async with scene.connecting(*flags) as connecting:
        assert await connecting.ended() == 0, connecting.said


@asynccontextmanager
async def idle(scene: Scene, *flags: str) -> AsyncIterator[Terminal]:
    """A session that a person has started after `molecule connect`, and left alone."""
    await connect(scene)
    env = session_environment(scene.home, scene.endpoint)
    command = (*scene.host.pinned.command(), *flags)
    async with at_a_terminal(command, env, scene.home.project) as terminal:
        await terminal.rests()
        yield terminal


@requirement("X2", "G15h")
async def test_each_message_wakes_an_idle_session_and_is_answered_by_itself(scene: Scene) -> None:
    mind = scene.endpoint.mind = WokenMind(scene.host.prefix)
    async with idle(scene) as terminal:
        await answer_all(scene, mind, terminal)
    write_transcript(scene, mind, "claude")
    assert (mind.faults, len(await scene.ops.chat())) == ([], 2 * COUNT)


async def answer_all(scene: Scene, mind: WokenMind, terminal: Terminal) -> None:
    """The person writes, one message after the other, until each is answered."""
    seconds = []
    for number in range(COUNT):
        sent = time.monotonic()
        await scene.ops.writes(f"Question {number}: which river flows through Ulm?")
        await terminal.until(partial(mind.has_replied, number + 1), f"answer {number}")
        seconds.append(mind.replied_at[-1] - sent)
        await terminal.rests()
    report(scene.host, seconds)


def report(host: RealHost, seconds: list[float]) -> None:
    """Write the figures where they are wanted."""
    if file := os.environ.get("MOLECULE_INTEROP_FIGURES"):
        median, longest = statistics.median(seconds), max(seconds)
        line = f"{host.title} {host.pinned.version}: {len(seconds)} of {COUNT} answered; first {seconds[0]:.2f} s, "
        with Path(file).open("a", encoding="utf-8") as figures:
            figures.write(f"{line}median {median:.2f} s, longest {longest:.2f} s\n")


def write_transcript(scene: Scene, mind: WokenMind, command: str) -> None:
    """Write the turns of the first two messages to docs/interop, where that is wanted."""
    if os.environ.get("MOLECULE_INTEROP_WRITE") and scene.host is not CLAUDE_OLDER:
        turns = [pair for pair in zip(mind.asked, mind.acts, strict=True) if pair[0].tools][:_TURNS]
        asked, acts = [each for each, _ in turns], [act for _, act in turns]
        text = transcript.idle_page(scene, asked, acts, command)
        transcript.write(scene.host, text, f"{scene.host.name}-idle")


@requirement("X2", "G16")
async def test_a_permission_prompt_of_an_idle_session_is_decided_on_the_page(scene: Scene, page: Page) -> None:
    """A person allows one with another command and denies one with a reason, by clicks in the inbox."""
    mind = scene.endpoint.mind = CarefulMind(scene.host.prefix)
    manual = "default" if scene.host is CLAUDE_OLDER else "manual"
    link = await scene.ops.server.server.login_link()
    await page.goto(link.replace("/app/#", "/app/inbox?kind=approval&state=open#"))
    async with idle(scene, "--permission-mode", manual) as terminal:
        await scene.ops.writes("Run it.")
        request = await open_prompt(page)
        await request.get_by_role("button", name="Approve with edits…").click()
        edited = json.dumps({"tool": "Bash", "input": {"command": "echo edited"}})
        await request.get_by_role("textbox", name="Details to approve").fill(edited)
        await request.get_by_role("button", name="Approve edited details").click()
        await terminal.until(partial(mind.has_run, "edited"), "the edited command")
        await terminal.rests()

        await scene.ops.writes("Run it again.")
        request = await open_prompt(page)
        await request.get_by_role("button", name="Deny…").click()
        await request.get_by_label("Reason").fill("Not on a Friday.")
        await request.get_by_role("button", name="Deny", exact=True).click()
        await terminal.until(partial(mind.has_run, "Not on a Friday."), "the denial")
        await terminal.rests()
    assert mind.faults == []
    assert len(await scene.ops.chat()) == 4


async def open_prompt(page: Page) -> Locator:
    """Open the only request that waits, and return it; its whole input is shown."""
    await page.get_by_role("region", name="Requests").locator("li[data-approval]").get_by_role("link").click()
    request = page.get_by_role("article", name="Request")
    await expect(request.get_by_role("heading", name="permission:Bash")).to_be_visible()
    await expect(request).to_contain_text(COMMAND["command"])
    return request


@requirement("X2", "G15h")
async def test_an_agent_that_ends_its_turn_in_silence_goes_on_and_answers(scene: Scene) -> None:
    mind = scene.endpoint.mind = ForgetfulMind(scene.host.prefix)
    async with idle(scene) as terminal:
        await scene.ops.writes("Which river flows through Ulm?")
        await terminal.until(partial(mind.has_replied, 1), "the answer")
    assert mind.acts.count("It is the Danube.") == 1
    assert len(await scene.ops.chat()) == 2


# -- Codex -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def codex_in(server: Running, folder: Path, name: str) -> AsyncIterator[Scene]:
    """Codex in a workspace of that server, in a folder that its person trusts."""
    host = require(CODEX_CLI)
    async with staged(host, folder, await sitting(server, name, runtime="codex")) as found:
        known = found.home.read("~/.codex/config.toml")
        trust = f'[projects."{found.home.project}"]\ntrust_level = "trusted"\n'
        found.home.write("~/.codex/config.toml", f"{known}\n{trust}")
        yield found
        for file in (found.home.path / ".codex" / "app-server-daemon").glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError, KeyError):
                os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)


@asynccontextmanager
async def idle_codex(scene: Scene) -> AsyncIterator[Terminal]:
    """A session that a person has started after `molecule connect`, and left alone."""
    await connect(scene)
    person = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    env = person | outside_world(scene.home, scene.endpoint) | scene.host.variables(scene.home, scene.endpoint)
    control = scene.home.path / ".codex" / "app-server-control" / "app-server-control.sock"
    async with at_a_terminal(tuple(scene.host.pinned.command()), env, scene.home.project) as terminal:
        await terminal.until(control.exists, "the control socket")
        await terminal.rests()
        yield terminal


@requirement("X2", "G15h")
async def test_each_message_begins_a_turn_of_an_idle_codex_and_is_answered_by_itself(
    server: Running, tmp_path: Path
) -> None:
    async with codex_in(server, tmp_path / "home", "Ops") as codex:
        mind = codex.endpoint.mind = PromptedMind(codex.host.prefix)
        async with idle_codex(codex) as terminal:
            await answer_all(codex, mind, terminal)
        write_transcript(codex, mind, "codex")
        assert (mind.faults, len(await codex.ops.chat())) == ([], 2 * COUNT)


@requirement("X2", "G15h")
async def test_two_idle_hosts_are_each_woken_for_their_own_messages(server: Running, tmp_path: Path) -> None:
    claude = require(CLAUDE)
    one_at = await sitting(server, "One", runtime="claude-code")
    async with staged(claude, tmp_path / "one", one_at) as one, codex_in(server, tmp_path / "two", "Two") as two:
        first = one.endpoint.mind = WokenMind(one.host.prefix)
        second = two.endpoint.mind = PromptedMind(two.host.prefix)
        async with idle(one) as claude_terminal, idle_codex(two) as codex_terminal:
            for number in range(COUNT):
                await one.ops.writes(f"One, question {number}: which river flows through Ulm?")
                await two.ops.writes(f"Two, question {number}: which river flows through Linz?")
                await claude_terminal.until(partial(first.has_replied, number + 1), f"answer {number} of Claude Code")
                await codex_terminal.until(partial(second.has_replied, number + 1), f"answer {number} of Codex")
        for scene, own, other in ((one, "Ulm", "Linz"), (two, "Linz", "Ulm")):
            asked = [text for role, text in await scene.ops.chat() if role == "user"]
            answers = [text for role, text in await scene.ops.chat() if role == "agent"]
            assert (len(asked), len(answers)) == (COUNT, COUNT)
            assert all(own[::-1] in text and other[::-1] not in text for text in answers)
        assert (first.faults, second.faults) == ([], [])


# -- opencode ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def opencode(server: Running, tmp_path: Path) -> AsyncIterator[Scene]:
    """Opencode in a workspace of that server."""
    host = require(OPENCODE_CLI)
    async with staged(host, tmp_path / "home", await sitting(server, runtime="opencode")) as found:
        yield found


@asynccontextmanager
async def idle_opencode(scene: Scene) -> AsyncIterator[Terminal]:
    """A TUI with a server that has a password, which a person has started after `molecule connect`, and left alone."""
    await connect(scene)
    person = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color", "OPENCODE_SERVER_PASSWORD": "sesame"}
    env = person | outside_world(scene.home, scene.endpoint) | scene.host.variables(scene.home, scene.endpoint)
    command = (*scene.host.pinned.command(), "--port", str(free_port()))
    async with at_a_terminal(command, env, scene.home.project) as terminal:
        await terminal.shows("1 MCP")
        await terminal.rests()
        yield terminal


async def types(terminal: Terminal, mind: PromptedMind, text: str) -> None:
    """The person sends a prompt that ends in that text, and the model answers it."""
    terminal.press(text)
    await terminal.rests()
    terminal.press("\r")
    await terminal.until(lambda: any(each.tools and text in each.said for each in mind.asked), text)
    await terminal.rests()


@requirement("X2", "G15h")
async def test_each_message_begins_a_turn_of_an_idle_opencode_and_is_answered_by_itself(opencode: Scene) -> None:
    """The session is the one that its person has used."""
    mind = opencode.endpoint.mind = PromptedMind(opencode.host.prefix)
    async with idle_opencode(opencode) as terminal:
        await types(terminal, mind, "Good morning")
        await answer_all(opencode, mind, terminal)
        assert "Question0" in terminal.shown
    write_transcript(opencode, mind, "opencode --port PORT")
    assert "Good morning" in mind.asked[-1].said
    assert (mind.faults, len(await opencode.ops.chat())) == ([], 2 * COUNT)


@requirement("X2", "G15h")
async def test_an_opencode_without_a_session_shows_one_and_keeps_what_is_half_typed(opencode: Scene) -> None:
    mind = opencode.endpoint.mind = PromptedMind(opencode.host.prefix)
    async with idle_opencode(opencode) as terminal:
        terminal.press("half typed")
        await terminal.shows("half typed")
        await opencode.ops.writes("Which river flows through Ulm?")
        await terminal.until(partial(mind.has_replied, 1), "the answer")
        await terminal.shows("river")
        await terminal.rests()
        await types(terminal, mind, " and sent")
    assert any("half typed and sent" in each.said for each in mind.asked)
    assert len(await opencode.ops.chat()) == 2
