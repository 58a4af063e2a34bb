"""The driver of Claude Code against its lines: answers, traps, repeated messages, steering, stops, older versions."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.agent.bridges.claude.driver import ClaudeDriver, ClaudeOptions
from molecule_core.agent.bridges.sessions import (
    DriverDied,
    PermissionDecision,
    ToolPermission,
    Turn,
    TurnEnd,
    UserQuestion,
)
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.common.clock import SystemClock
from testing.scripted_claude import LIMIT_AT
from testing.waits import bounded, eventually
from tests.requirements import requirement

PROGRAM = Path(__file__).resolve().parents[3] / "testing" / "scripted_claude.py"


class Events:
    """What a turn reported."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.texts: list[str] = []
        self.begun = asyncio.Event()
        self.denials: dict[str, str] = {}
        self.permissions: list[ToolPermission] = []
        self.decision = PermissionDecision(is_allowed=True)

    async def session_started(self, session_id: str) -> None:
        self.sessions.append(session_id)

    def text(self, delta: str) -> None:
        self.texts.append(delta)

    def tool(self, *_: object) -> None:
        """Of no interest here."""

    def status(self, *_: object) -> None:
        """Of no interest here."""

    def limited(self, *_: object) -> None:
        """Of no interest here."""

    async def find_denial(self, tool: str) -> str:
        return self.denials.get(tool, "")

    async def ask_permission(self, request: ToolPermission) -> PermissionDecision:
        self.permissions.append(request)
        return self.decision

    async def ask_questions(self, questions: Sequence[UserQuestion]) -> Mapping[str, str] | None:
        raise AssertionError(questions)

    async def call_tool(self, name: str, arguments: Any, call_id: str) -> ToolOutput:
        raise AssertionError(name)


class Bench:
    """A driver of the scripted program, and its sessions by conversation."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.driver = ClaudeDriver(
            ClaudeOptions(command=(sys.executable, str(PROGRAM), *flags)),
            (),
            {"SCRIPTED_CLAUDE": str(folder), "PATH": ""},
            folder,
            slot="w-1",
            clock=SystemClock(),
            settings=BridgeSettings(end_seconds=1),
        )
        self.session = ""
        self.has_memory = False

    async def is_working(self) -> bool:
        """Whether the program works on a message."""
        session = self.driver._sessions.get("person")
        return session is not None and any(each.is_begun for each in session._messages._messages.values())

    def turn(self, text: str, id_: str = "", run: int = 1) -> Turn:
        return Turn(
            activity_id="m-1",
            turn_id=id_ or str(uuid.uuid4()),
            run=run,
            conversation="person",
            session_id=self.session,
            system_prompt="be kind",
            text=text,
            cwd=self.folder,
            is_repeat=run > 1,
            has_memory=self.has_memory,
        )

    async def run(self, turn: Turn, events: Events | None = None) -> TurnEnd:
        events = events or Events()
        try:
            return await bounded(self.driver.run_turn(turn, events))
        finally:
            self.session = (*events.sessions, self.session)[0]


@requirement("G17")
async def test_a_turn_is_stopped_while_claude_code_starts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "--deaf")
    running = asyncio.create_task(bench.run(bench.turn("hello")))
    await eventually(lambda: _has_stop(bench), bool)
    await bench.driver.stop("person")
    assert (await bounded(running)).kind == "stopped"
    assert (await bench.run(bench.turn("say hi"))).text == "so: say hi"
    await bench.driver.close()


async def _has_stop(bench: Bench) -> bool:
    return "person" in bench.driver._stops


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A driver of today's version."""
    found = Bench(tmp_path)
    yield found
    await found.driver.close()


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[Bench]:
    """A driver of the version before receipts."""
    found = Bench(tmp_path, "--old")
    yield found
    await found.driver.close()


@requirement("G17", "G20")
async def test_turns_of_a_conversation_are_one_session_and_cost_what_each_of_them_cost(bench: Bench) -> None:
    events = Events()
    first = await bench.run(bench.turn("say one"), events)
    second = await bench.run(bench.turn("say two"), events)
    assert (first.kind, first.text, second.text) == ("answered", "so: say one", "so: say two")
    assert len(events.sessions) == 1 and events.texts == ["so: ", "so: "]
    assert first.usage is not None and second.usage is not None
    assert (first.usage.input_tokens, first.usage.cached_tokens, first.usage.output_tokens) == (7, 5, 3)
    assert (first.usage.cost_usd, second.usage.cost_usd) == (0.5, 0.0)


@requirement("G17", "G20")
@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("break", "failed", "broke the turn off"),
        ("fail", "failed", "(status 400): API Error: 400 no such model"),
        ("limit", "limited", "usage limit reached"),
    ],
)
async def test_the_reason_decides_how_a_turn_ended_and_not_the_word_success(
    bench: Bench, text: str, kind: str, reason: str
) -> None:
    found = await bench.run(bench.turn(text))
    assert found.kind == kind and reason in found.reason
    assert found.limited_until == (LIMIT_AT * 1000 if kind == "limited" else None)


@requirement("G17")
async def test_a_line_of_any_length_and_strange_lines_between_are_read(bench: Bench) -> None:
    assert len((await bench.run(bench.turn("shout"))).text) == 500_000
    assert (await bench.run(bench.turn("stray"))).text == "so: stray"


@requirement("G17")
async def test_a_turn_that_was_cut_is_asked_for_its_answer_in_its_session(bench: Bench) -> None:
    id_ = str(uuid.uuid4())
    with pytest.raises(DriverDied):
        await bench.run(bench.turn("die", id_))
    session = bench.session
    found = await bench.run(bench.turn("say it again", id_, run=2))
    assert (found.kind, bench.session) == ("answered", session)
    assert found.text.startswith("so: Your last turn about the message below was interrupted.")
    assert len((bench.folder / session).read_text().split()) == 2


@requirement("G17", "G20")
async def test_conversations_whose_programs_died_together_go_on(bench: Bench) -> None:
    names = ("person", "peer_1", "peer_2")

    async def say(name: str, text: str, session_id: str = "") -> tuple[str, str]:
        events = Events()
        turn = replace(bench.turn(f"say {text}"), conversation=name, session_id=session_id)
        end = await bounded(bench.driver.run_turn(turn, events))
        return end.text, (*events.sessions, session_id)[0]

    begun = {name: (await say(name, "one"))[1] for name in names}
    sessions = list(bench.driver._sessions.values())
    for session in sessions:
        session._process.kill()

    async def are_dead() -> bool:
        return not any(session.is_alive for session in sessions)

    await eventually(are_dead, bool)
    said = await asyncio.gather(*(say(name, "two", begun[name]) for name in names))
    assert said == [("so: say two", begun[name]) for name in names]


@requirement("G17")
async def test_a_session_that_is_gone_begins_anew_under_its_id(bench: Bench) -> None:
    bench.session, bench.has_memory = str(uuid.uuid4()), True
    first, second = await bench.run(bench.turn("say hi")), await bench.run(bench.turn("say more"))
    assert first.text.startswith("(Claude Code could not load the session of this conversation")
    assert "so: The earlier part of this conversation is lost" in first.text and first.text.endswith("say hi")
    assert second.text == "so: say more"
    assert (bench.folder / bench.session).exists()


@requirement("G17")
async def test_a_session_that_died_before_its_first_answer_has_lost_nothing(bench: Bench) -> None:
    """Also if another message of the conversation is the first to be tried again."""
    bench.session = str(uuid.uuid4())
    assert (await bench.run(bench.turn("say hi"))).text == "so: say hi"


@requirement("G17")
async def test_a_steered_message_is_covered_by_the_answer_of_the_running_turn(bench: Bench) -> None:
    running = asyncio.create_task(bench.run(bench.turn("wait")))
    steered = bench.turn("say use staging")
    await eventually(lambda: bench.driver.steer("person", steered), bool)
    found = await bounded(running)
    assert (found.kind, found.text) == ("answered", "so: say use staging")
    assert found.folded_turn_ids == (steered.turn_id,)


@requirement("G17")
async def test_a_turn_is_stopped_and_the_session_goes_on(bench: Bench) -> None:
    await bench.run(bench.turn("say one"))
    running = asyncio.create_task(bench.run(bench.turn("wait")))
    await eventually(bench.is_working, bool)
    await bench.driver.stop("person")
    assert (await bounded(running)).kind == "stopped"
    assert (await bench.run(bench.turn("say two"))).kind == "answered"


@requirement("G16")
@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (PermissionDecision(is_allowed=True), '{"behavior": "allow", "updatedInput": {"command": "ls"}}'),
        (
            PermissionDecision(is_allowed=True, edited_input={"command": "pwd"}, is_remembered=True),
            '{"behavior": "allow", "updatedInput": {"command": "pwd"}, "updatedPermissions": [{"type": "x"}]}',
        ),
        (
            PermissionDecision(is_allowed=False, reason="Ada says: no"),
            '{"behavior": "deny", "message": "Ada says: no"}',
        ),
    ],
)
async def test_a_permission_is_asked_whole_and_answered_as_decided(
    bench: Bench, decision: PermissionDecision, told: str
) -> None:
    events = Events()
    events.decision = decision
    assert (await bench.run(bench.turn("ask"), events)).text == told
    assert [(each.tool, each.tool_input) for each in events.permissions] == [("Bash", {"command": "ls"})]


@requirement("G17", "G20")
async def test_an_older_version_answers_queues_what_would_steer_and_says_what_it_lacks(old: Bench) -> None:
    info = await old.driver.start()
    assert (info.version, "steer" in info.abilities, len(info.missing)) == ("2.1.197", False, 1)
    assert (await old.run(old.turn("say one"))).text == "so: say one"
    running = asyncio.create_task(old.run(old.turn("wait")))
    await eventually(old.is_working, bool)
    assert not await old.driver.steer("person", old.turn("say two"))
    await old.driver.stop("person")
    assert (await bounded(running)).kind == "stopped"


@requirement("G17")
async def test_children_in_sessions_of_their_own_are_ended_with_the_program(bench: Bench) -> None:
    await bench.run(bench.turn("say one"))
    mark = bench.driver._mark("person")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        env={"MOLECULE_BRIDGE_PROGRAM": mark},
        start_new_session=True,
    )
    await bench.driver.close()
    assert await bounded(child.wait()) == -9


@requirement("AU4", "G17")
async def test_a_tool_that_needs_no_permission_is_denied_with_its_reason_by_the_hook_before_it(tmp_path: Path) -> None:
    bench, events = Bench(tmp_path), Events()
    allowed = await bench.run(bench.turn("use the hook"), events)
    events.denials["Bash"] = "the tool Bash is outside what this work may do"
    denied = await bench.run(bench.turn("use the hook again"), events)
    await bench.driver.close()
    assert allowed.text == "{}"
    decision = {"permissionDecision": "deny", "permissionDecisionReason": events.denials["Bash"]}
    assert json.loads(denied.text) == {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}
