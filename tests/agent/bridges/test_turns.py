"""One turn of a program: what it reads, what it says, how it ends. Real processes."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from molecule_core.agent.bridges.process_runner import ProcessLock, ProcessRunner, TurnResult, cut_text, exit_reason
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.common.clock import SystemClock
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS, eventually
from tests.requirements import requirement


async def ran(place: Path, program: str, told: str = "", **wishes: float) -> TurnResult:
    """The end of a turn of a Python program."""
    runner = runner_of(place, (sys.executable, "-c", program), **wishes)
    async with asyncio.timeout(PROCESS_START_SECONDS):
        return await runner.run("w-1_0", told.encode(), {"MOLECULE_KIND": "canvas_user"})


def runner_of(place: Path, command: tuple[str, ...], **wishes: float) -> ProcessRunner:
    """What runs a command."""
    settings = BridgeSettings(**{"end_seconds": 1, **wishes})  # type: ignore[arg-type]
    return ProcessRunner(command, {"PATH": os.defpath}, place, clock=SystemClock(), settings=settings)


@requirement("G20")
async def test_a_program_reads_the_message_and_what_it_prints_is_its_final_text(tmp_path: Path) -> None:
    program = "import os, sys; print('  ' + sys.stdin.read().upper() + os.environ['MOLECULE_KIND'] + '\\n')"
    assert await ran(tmp_path, program, "hé ") == TurnResult("HÉ canvas_user")


@requirement("G20")
async def test_a_program_that_fails_is_told_with_its_code_and_its_last_words(tmp_path: Path) -> None:
    program = "import sys; print('half'); print('first\\nno tea \\x1b[1mleft', file=sys.stderr); sys.exit(7)"
    assert await ran(tmp_path, program) == TurnResult("half", "the program ended with exit code 7: no tea left")


async def test_a_program_that_a_signal_ends_is_told_with_its_name(tmp_path: Path) -> None:
    assert (
        await ran(tmp_path, "import os; os.kill(os.getpid(), 9)")
    ).reason == "the program was ended by signal SIGKILL"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "the program ended with exit code 0"),
        (3, "the program ended with exit code 3"),
        (-15, "the program was ended by signal SIGTERM"),
        (-40, "the program was ended by signal 40"),
    ],
)
def test_every_end_has_words(code: int, said: str) -> None:
    assert (exit_reason(code, ""), exit_reason(code, "no tea")) == (said, f"{said}: no tea")


@requirement("O2", "G20")
async def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    left = tmp_path / "left"
    program = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(left)!r}, 'w').write(str(child.pid))\n"
        "print('begun', flush=True)\n"
        "time.sleep(600)\n"
    )
    ended = await ran(tmp_path, program, turn_seconds=5, end_seconds=0.2)
    assert ended == TurnResult("begun", "the program did not end within 5 seconds")
    await gone(int(left.read_text()))


@requirement("G17", "G20")
@pytest.mark.parametrize("session", [False, True])
async def test_an_answer_is_not_lost_to_a_child_that_keeps_the_pipes_open(tmp_path: Path, session: bool) -> None:
    left = tmp_path / "left"
    program = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"child = subprocess.Popen(command, start_new_session={session})\n"
        f"open({str(left)!r}, 'w').write(str(child.pid))\n"
        "print('the answer', flush=True)\n"
        "sys.exit(int(sys.stdin.read()))\n"
    )
    try:
        assert await ran(tmp_path, program, "0", end_seconds=0.3) == TurnResult("the answer")
        assert (
            await ran(tmp_path, program, "4", end_seconds=0.3)
        ).reason == "the program ended with exit code 4: the answer"
    finally:
        if session:  # it has gone out of its group: that is no longer the bridge's
            os.kill(int(left.read_text()), signal.SIGKILL)
    await gone(int(left.read_text()))


async def gone(pid: int) -> None:
    """Until a process is no more: reaped, or waiting for nothing but that."""

    async def state() -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return ""

    await eventually(state, lambda found: found in ("", "Z"))


@requirement("O2", "G20")
async def test_of_what_a_program_says_no_more_is_kept_than_an_answer_may_hold(tmp_path: Path) -> None:
    program = "import sys\nfor _ in range(300): sys.stdout.write('x' * 10_000)\n"
    cut = "\n\n… (cut: 2,998,766 more bytes)"
    assert await ran(tmp_path, program, output_bytes=1234) == TurnResult("x" * 1234 + cut)


@requirement("O2")
@pytest.mark.parametrize("limit", range(3, 12))
def test_a_text_is_cut_between_characters_and_says_so(limit: int) -> None:
    whole = "aßあ🎉z".encode()
    text = cut_text(whole[:limit], len(whole))
    kept, _, mark = text.partition("\n\n")
    assert "aßあ🎉z".startswith(kept) and "\ufffd" not in text
    left = len(whole) - len(kept.encode())
    assert mark == (f"… (cut: {left} more bytes)" if limit < len(whole) else "")


@requirement("G20")
async def test_a_reason_on_standard_output_is_told_where_nothing_is_on_standard_error(tmp_path: Path) -> None:
    program = "import sys; print('API Error: 529 overloaded'); sys.exit(3)"
    assert (await ran(tmp_path, program)).reason == "the program ended with exit code 3: API Error: 529 overloaded"


@requirement("O2")
async def test_a_line_of_complaint_without_an_end_is_cut(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('x' * 1_000_000 + 'end'); sys.exit(1)"
    reason = (await ran(tmp_path, program, error_bytes=100)).reason
    assert reason == f"the program ended with exit code 1: {'x' * 97}end"


@requirement("O3")
async def test_a_credential_in_a_complaint_is_not_told(tmp_path: Path) -> None:
    program = "import sys; sys.exit('refused: Bearer mol_ws_abcdefghijklmnop')"
    assert "abcdefgh" not in (await ran(tmp_path, program)).reason


async def test_a_program_that_reads_nothing_and_one_that_is_not_there_are_no_fault_of_the_bridge(
    tmp_path: Path,
) -> None:
    assert await ran(tmp_path, "print('done')", "x" * 2_000_000) == TurnResult("done")
    ended = await runner_of(tmp_path, ("/nowhere/program",)).run("w-1_0", b"", {})
    assert ended.reason == "/nowhere/program could not be started: No such file or directory"


@requirement("G20")
async def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, ("/bin/echo", "$HOME;", "`id`"))
    assert (await runner.run("w-1_0", b"", {})).text == "$HOME; `id`"


@requirement("G17")
async def test_a_turn_that_is_given_up_ends_its_program(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    turn = asyncio.create_task(ran(tmp_path, program))
    await eventually(lambda: written(pid), bool)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await gone(int(pid.read_text()))


async def written(path: Path) -> str:
    """What stands in a file; nothing if there is none."""
    return path.read_text() if path.exists() else ""


@requirement("G17")
async def test_a_program_that_a_killed_bridge_left_is_ended_before_the_next_turn(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / ".bridge_turn_w-1_0")
    assert lock.try_acquire()
    orphan = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(600)", pass_fds=(lock.handle,), start_new_session=True
    )
    lock.write_holder(orphan.pid)
    os.close(lock.handle)  # as a kill -9 does, which unlocks nothing that somebody else has inherited
    assert await ran(tmp_path, "print('next')") == TurnResult("next")
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        assert await orphan.wait() == -9
