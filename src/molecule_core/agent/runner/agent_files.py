"""Keeps the agents of a runner on disk, so that it starts them again after it was restarted."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from molecule_core.agent.runner.policy import AgentStart, RefusedError

_FOLDER, _FILE, _TOKEN_FILE = "agents", "agent.json", "token"
# The server names the folder, so the id must be one.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class RunnerAgentRecord(Struct, frozen=True):
    """An agent that the runner was asked to run. Its token is in a file of its own."""

    workspace_id: str
    workspace_name: str
    start: AgentStart


class AgentFiles:
    """The agents of a runner in its state folder: one folder each, for the owner only."""

    def __init__(self, state: Path) -> None:
        self._folder = state / _FOLDER

    def folder_of(self, workspace_id: str) -> Path:
        """Return the state folder of an agent. Raises RefusedError if the id is no workspace id."""
        if not _ID.fullmatch(workspace_id):
            raise RefusedError(f"{workspace_id[:50]!r} is not a workspace id")
        return self._folder / workspace_id

    def token_file(self, workspace_id: str) -> Path:
        """Return the file with the token of an agent's workspace. Raises RefusedError."""
        return self.folder_of(workspace_id) / _TOKEN_FILE

    def save(self, record: RunnerAgentRecord, token: str) -> None:
        """Save an agent. Raises OSError, RefusedError."""
        folder = self.folder_of(record.workspace_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / _TOKEN_FILE, token.encode())
        _write(folder / _FILE, msgspec.json.encode(record))

    def forget(self, workspace_id: str) -> None:
        """Delete an agent with its token and its sessions. Raises RefusedError."""
        shutil.rmtree(self.folder_of(workspace_id), ignore_errors=True)

    def load(self) -> Iterator[RunnerAgentRecord]:
        """Yield the agents that were saved; damaged files are skipped."""
        for file in sorted(self._folder.glob(f"*/{_FILE}")):
            try:
                yield msgspec.json.decode(file.read_bytes(), type=RunnerAgentRecord)
            except (OSError, msgspec.DecodeError):
                continue


def _write(path: Path, content: bytes) -> None:
    """Replace a file by one that only the owner can read."""
    new = path.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
