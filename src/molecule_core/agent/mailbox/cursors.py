"""What a process must know of an inbox after it was killed, in one small file a workspace, replaced as a whole.

The server keeps the mail, and who has it under which attempt; nothing is lost with this file. It saves a second showing
of what was handled while the server was away, and it lets the next process take over at once what a dead one held.

    <the id up to which all is handled; empty if not known>     (the whole file, as the original system wrote it)
    workspace <id>              whose file it is
    fence <number>              the leader that wrote it
    held <attempt> <id>         taken from the server, not handled
    handled <attempt> <id>      handled, and the server may not know it yet

Above: membership. Below: the disk.
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
    """A later leader has written the file: this process leads no more."""


class CursorState(Struct):
    """What stands in a cursor file. `held` and `handled`: activity id -> attempt."""

    cursor: str = ""
    workspace: str = ""
    fence: int = 0
    held: dict[str, int] = field(default_factory=dict)
    handled: dict[str, int] = field(default_factory=dict)


def parse_cursor(text: str) -> CursorState:
    """What a text tells. Lines that nobody could have written are left out: a cursor file is never a reason to stop."""
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
    """Whether a server's id can stand in a line; one that cannot is not remembered."""
    return text.isascii() and text.isprintable() and text != "" and " " not in text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def format_cursor(state: CursorState) -> str:
    """The same as text; `read` makes the same of it, less ids that no server of ours gives."""
    lines = [
        state.cursor if _is_id(state.cursor) else "",
        f"workspace {state.workspace}",
        f"fence {state.fence}",
    ]
    lines += [f"held {attempt} {id_}" for id_, attempt in state.held.items() if _is_id(id_)]
    # control: handled-kept
    lines += [f"handled {attempt} {id_}" for id_, attempt in state.handled.items() if _is_id(id_)]
    return "\n".join(lines) + "\n"


class CursorFile:
    """The file of one workspace. `single`: its name does not say whose it is, as long as no other seat has it."""

    def __init__(self, folder: Path, workspace_id: str, *, single: bool) -> None:
        self._workspace_id = workspace_id
        self._own_path = folder / f"{CURSOR_FILE_NAME}_{workspace_id}"  # control: own-file
        self.path = folder / CURSOR_FILE_NAME if single else self._own_path

    def load(self) -> CursorState:
        """What the file tells; nothing if there is none, or if it cannot be read."""
        found = self._read_file()
        if found.workspace not in ("", self._workspace_id):
            # The nameless file belongs to the seat of another process that has the same state folder.
            self.path = self._own_path
            found = self._read_file()
        found.workspace = self._workspace_id
        return found

    def save(self, state: CursorState) -> None:
        """Puts the file in place as a whole: a reader, or a crash, sees the old one or the new one.

        Raises Fenced, OSError."""
        state.workspace = self._workspace_id
        if self.load().fence > state.fence:
            raise LeaderFenced
        # Not flushed to the disk: after a power cut the server still has everything that counts.
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        temporary.touch(mode=0o600)
        temporary.write_text(format_cursor(state), encoding="ascii")
        temporary.replace(self.path)

    def reset(self) -> None:
        """Forgets everything about this workspace, and nothing about any other."""
        self.load()
        self.path.unlink(missing_ok=True)

    def _read_file(self) -> CursorState:
        try:
            return parse_cursor(self.path.read_text(encoding="ascii", errors="replace"))
        except OSError:
            return CursorState()

    # -- notes: what the processes that do not read the inbox have handled ---------------------------------------------

    def append_note(self, activity_id: str, attempt: int) -> None:
        """Tells the leader that a message is handled. Raises OSError."""
        with self._locked_notes(os.O_RDWR | os.O_CREAT | os.O_APPEND) as handle:
            os.write(handle, f"{attempt} {activity_id}\n".encode())

    def take_notes(self) -> dict[str, int]:
        """What others have told since the last call: activity id -> attempt."""
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
