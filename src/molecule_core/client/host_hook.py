"""`molecule host-hook`: run by the hooks of Claude Code; passes the event to the agent's process of the session.

The agent's process (`molecule mcp`) decides; the hook prints what it answers. With `--wait` it waits for the process
and for its next message, as long as the host runs, and ends with exit code 2, which wakes the host. Such a hook lives
for hours, so it imports only what it needs from the standard library. A hook never fails: that would disturb a person.
Called by entry; calls nothing of the server.
"""

import contextlib
import json
import os
import socket
import sys
from typing import Any

from molecule_core.client.host_socket import host_socket_path, is_own_folder
from molecule_core.common.pauses import pause

WAIT_OPTION = "--wait"
# A host starts its hooks through a shell, perhaps with a wrapper before it.
_MAX_ANCESTORS = 6
_RETRY_SECONDS = 0.5
# An agent's process that takes a hook and does not answer must not hold up the host.
_CONNECT_SECONDS = 5.0
# Set by Claude Code: `cli` with a screen, `sdk-cli` and others without.
_ENTRYPOINT_VARIABLE = "CLAUDE_CODE_ENTRYPOINT"
_PRINT_OPTIONS = frozenset({"-p", "--print"})
_MAX_INPUT = 32 << 20
_CHUNK = 1 << 16


def main(arguments: list[str]) -> int:
    """Run the hook; return its exit code."""
    try:
        event = json.loads(sys.stdin.buffer.read(_MAX_INPUT))
        found = run_hook(event, waits=WAIT_OPTION in arguments) if isinstance(event, dict) else {}
    except (OSError, ValueError, RecursionError):
        return 0
    sys.stdout.write(str(found.get("stdout", "")))
    sys.stderr.write(str(found.get("stderr", "")))
    sys.stdout.flush()
    sys.stderr.flush()
    return 2 if found.get("code") == 2 else 0


def run_hook(event: dict[str, Any], *, waits: bool) -> dict[str, Any]:
    """Return what the agent's process answers; {} if there is none, or if a newer hook waits in place of this one."""
    ancestors = read_ancestors(os.getppid())
    line = json.dumps({**event, "waits": waits}).encode() + b"\n"
    if not waits:
        return _ask_process(ancestors, line) or {}
    if is_headless(ancestors):
        return {}
    latest = LatestWaiter(ancestors)
    while True:
        answer = _ask_process(ancestors, line)
        if answer is not None:
            latest.remove()
            return answer
        pause(_RETRY_SECONDS)
        # The parent is a shell, which outlives its host.
        if not latest.is_this() or read_ancestors(os.getppid())[:2] != ancestors[:2]:
            latest.remove()
            return {}


class LatestWaiter:
    """The file with the process id of the hook that a session started last: without an agent's process to end the
    earlier ones, they end themselves."""

    def __init__(self, ancestors: list[int]) -> None:
        host = ancestors[1] if len(ancestors) > 1 else ancestors[0]
        self._path = f"{host_socket_path(host)}.waiter"
        self._own = str(os.getpid())
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - see host_socket
            if not is_own_folder(self._path):
                raise PermissionError
            with open(self._path, "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(self._own)
        except OSError:
            self._path = ""

    def is_this(self) -> bool:
        """Return whether no newer hook has started."""
        try:
            with open(self._path, encoding="ascii") as file:  # noqa: PTH123
                return file.read() in ("", self._own)
        except OSError:
            return not self._path

    def remove(self) -> None:
        """Delete the file, if it is not of a newer hook."""
        if self._path and self.is_this():
            with contextlib.suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108


def is_headless(ancestors: list[int]) -> bool:
    """Return whether the host runs one prompt (`claude -p`): it ends only after its hooks, so none may wait."""
    if os.environ.get(_ENTRYPOINT_VARIABLE, "").startswith("sdk"):
        return True
    return any(not _PRINT_OPTIONS.isdisjoint(_words_of(pid)) for pid in ancestors[:2])


def _words_of(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().split("\0")
    except OSError:
        return []


def read_ancestors(pid: int) -> list[int]:
    """Return a process and the processes above it, nearest first."""
    found: list[int] = []
    while pid > 0 and len(found) < _MAX_ANCESTORS:
        found.append(pid)
        pid = _parent_of(pid)
    return found


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            # The name of the program is in brackets and may have blanks and brackets.
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0 if os.path.isdir("/proc/self") else _parent_by_ps(pid)  # noqa: PTH112
    except (ValueError, IndexError):
        return 0


def _parent_by_ps(pid: int) -> int:
    """Ask `ps`, where there is no /proc."""
    with os.popen(f"ps -o ppid= -p {pid}") as answer:  # noqa: S605 - a number
        text = answer.read().strip()
    return int(text) if text.isdigit() else 0


def _ask_process(ancestors: list[int], line: bytes) -> dict[str, Any] | None:
    """Return the answer of the agent's process; None if there is none, or if it ended without an answer."""
    for path in map(host_socket_path, ancestors):
        if not is_own_folder(path):
            continue
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CONNECT_SECONDS)
                connection.connect(path)
                connection.sendall(line)
                connection.settimeout(None)
                answer = json.loads(_read_line(connection))
        except (OSError, ValueError):
            continue
        return answer if isinstance(answer, dict) else {}
    return None


def _read_line(connection: socket.socket) -> bytes:
    chunks = []
    while chunk := connection.recv(_CHUNK):
        chunks.append(chunk)
        if chunk.endswith(b"\n"):
            break
    return b"".join(chunks)
