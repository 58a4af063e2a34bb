"""Reads and writes the cursor file: inbox state of one workspace that survives a kill, replaced as a whole.

The server keeps the messages, and who holds each one under which attempt; nothing is lost with this file. It avoids
showing again what was handled while the server was away, and lets the next process take over a dead one's claims.

    <the id up to which all is handled; empty if not known>     (the whole file, as the original system wrote it)
    workspace <id>              the workspace of the file
    fence <number>              the leader that wrote it
    held <attempt> <id>         claimed from the server, not handled
    handled <attempt> <id>      handled, and not yet known to be acknowledged
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

CURSOR_FILE_NAME = ".mcp_inbox_cursor"
_NOTES_SUFFIX = ".notes"


class LeaderFenced(Exception):
    """A later leader has written the file: this process does not lead any more."""


class CursorState(Struct):
    """Content of a cursor file. `held` and `handled`: activity id -> attempt."""

    cursor: str = ""
    workspace: str = ""
    fence: int = 0
    held: dict[str, int] = field(default_factory=dict)
    handled: dict[str, int] = field(default_factory=dict)


def parse_cursor(text: str) -> CursorState:
    """Parse the text of a cursor file. Malformed lines are skipped: a cursor file must never stop the agent."""
    lines = text.split("\n")
    found = CursorState(cursor=lines[0].strip() if _is_word(lines[0].strip()) else "")
    for line in lines[1:]:
        match line.split():
            case ["workspace", id_]:
                found.workspace = id_
            case ["fence", number] if _is_number(number):
                found.fence = int(number)
            case ["held", attempt, id_] if _is_number(attempt):
                found.held[id_] = int(attempt)
            case ["handled", attempt, id_] if _is_number(attempt):
                found.handled[id_] = int(attempt)
    return found


def _is_word(text: str) -> bool:
    return len(text.split()) <= 1 and text.isprintable() and text.isascii()


def _is_id(text: str) -> bool:
    """Return whether a server's id can be written in a line; one that cannot is not stored."""
    return text.isascii() and text.isprintable() and text != "" and " " not in text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def format_cursor(state: CursorState) -> str:
    """Format a state as text that `parse_cursor` reads, without ids that cannot be written."""
    lines = [state.cursor if _is_id(state.cursor) else "", f"workspace {state.workspace}", f"fence {state.fence}"]
    lines += [f"held {attempt} {id_}" for id_, attempt in state.held.items() if _is_id(id_)]
    # control: handled-kept
    lines += [f"handled {attempt} {id_}" for id_, attempt in state.handled.items() if _is_id(id_)]
    return "\n".join(lines) + "\n"


class CursorFile:
    """Cursor file of one workspace.

    `single`: the file name omits the workspace id, unless another workspace already owns that file.
    """

    def __init__(self, folder: Path, workspace_id: str, *, single: bool) -> None:
        self._workspace_id = workspace_id
        self._own_path = folder / f"{CURSOR_FILE_NAME}_{workspace_id}"  # control: own-file
        self.path = folder / CURSOR_FILE_NAME if single else self._own_path

    def load(self) -> CursorState:
        """Return the state in the file; an empty one if there is none or it cannot be read."""
        found = self._read_file()
        if found.workspace not in ("", self._workspace_id):
            # The file without an id belongs to the workspace of another process with the same state folder.
            self.path = self._own_path
            found = self._read_file()
        found.workspace = self._workspace_id
        return found

    def save(self, state: CursorState) -> None:
        """Replace the file as a whole, so that a reader or a crash sees the old or the new one.

        Raises LeaderFenced, OSError.
        """
        state.workspace = self._workspace_id
        if self.load().fence > state.fence:
            raise LeaderFenced
        # Not flushed to disk: after a power cut the server still has everything that matters.
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        temporary.touch(mode=0o600)
        temporary.write_text(format_cursor(state), encoding="ascii")
        temporary.replace(self.path)

    def reset(self) -> None:
        """Delete the file of this workspace, and no other."""
        self.load()
        self.path.unlink(missing_ok=True)

    def _read_file(self) -> CursorState:
        try:
            return parse_cursor(self.path.read_text(encoding="ascii", errors="replace"))
        except OSError:
            return CursorState()

    # -- notes: messages handled by processes that do not read the inbox -----------------------------------------------

    def append_note(self, activity_id: str, attempt: int) -> None:
        """Append a note for the leader that a message is handled. Raises OSError."""
        with self._locked_notes(os.O_RDWR | os.O_CREAT | os.O_APPEND) as handle:
            os.write(handle, f"{attempt} {activity_id}\n".encode())

    def take_notes(self) -> dict[str, int]:
        """Return and clear the notes since the last call: activity id -> attempt."""
        with contextlib.suppress(OSError), self._locked_notes(os.O_RDWR) as handle:
            size = os.fstat(handle).st_size
            if size == 0:
                return {}
            text = os.read(handle, size).decode("ascii", "replace")
            os.ftruncate(handle, 0)
            pairs = [line.split() for line in text.splitlines()]
            return {pair[1]: int(pair[0]) for pair in pairs if len(pair) == 2 and _is_number(pair[0])}
        return {}

    @contextlib.contextmanager
    def _locked_notes(self, flags: int) -> Iterator[int]:
        handle = os.open(self._own_path.with_name(self._own_path.name + _NOTES_SUFFIX), flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # held for one small read or write
            yield handle
        finally:
            os.close(handle)
