"""Asks an installed host what it makes of its configuration: `claude mcp list` and the like."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from molecule_core.tools.host_config import SERVER_ENTRY, Host

_QUESTION = ("mcp", "list")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FRAME = " │●└┌"
_MAX_LINES, _MAX_LENGTH = 6, 300


class HostReport(NamedTuple):
    """What a host prints about its servers. `entry`: the line about ours, empty if it lists none of that name."""

    code: int
    entry: str
    text: str


def ask_host(host: Host, folder: Path, seconds: float) -> HostReport | None:
    """Run the host's own list of servers in a folder; None if it is not installed or does not end in time."""
    program = shutil.which(host.program) if host.program else None
    if program is None or seconds <= 0:
        return None
    process = subprocess.Popen(
        [program, *_QUESTION],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:  # and the servers that it has started
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return read_report(process.returncode, output.decode("utf-8", "replace"))


def read_report(code: int, output: str) -> HostReport:
    """Read what a host has printed."""
    lines = [_clean_line(line) for line in _COLOUR.sub("", output).splitlines()]
    lines = [line for line in lines if line]
    entry = re.compile(rf"\W{{0,3}}\s?{SERVER_ENTRY}\b(?!\w)")
    found = next((line for line in lines if entry.match(line)), "")
    return HostReport(code, found[:_MAX_LENGTH], " / ".join(line[:_MAX_LENGTH] for line in lines[-_MAX_LINES:]))


def _clean_line(line: str) -> str:
    """Return a line without frames and control characters."""
    return "".join(character for character in line if character.isprintable()).strip(_FRAME)
