"""Terminals of a reader: a bash that keeps its folder and variables from block to block, as a person's does."""

import contextlib
import os
import re
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from testing.waits import PROCESS_START_SECONDS

_BETWEEN_LOOKS_SECONDS = 0.05
_TRAP = """\
trap 'printf "%s\\t%s\\n" "$?" "$BASH_COMMAND" >>"{failures}"' ERR
"""


class Ran(NamedTuple):
    """What a text has printed, and the commands in it that failed: their exit codes and their words."""

    output: str
    failures: list[tuple[int, str]]


class Shell:
    """A terminal. `folder` holds the texts that it ran and what they printed."""

    def __init__(self, folder: Path, environment: Mapping[str, str], start: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._count = 0
        self._failures = folder / "failures"
        self._done, theirs = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=start,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            start_new_session=True,
            text=True,
        )
        self._end = theirs
        self._write(_TRAP.format(failures=self._failures))

    def run(self, text: str) -> Ran:
        """Run a text to its end."""
        return self.wait(self.begin(text))

    def wait(self, output: Path) -> Ran:
        """Wait until the text that was begun has ended."""
        ready, _, _ = select.select([self._done], [], [], PROCESS_START_SECONDS)
        if not ready:
            text = _read(output.with_suffix(".sh"))
            raise AssertionError(f"did not end within {PROCESS_START_SECONDS} s:\n{text}\n{_read(output)}")
        os.read(self._done, 1)
        lines = [line.partition("\t") for line in _read(self._failures).splitlines() if re.match(r"\d+\t(?!\. )", line)]
        self._failures.unlink(missing_ok=True)
        return Ran(_read(output), [(int(code), command) for code, _, command in lines])

    def begin(self, text: str) -> Path:
        """Begin to run a text. Returns the file that holds what it prints."""
        self._count += 1
        script, output = self._folder / f"{self._count}.sh", self._folder / f"{self._count}.out"
        script.write_text(text, encoding="utf-8")
        output.touch()
        self._write(f'{{ . "{script}"; }} >"{output}" 2>&1 </dev/null {self._end}>&-\nprintf . >&{self._end}\n')
        return output

    def run_until(self, text: str, printed: str) -> Path:
        """Begin to run a text that keeps running, and wait until it has printed something."""
        output = self.begin(text)
        rounds = int(PROCESS_START_SECONDS / _BETWEEN_LOOKS_SECONDS)
        for _ in range(rounds):
            if printed in _read(output):
                return output
            if self.has_ended(_BETWEEN_LOOKS_SECONDS):
                break
        raise AssertionError(f"never printed {printed!r}:\n{text}\n{_read(output)}")

    def has_ended(self, seconds: float = 0) -> bool:
        """Return whether the text that was begun has ended."""
        return bool(select.select([self._done], [], [], seconds)[0])

    def close(self) -> None:
        """End the terminal and all that runs in it."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=PROCESS_START_SECONDS)
        os.close(self._done)
        os.close(self._end)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
