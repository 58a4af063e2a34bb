"""`molecule`, dying of SIGKILL at a point that is named in a file: `python -m tests.crashing_server serve …`.

The file (`FALL` in the environment) holds a moment and a piece of a statement. `before`: as that statement begins;
`commit`: as the transaction with it is about to be committed; `behind`: as soon as it is on disk, before anybody hears.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import apsw

from molecule_core.cli import molecule

BEFORE, COMMIT, BEHIND = "before", "commit", "behind"


class Fall:
    """Watches every statement of a connection; looks into the file at each."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._is_in = self._is_ending = False

    def watch(self, connection: apsw.Connection) -> None:
        """For `apsw.connection_hooks`."""
        connection.exec_trace = self.statement
        connection.set_commit_hook(self.committing)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self.done)

    def statement(self, _cursor: Any, sql: str, _values: Any) -> bool:
        """One begins."""
        moment, piece = self._named()
        if piece and piece in sql:
            self._is_in = True
            if moment == BEFORE:
                self.end()
        return True

    def committing(self) -> bool:
        """A transaction is about to be committed; False lets it go on."""
        if self._is_in and self._named()[0] == COMMIT:
            self.end()
        self._is_in, self._is_ending = False, self._is_in
        return False

    def done(self, _statement: dict[str, Any]) -> None:
        """A statement has ended; behind the hook of the commit that is the commit itself."""
        if self._is_ending and self._named()[0] == BEHIND:
            self.end()
        self._is_ending = False

    def end(self) -> None:
        """The next life must not die of the same."""
        self._file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    def _named(self) -> tuple[str, str]:
        with contextlib.suppress(FileNotFoundError):
            moment, _, piece = self._file.read_text().partition("|")
            return moment, piece
        return "", ""


if __name__ == "__main__":
    apsw.connection_hooks.append(Fall(Path(os.environ["FALL"])).watch)
    molecule()
