"""The driver of Codex, with what real versions have written: 0.171.0, and 0.169.0 for the recovery."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from molecule_core.agent.bridges.codex.approvals import COMMAND, read_permission, render_decision
from molecule_core.agent.bridges.codex.driver import CodexDriver, read_info
from molecule_core.agent.bridges.codex.limits import RateLimits, failure_reason, is_limit
from molecule_core.agent.bridges.process_runner import ProcessStarter
from molecule_core.agent.bridges.sessions import DriverDied, PermissionDecision, TurnUsage
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.common.clock import SystemClock
from testing.turn_recorder import TurnRecorder, turn_of
from testing.waits import bounded, eventually
from tests.agent.bridges.acp_agents import ListPeers
from tests.requirements import requirement

PLAYER = Path(__file__).resolve().parents[3] / "testing" / "scripted_codex.py"
HUNG = PLAYER.with_name("hung_codex.py")
RECORDINGS = Path(__file__).with_name("recordings")
ESCALATION = "escalate touch /home/ada/…"
RECOVERED_THREAD = "01a221ba-ed6f-71c3-a958-b84f16208d9e"


def driving(recording: str, folder: Path) -> AbstractAsyncContextManager[CodexDriver]:
    """A driver of a program that replays a recording."""
    return driving_program((str(PLAYER), str(RECORDINGS / f"codex-{recording}.jsonl")), folder)


@asynccontextmanager
async def driving_program(
    arguments: tuple[str, ...], folder: Path, *, start_seconds: float = 60
) -> AsyncIterator[CodexDriver]:
    """A driver of a Python program, until the block ends."""
    settings = BridgeSettings(end_seconds=1, stop_seconds=1, start_seconds=start_seconds)
    command = (sys.executable, *arguments)
    starter = ProcessStarter(command, {"PATH": os.defpath}, folder, clock=SystemClock(), settings=settings)
    driver = CodexDriver(starter, [ListPeers()], slot="w-1", clock=SystemClock(), settings=settings)
    try:
        yield driver
    finally:
        await driver.close()


async def test_turns_share_a_thread_and_report_text_and_usage(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("turns", tmp_path) as driver:
        info = await bounded(driver.start())
        first = await bounded(driver.run_turn(turn_of("hello one", tmp_path), recorder))
        (thread,) = recorder.sessions
        second = await bounded(driver.run_turn(turn_of("hello two", tmp_path, session_id=thread), recorder))
    assert (info.program, info.version, info.missing) == ("Codex", "0.171.0", ())
    assert first.text == "codex printed answer to: hello one (user turns so far: 2)"
    assert second.text == "codex printed answer to: hello two (user turns so far: 3)"
    assert first.usage == TurnUsage(input_tokens=10, output_tokens=5)
    assert recorder.written == first.text + second.text
    assert recorder.sessions == [thread]


async def test_a_steered_message_is_covered_by_the_running_answer(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("turns", tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("slow question one", tmp_path), recorder))
        await bounded(recorder.has_text.wait())
        steered = turn_of("STEER use staging", tmp_path)
        assert await bounded(driver.steer("c1", steered)) is True
        end = await bounded(running)
        assert await driver.steer("c1", turn_of("too late", tmp_path)) is False
    assert end.kind == "answered"
    assert end.folded_turn_ids == (steered.turn_id,)
    assert recorder.written.startswith("thinking about it ")


async def test_a_stop_interrupts_the_turn(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("turns", tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("slow question two", tmp_path), recorder))
        await bounded(recorder.has_text.wait())
        await driver.stop("c1")
        end = await bounded(running)
    assert end.kind == "stopped"
    assert end.text == recorder.written.strip()


@pytest.mark.parametrize("method", ["thread/start", "thread/resume", "thread/turns/list", "turn/start"])
async def test_a_turn_whose_request_codex_does_not_answer_is_stopped_and_the_next_is_answered(
    method: str, tmp_path: Path
) -> None:
    asked, session_id = tmp_path / "asked", "" if method == "thread/start" else "t1"

    async def is_asked() -> bool:
        return asked.exists()

    async with driving_program((str(HUNG), method, str(asked)), tmp_path) as driver:
        hung = turn_of("one", tmp_path, session_id=session_id, is_repeat=method == "thread/turns/list")
        running = asyncio.create_task(driver.run_turn(hung, TurnRecorder()))
        assert await eventually(is_asked, bool)
        await driver.stop("c1")
        end = await bounded(running)
        following = await bounded(driver.run_turn(turn_of("two", tmp_path, session_id=session_id), TurnRecorder()))
    assert (end.kind, following.kind, following.text) == ("stopped", "answered", "an answer")


@pytest.mark.parametrize("method", ["thread/start", "thread/resume", "thread/turns/list"])
async def test_a_codex_that_hangs_is_ended_after_the_time_of_a_start_and_the_turn_is_tried_again(
    method: str, tmp_path: Path
) -> None:
    session_id = "" if method == "thread/start" else "t1"
    turn = turn_of("one", tmp_path, session_id=session_id, is_repeat=method == "thread/turns/list")
    async with driving_program((str(HUNG), method, str(tmp_path / "asked")), tmp_path, start_seconds=2) as driver:
        with pytest.raises(DriverDied, match=f"it did not answer {method} within 2 seconds"):
            await bounded(driver.run_turn(turn, TurnRecorder()))
        end = await bounded(driver.run_turn(turn, TurnRecorder()))
    assert end.text == "an answer"


async def test_a_failed_turn_says_why_and_what_to_do(tmp_path: Path) -> None:
    async with driving("turns", tmp_path) as driver:
        end = await bounded(driver.run_turn(turn_of("cause an error", tmp_path), TurnRecorder()))
    assert end.kind == "failed"
    assert "credit balance is too low" in end.reason
    assert end.reason.endswith("Read the log of Codex on the machine of the bridge.")


async def test_a_killed_codex_is_an_end_that_is_tried_again(tmp_path: Path) -> None:
    async with driving("turns", tmp_path) as driver:
        with pytest.raises(DriverDied, match=signal.SIGKILL.name):
            await bounded(driver.run_turn(turn_of("slow question three", tmp_path), TurnRecorder()))


async def test_permissions_have_the_whole_input_and_the_reason_of_codex(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("approvals", tmp_path) as driver:
        await bounded(driver.run_turn(turn_of("run touch u-accept.txt", tmp_path), recorder))
        other = TurnRecorder()
        escalated = turn_of(ESCALATION, tmp_path, conversation="c2")
        allowed = await bounded(driver.run_turn(escalated, other))
        other.decision = PermissionDecision(is_allowed=False, reason="Ada says: never")
        declined = await bounded(
            driver.run_turn(turn_of(ESCALATION, tmp_path, conversation="c2", session_id=other.sessions[0]), other)
        )
    (command,) = recorder.permissions
    assert command.tool_input["command"] == "/bin/bash -lc 'touch u-accept.txt'"
    assert (command.tool, command.can_edit) == ("shell", False)
    assert [each.title for each in other.permissions] == ["Do you want me to do that?"] * 2
    assert (allowed.kind, declined.kind) == ("answered", "answered")
    assert "rejected by user" in declined.text
    statuses = [status for _id, tool, _title, status in other.tools if tool == "shell"]
    assert statuses == ["started", "completed", "started", "failed"]


async def test_tools_of_the_platform_run_in_this_process(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    recorder.output = lambda name, arguments: ToolOutput("Ada, Lead")
    async with driving("approvals", tmp_path) as driver:
        await bounded(driver.run_turn(turn_of("run touch u-accept.txt", tmp_path), TurnRecorder()))
        first = TurnRecorder()
        await bounded(driver.run_turn(turn_of(ESCALATION, tmp_path, conversation="c2"), first))
        peers = turn_of("peers", tmp_path, conversation="c2", session_id=first.sessions[0])
        end = await bounded(driver.run_turn(peers, recorder))
    assert recorder.calls == [("list_peers", {})]
    assert end.text == 'tool said: "Ada, Lead"'


async def test_a_cancelled_permission_of_codex_ends_the_turn_as_stopped(tmp_path: Path) -> None:
    """Another client of Codex may do that: the driver only declines."""
    recorder = TurnRecorder()
    async with driving("approvals", tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("run touch u-cancel.txt", tmp_path), recorder))
        recorder.may_decide.clear()
        await bounded(recorder.is_asked.wait())
        assert driver._connection is not None
        driver._connection._process.send({"id": 2, "result": {"decision": "cancel"}})
        assert (await bounded(running)).kind == "stopped"


async def test_after_a_kill_each_message_is_found_by_its_id(tmp_path: Path) -> None:
    ends, recorder = [], TurnRecorder()
    async with driving("recovery", tmp_path) as driver:
        for text in ("complete", "cut", "never sent"):
            turn = turn_of(text, tmp_path, session_id=RECOVERED_THREAD, is_repeat=True)
            ends.append(await bounded(driver.run_turn(turn, recorder)))
    assert [end.text for end in ends] == ["an answer"] * 3
    assert recorder.written == "an answer" * 2  # the complete one was not run again
    assert recorder.sessions == []


def test_an_older_codex_says_what_it_lacks() -> None:
    info = read_info("molecule_bridge/0.130.0 (Debian 12.0.0; x86_64)")
    assert info.version == "0.130.0"
    assert info.missing == (
        "tools of the platform (Codex 0.169 or newer)",
        "exactly-once after a crash (Codex 0.169 or newer)",
    )
    assert read_info("something else").version == ""


@pytest.mark.parametrize(
    ("info", "limited"),
    [
        ("usageLimitExceeded", True),
        ("rateLimitExceeded", True),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, True),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 500}}, False),
        ("unauthorized", False),
        (None, False),
    ],
)
def test_a_vendors_limit_is_told_from_other_errors(info: object, limited: bool) -> None:
    assert is_limit(info) is limited


def test_a_limit_ends_when_the_window_that_is_used_up_resets() -> None:
    limits = RateLimits()
    assert limits.resets_at(0) is None
    limits.update(
        {"primary": {"usedPercent": 100, "resetsAt": 2000}, "secondary": {"usedPercent": 40, "resetsAt": 9000}}
    )
    assert limits.resets_at(1_000_000) == 2_000_000
    limits.update({"primary": None, "secondary": {"usedPercent": 100, "resetsAt": 9000}})
    assert limits.resets_at(1_000_000) == 9_000_000
    assert limits.resets_at(9_000_000) is None


def test_a_remembered_permission_takes_the_rule_that_codex_proposes() -> None:
    amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "a"]}}
    params = {"itemId": "call_1", "command": "touch a", "availableDecisions": ["accept", amendment, "cancel"]}
    remembered = PermissionDecision(is_allowed=True, is_remembered=True)
    assert read_permission(COMMAND, params, {}).suggestions == [amendment]
    assert render_decision(COMMAND, params, remembered) == {"decision": amendment}
    assert render_decision(COMMAND, {"itemId": "call_1"}, remembered) == {"decision": "acceptForSession"}
    assert render_decision(COMMAND, params, PermissionDecision(is_allowed=False)) == {"decision": "decline"}


def test_an_unauthorized_codex_names_the_command_to_log_in() -> None:
    reason = failure_reason("401 Unauthorized", "unauthorized")
    assert reason == "Codex reports: 401 Unauthorized. Run `codex login` on the machine of the bridge."


@requirement("AU4")
async def test_codex_asks_more_often_in_a_turn_that_may_not_use_a_tool_that_acts(tmp_path: Path) -> None:
    restricted, free = TurnRecorder(), TurnRecorder()
    restricted.denials["apply_patch"] = "the tool apply_patch is outside what this work may do"
    async with driving_program((str(HUNG), "none", str(tmp_path / "asked")), tmp_path) as driver:
        for text, recorder in (("one", restricted), ("two", free)):
            end = await bounded(driver.run_turn(turn_of(text, tmp_path, session_id="t1"), recorder))
            assert end.text == "an answer"
    assert (tmp_path / "policies").read_text().split() == ["untrusted", "on-request"]
