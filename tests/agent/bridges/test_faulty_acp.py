"""Faults of an ACP agent: the outcome of a turn, fault by fault. Real processes, the driver by itself."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from molecule_core.agent.bridges.process_runner import ProgramNotStartedError
from molecule_core.agent.bridges.sessions import DriverDied, PermissionDecision, TurnUsage
from testing.faulty_acp_agent import FAULTS
from testing.turn_recorder import TurnRecorder, turn_of
from testing.waits import PROCESS_START_SECONDS, bounded, eventually
from tests.agent.bridges.acp_agents import driving, prompts

ALLOWED = '{"outcome": {"outcome": "selected", "optionId": "once"}}'
CANCELLED = '{"outcome": {"outcome": "cancelled"}}'


class Outcome(NamedTuple):
    """What becomes of the second of two messages. `end`: kind of the end, or the exception; `reason`: words in it."""

    end: str
    text: str = ""
    reason: str = ""
    second: str = "two"


ANSWERED = Outcome("answered", "2: two")
OUTCOMES = {
    "none": ANSWERED,
    "says_nothing": Outcome("answered", ""),
    "repeats_old_message": ANSWERED,
    "writes_after_end": ANSWERED,
    "doubles_ids": Outcome("answered", f"2: two ASK {ALLOWED}", second="two ASK"),
    "garbage": ANSWERED,
    "noise": ANSWERED,
    "long_line": ANSWERED,
    "endless_line": Outcome("DriverDied", reason="it wrote a line of more than 1,000,000 bytes"),
    "unknown_updates": ANSWERED,
    "cancels_itself": Outcome("failed", "half an ans", "although it was not stopped"),
    "unknown_stop": Outcome("failed", "half an ans", "unknown reason ('tired')"),
    "foreign_permission": ANSWERED,
    "error_without_code": Outcome("failed", reason="Faulty agent reports error 0: boom"),
    "odd_ids": ANSWERED,
    "drips": Outcome("answered", "slowly, 2: two"),
    "limited": Outcome("limited", reason="a limit of the vendor is reached: Resource exhausted"),
    "offers_only_always": Outcome("answered", f"2: two ASK {CANCELLED}", second="two ASK"),
    "ends_before_permission": Outcome("answered", "2: two"),
    "reports_cancel_as_end": ANSWERED,
    "leaves_child": ANSWERED,
    "holds_first_load": ANSWERED,
    "loads_late": ANSWERED,
    "loads_nothing": ANSWERED,
    "refuses_load": ANSWERED,
}
OTHERS = {"dies", "exits_with_success", "hangs", "ignores_cancel", "merges_prompts", "session_without_id"}
"""Faults with a test of their own."""


def test_every_fault_has_an_outcome() -> None:
    assert set(OUTCOMES) | OTHERS == set(FAULTS)
    assert set(OUTCOMES) & OTHERS == set()


@pytest.mark.parametrize("fault", OUTCOMES)
async def test_a_fault_has_its_named_outcome(fault: str, tmp_path: Path) -> None:
    wanted, recorder = OUTCOMES[fault], TurnRecorder()
    limit = 1_000_000 if fault == "endless_line" else 64 << 20
    async with driving(fault, tmp_path, line_bytes=limit) as driver, asyncio.timeout(PROCESS_START_SECONDS):
        if wanted.end == "DriverDied":
            with pytest.raises(DriverDied, match=wanted.reason):
                await driver.run_turn(turn_of("one", tmp_path), recorder)
            return
        ends = [await driver.run_turn(turn_of("one", tmp_path), TurnRecorderOfSessions(recorder))]
        ends += [await driver.run_turn(turn_of(wanted.second, tmp_path, session_id=recorder.sessions[0]), recorder)]
    assert [end.kind for end in ends] == [wanted.end] * 2
    assert ends[1].text == wanted.text
    assert wanted.reason in ends[1].reason
    assert len(recorder.sessions) == 1
    assert recorder.written.strip() in (ends[1].text, "")


class TurnRecorderOfSessions(TurnRecorder):
    """Notes only sessions, in another recorder."""

    def __init__(self, other: TurnRecorder) -> None:
        super().__init__()
        self.sessions = other.sessions


async def test_a_limit_names_its_end(tmp_path: Path) -> None:
    async with driving("limited", tmp_path) as driver:
        before = time.time_ns() // 1_000_000
        end = await bounded(driver.run_turn(turn_of("one", tmp_path), TurnRecorder()))
    assert end.limited_until is not None
    assert 120_000 <= end.limited_until - before <= 180_000


async def test_usage_and_texts_are_reported(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("none", tmp_path) as driver:
        info = await bounded(driver.start())
        end = await bounded(driver.run_turn(turn_of("hi ASK", tmp_path), recorder))
    assert (info.program, info.version) == ("Faulty agent", "1.0")
    assert end.usage == TurnUsage(input_tokens=3, output_tokens=2)
    assert recorder.written == end.text
    assert recorder.tools == [("call-m1", "execute", "touch a", "started")]
    (asked,) = recorder.permissions
    assert (asked.title, asked.tool_input, asked.can_edit) == ("touch a", {"command": "touch a"}, False)
    (first,) = prompts(tmp_path)
    assert first == "<system>\nYou are Ops.\n</system>\n\nhi ASK"


@pytest.mark.parametrize(
    ("decision", "chosen"),
    [
        (PermissionDecision(is_allowed=True), "once"),
        (PermissionDecision(is_allowed=True, is_remembered=True), "always"),
        (PermissionDecision(is_allowed=False, reason="Ada says: not now"), "no"),
    ],
)
async def test_a_decision_is_the_option_that_fits(decision: PermissionDecision, chosen: str, tmp_path: Path) -> None:
    recorder = TurnRecorder()
    recorder.decision = decision
    async with driving("none", tmp_path) as driver:
        end = await bounded(driver.run_turn(turn_of("ASK", tmp_path), recorder))
        await bounded(driver.run_turn(turn_of("next", tmp_path, session_id=recorder.sessions[0]), recorder))
    assert f'"optionId": "{chosen}"' in end.text
    assert ("The permission for touch a was denied. Ada says: not now" in prompts(tmp_path)[1]) is (chosen == "no")


@pytest.mark.parametrize("fault", ["none", "reports_cancel_as_end", "ignores_cancel"])
async def test_a_stopped_turn_is_stopped_within_a_second(fault: str, tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving(fault, tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("SLOW", tmp_path), recorder))
        await bounded(recorder.has_text.wait())
        began = asyncio.get_running_loop().time()
        await driver.stop("c1")
        end = await bounded(running)
        took = asyncio.get_running_loop().time() - began
        following = turn_of("next", tmp_path, session_id=recorder.sessions[0])
        if fault != "ignores_cancel":
            assert (await bounded(driver.run_turn(following, recorder))).text == "2: next"
    assert end.kind == "stopped"
    assert end.text in ("working", "on and on")
    assert took < 10  # the turn would take a minute


async def test_an_agent_that_ignores_a_stop_is_ended_and_the_next_turn_has_its_session(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("ignores_cancel", tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("one", tmp_path), recorder))
        await bounded(recorder.has_text.wait())
        await driver.stop("c1")
        assert (await bounded(running)).kind == "stopped"
        again = TurnRecorder()
        second = asyncio.create_task(driver.run_turn(turn_of("two", tmp_path, session_id=recorder.sessions[0]), again))
        await bounded(again.has_text.wait())
        await driver.stop("c1")
        await bounded(second)
    assert again.sessions == []  # the session was loaded by a new process
    assert [text.rpartition("\n")[2] for text in prompts(tmp_path)] == ["one", "two"]


@pytest.mark.parametrize("fault", ["dies", "exits_with_success"])
async def test_a_turn_whose_agent_dies_is_continued_in_its_session(fault: str, tmp_path: Path) -> None:
    first, second = TurnRecorder(), TurnRecorder()
    async with driving(fault, tmp_path) as driver:
        with pytest.raises(DriverDied, match="signal SIGKILL" if fault == "dies" else "exit code 0"):
            await bounded(driver.run_turn(turn_of("one", tmp_path), first))
        repeated = turn_of("one", tmp_path, session_id=first.sessions[0], is_repeat=True)
        end = await bounded(driver.run_turn(repeated, second))
    assert (end.kind, end.text, second.sessions) == ("answered", "2: one", [])
    assert "Your last turn about the message below was interrupted." in prompts(tmp_path)[1]


@pytest.mark.parametrize("fault", ["loads_nothing", "refuses_load"])
async def test_a_session_that_cannot_be_loaded_is_replaced_and_a_line_says_so(fault: str, tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving(fault, tmp_path) as driver:
        lost = turn_of("two", tmp_path, session_id="s-lost", has_memory=True)
        end = await bounded(driver.run_turn(lost, recorder))
    assert (end.kind, len(recorder.sessions)) == ("answered", 1)
    line = "Faulty agent could not load the session of this conversation; it goes on without its memory."
    assert recorder.statuses == [("working", line)]
    assert end.text == f"({line})\n\n1: two"
    assert "The earlier part of this conversation is lost" in prompts(tmp_path)[0]


async def test_a_session_without_an_answer_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("refuses_load", tmp_path) as driver:
        end = await bounded(driver.run_turn(turn_of("two", tmp_path, session_id="s-new"), recorder))
    assert (end.kind, end.text, recorder.statuses) == ("answered", "1: two", [])


@pytest.mark.parametrize("fault", ["none", "loads_late"])
async def test_a_loaded_session_keeps_its_memory_and_its_old_answers_are_no_new_text(
    fault: str, tmp_path: Path
) -> None:
    first, second = TurnRecorder(), TurnRecorder()
    async with driving(fault, tmp_path) as driver:
        await bounded(driver.run_turn(turn_of("one", tmp_path), first))
    async with driving(fault, tmp_path) as driver:
        end = await bounded(driver.run_turn(turn_of("two", tmp_path, session_id=first.sessions[0]), second))
    assert (end.text, second.written, second.sessions) == ("2: two", "2: two", [])


async def test_a_session_whose_loading_was_stopped_is_loaded_again_and_has_the_tools(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    async with driving("holds_first_load", tmp_path) as driver:
        await bounded(driver.run_turn(turn_of("one", tmp_path), recorder))
    async with driving("holds_first_load", tmp_path) as driver:
        (session,) = recorder.sessions
        loading = asyncio.create_task(driver.run_turn(turn_of("two", tmp_path, session_id=session), recorder))

        async def is_loading() -> bool:
            return session in driver._sessions and driver._sessions[session].has_history

        assert await eventually(is_loading, bool)
        await driver.stop("c1")
        assert (await bounded(loading)).kind == "stopped"
        again = TurnRecorder()
        running = asyncio.create_task(driver.run_turn(turn_of("SLOW", tmp_path, session_id=session), again))
        await bounded(again.has_text.wait())
        output = await driver._tool_caller("c1")("list_peers", {}, "call-1")
        await driver.stop("c1")
        await bounded(running)
    assert (output.text, output.is_error) == ("list_peers {}", False)
    assert recorder.sessions + again.sessions == [session]


async def test_an_agent_that_hangs_at_the_handshake_is_not_waited_for(tmp_path: Path) -> None:
    async with driving("hangs", tmp_path, start_seconds=0.5) as driver:
        with pytest.raises(ProgramNotStartedError, match=r"it did not answer within 0\.5 seconds"):
            await bounded(driver.start())
        with pytest.raises(DriverDied, match="did not answer"):
            await bounded(driver.run_turn(turn_of("one", tmp_path), TurnRecorder()))


async def test_a_turn_is_stopped_while_its_agent_starts(tmp_path: Path) -> None:
    async with driving("hangs", tmp_path) as driver:
        running = asyncio.create_task(driver.run_turn(turn_of("one", tmp_path), TurnRecorder()))
        await asyncio.wait((running,), timeout=0.05)
        await driver.stop("c1")
        assert (await asyncio.wait_for(running, 1)).kind == "stopped"


async def test_a_session_without_an_id_is_a_fault_of_the_agent(tmp_path: Path) -> None:
    async with driving("session_without_id", tmp_path) as driver:
        with pytest.raises(DriverDied, match="a session without an id"):
            await bounded(driver.run_turn(turn_of("one", tmp_path), TurnRecorder()))


async def test_prompts_are_sent_one_after_the_other(tmp_path: Path) -> None:
    """An agent that answers two prompts as one never has two."""
    recorder = TurnRecorder()
    async with driving("merges_prompts", tmp_path) as driver:
        first = asyncio.create_task(driver.run_turn(turn_of("one", tmp_path), recorder))
        while not prompts(tmp_path):
            await asyncio.wait((first,), timeout=0.01)
        assert await driver.steer("c1", turn_of("two", tmp_path)) is False
        await driver.stop("c1")
        assert (await bounded(first)).kind == "stopped"
    assert len(prompts(tmp_path)) == 1


async def test_a_decision_that_comes_after_the_end_is_dropped(tmp_path: Path) -> None:
    recorder = TurnRecorder()
    recorder.may_decide.clear()
    async with driving("ends_before_permission", tmp_path) as driver:
        end = await bounded(driver.run_turn(turn_of("one", tmp_path), recorder))
        recorder.may_decide.set()
        following = await bounded(driver.run_turn(turn_of("two", tmp_path, session_id=recorder.sessions[0]), recorder))
    assert (end.text, following.text) == ("1: one", "2: two")


async def test_a_child_that_left_the_group_of_its_agent_is_ended_too(tmp_path: Path) -> None:
    async with driving("leaves_child", tmp_path) as driver:
        await bounded(driver.run_turn(turn_of("one", tmp_path), TurnRecorder()))
        child = int((tmp_path / "sessions" / "child").read_text())
        os.kill(child, 0)

    async def has_ended() -> bool:
        return not Path(f"/proc/{child}").exists() or is_zombie(child)

    assert await eventually(has_ended, bool)


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended, though no parent has read its exit code yet."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")


async def test_a_bridge_without_the_library_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    async with driving("none", tmp_path) as driver:
        with pytest.raises(ProgramNotStartedError) as raised:
            await bounded(driver.start())
    assert str(raised.value) == (
        "ACP agents cannot run without the library agent-client-protocol, which is not installed. In a clone, run "
        "pip install '.[acp]'; with a wheel, run pip install 'PATH_OF_THE_WHEEL[acp]'."
    )
