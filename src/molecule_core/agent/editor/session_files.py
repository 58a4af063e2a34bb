"""Stores on disk which session of an editor belongs to which workspace: one small file for each session.

The messages are on the server. Several editors may run at once: each writes the files of its own sessions.
"""

import logging
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from molecule_core.agent.bridges.outbox import save_durably

_log = logging.getLogger("molecule.agent")
_ID = re.compile(r"[0-9a-f]{32}")
_SUFFIX = ".json"
_MAX_FILES = 1000


class StoredSession(Struct, kw_only=True):
    """A session. `after`: the last message of the chat before the session began; empty if there was none."""

    id: str
    org_id: str
    workspace_id: str
    cwd: str
    after: str = ""
    title: str = ""
    updated_at: str = ""
    has_prompts: bool = False


class SessionFiles:
    """The stored sessions in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, session: StoredSession) -> None:
        """Store a session. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_durably(self._path(session.id), msgspec.json.encode(session))

    def load(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if it is unknown."""
        if _ID.fullmatch(session_id) is None:
            return None
        try:
            return msgspec.json.decode(self._path(session_id).read_bytes(), type=StoredSession)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("the file of session %s cannot be read: %s", session_id, error)
            return None

    def delete(self, session_id: str) -> None:
        """Delete a session; one that is unknown is no error."""
        if _ID.fullmatch(session_id) is not None:
            self._path(session_id).unlink(missing_ok=True)

    def list_all(self) -> list[StoredSession]:
        """Return the sessions that had a prompt, newest first. The oldest files beyond the limit are deleted."""
        paths = sorted(self._folder.glob(f"*{_SUFFIX}"), key=_changed_at, reverse=True)
        for path in paths[_MAX_FILES:]:
            path.unlink(missing_ok=True)
        found = [self.load(path.name.removesuffix(_SUFFIX)) for path in paths[:_MAX_FILES]]
        return [each for each in found if each is not None and each.has_prompts]

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{session_id}{_SUFFIX}"


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
