"""The process of the host, which started this one."""

import shutil
import subprocess
from pathlib import Path

_SECONDS = 2.0


def command_line(pid: int) -> list[str]:
    """Return the words that a process was started with; none if the system does not report them."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
    except OSError:
        return _command_line_by_ps(pid)


def _command_line_by_ps(pid: int) -> list[str]:
    """Ask `ps`, where there is no /proc; it separates words by blanks."""
    program = shutil.which("ps")
    if program is None:
        return []
    try:
        found = subprocess.run(
            [program, "-o", "args=", "-p", str(pid)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return found.stdout.split()
