"""One process for all messages: lines in, lines out, and what it says that is no answer. Real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from molecule_core.agent.bridges.main import _wait_for_end
from molecule_core.agent.bridges.process_runner import TurnResult
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.stream_runner import StreamRunner
from molecule_core.common.clock import SystemClock
from testing.running_server import running
from testing.waits import PROCESS_START_SECONDS
from tests.agent.bridges.bridge_process import bridging, drafts, waiting
from tests.agent.bridges.test_bridge import seen
from tests.requirements import requirement

HEAD = "import json, os, sys\n"
ECHO = HEAD + (
    "for line in sys.stdin:\n"
    "    told = json.loads(line)\n"
    "    said = f\"{os.getpid()} {told['kind']} {told['text']}\"\n"
    "    print(json.dumps({'activity_id': told['activity_id'], 'text': said}), flush=True)\n"
)


@asynccontextmanager
async def program(place: Path, text: str, **wishes: float) -> AsyncIterator[StreamRunner]:
    """A long process."""
    settings = BridgeSettings(**{"end_seconds": 1, **wishes})  # type: ignore[arg-type]
    command = (sys.executable, "-c", text)
    runner = StreamRunner(command, {"PATH": os.defpath}, place, clock=SystemClock(), settings=settings)
    try:
        yield runner
    finally:
        await runner.close()


async def told(runner: StreamRunner, activity_id: str, text: str = "hi") -> TurnResult:
    """What becomes of one message."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        facts = {"MOLECULE_ACTIVITY_ID": activity_id, "MOLECULE_KIND": "canvas_user"}
        return await runner.run("w-1_0", text.encode(), facts)


@requirement("G20")
async def test_one_process_answers_all_messages_and_begins_anew_after_its_end(tmp_path: Path) -> None:
    async with program(tmp_path, ECHO) as runner:
        first, second = [(await told(runner, f"m-{number}", "hé\n<x>")).text for number in range(2)]
        pid = int(first.split()[0])
        os.kill(pid, signal.SIGKILL)
        third = [await told(runner, f"m-{number}") for number in range(2, 5)]
    assert first == second == f"{pid} canvas_user hé\n<x>"
    texts = [each.text for each in third if each.text]
    assert texts and str(pid) not in texts[-1]  # one may have been on its way to the process that was killed
    assert all(each.text or each.reason == "the program was ended by signal SIGKILL" for each in third)


@requirement("G20")
async def test_answers_may_come_in_any_order_and_other_lines_are_left_out(tmp_path: Path) -> None:
    text = HEAD + (
        "held = [json.loads(sys.stdin.readline())['activity_id'] for _ in range(2)]\n"
        "print('no json'); print('[1]'); print('{\"activity_id\": 7}'); print('{\"activity_id\": \"m-9\"}')\n"
        "for each in reversed(held): print(json.dumps({'activity_id': each, 'text': 'to ' + each}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    async with program(tmp_path, text) as runner:
        both = await asyncio.gather(told(runner, "m-1"), told(runner, "m-2"))
    assert [each.text for each in both] == ["to m-1", "to m-2"]


@requirement("G17", "G20")
async def test_a_message_that_fails_says_why_and_so_does_a_process_that_ends(tmp_path: Path) -> None:
    text = HEAD + (
        "told = json.loads(sys.stdin.readline())\n"
        "print(json.dumps({'activity_id': told['activity_id'], 'error': 'no tea'}), flush=True)\n"
        "sys.stdin.readline(); sys.exit('out of tea')\n"
    )
    async with program(tmp_path, text) as runner:
        assert await told(runner, "m-1") == TurnResult(reason="no tea")
        assert await told(runner, "m-2") == TurnResult(reason="the program ended with exit code 1: out of tea")


@requirement("G17", "G20")
async def test_a_process_that_ends_in_peace_without_an_answer_is_told_at_once(tmp_path: Path) -> None:
    text = HEAD + "sys.stdin.readline()\n"
    async with program(tmp_path, text) as runner:
        assert (await told(runner, "m-1")).reason == "the program ended with exit code 0"
        assert (await told(runner, "m-2")).reason == "the program ended with exit code 0"


@requirement("G17")
async def test_nobody_waits_for_a_process_that_cannot_be_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: StreamRunner, said: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(StreamRunner, "_handle_line", fails)
    async with program(tmp_path, ECHO) as runner:
        assert (await told(runner, "m-1")).reason == "the output of the program could no longer be read"
        monkeypatch.undo()
        assert "hi" in (await told(runner, "m-2")).text


@requirement("G17")
async def test_work_that_ends_by_a_mistake_of_ours_does_not_end_what_is_still_to_be_told() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    work = asyncio.create_task(fails())
    await _wait_for_end(work)
    assert isinstance(work.exception(), ZeroDivisionError)


@requirement("O2", "G20")
async def test_a_process_that_does_not_answer_is_ended_and_so_is_one_whose_line_has_no_end(tmp_path: Path) -> None:
    async with program(tmp_path, "import sys; sys.stdin.read()", turn_seconds=1) as runner:
        assert (await told(runner, "m-1")).reason == "the program did not answer within 1 seconds"
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)\n"
    async with program(tmp_path, endless, output_bytes=1000) as runner:
        assert (await told(runner, "m-1")).reason == "the program wrote a line longer than an answer may be"


async def test_a_process_that_is_not_there_is_a_failed_turn(tmp_path: Path) -> None:
    runner = StreamRunner(("/nowhere",), {}, tmp_path, clock=SystemClock(), settings=BridgeSettings())
    assert (await told(runner, "m-1")).reason == "/nowhere could not be started: No such file or directory"


@requirement("G17", "G20")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_bridge_with_one_process_keeps_drafts_where_set_so_and_ends_it(engine: str, tmp_path: Path) -> None:
    state, folder = tmp_path / "server", tmp_path / "bridge"
    state.mkdir()
    folder.mkdir(mode=0o700)
    place = str(state / "molecule.db")
    async with running("sqlite", place, state, push_instructions_enabled=True) as server:
        seat, person = await server.seat(), await server.person()
        await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"send_drafts": False})
        sent = [(await person.send(seat.id, f"message {number}"))["activity_id"] for number in range(3)]
        async with bridging(server, seat, folder, ECHO, "--stream") as bridge:
            kept = await seen(lambda: drafts(seat), lambda found: all(found.get(each, ("", ""))[1] for each in sent))
            await seen(lambda: waiting(seat), lambda count: count == 0)
            bridge.send(signal.SIGTERM)
            assert await bridge.ended() == 0
    pids = {kept[each][1].split()[0] for each in sent}
    assert len(pids) == 1
    assert [f"message {number}" in kept[each][1] for number, each in enumerate(sent)] == [True] * 3
    assert not Path(f"/proc/{pids.pop()}").exists()
