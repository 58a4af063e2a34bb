"""Elects which process reads a workspace's inbox: an operating system lock, and a fence that only grows.

The lock ends with its process, however that ends. The fence is in everything the leader writes, so that a leader that
does not know of its successor, because the lock file was removed, cannot overwrite the successor's state.
"""

import errno
import fcntl
import os
from pathlib import Path

from molecule_core.agent.mailbox.mail_transfer import socket_path

_MAX_BYTES = 256


class LeaderLock:
    """Leader lock of one workspace."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self._path = folder / f".mcp_leader_{workspace_id}"
        self.mail_address = socket_path(folder, workspace_id)
        """Where the leader gives messages to other processes."""
        self._handle: int | None = None
        self.fence = 0

    def try_acquire(self, at_least: int = 0) -> bool:
        """Acquire leadership if there is no leader; the fence then exceeds all earlier ones and `at_least`.

        Raises OSError if the folder does not allow it.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_current_file(handle):
                os.close(handle)
                return False
            self.fence = max(_parse_fence(os.pread(handle, _MAX_BYTES, 0)), at_least) + 1
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{self.fence} {os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._handle = handle
        return True

    def is_held(self) -> bool:
        """Return whether this process holds the lock file that others would try to lock."""
        return self._handle is not None and self._is_current_file(self._handle)

    def release(self) -> None:
        """Release the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def leader_pid(self) -> int | None:
        """Return the process that last wrote itself as leader; it may have exited."""
        try:
            words = self._path.read_text(encoding="ascii", errors="replace").split()
        except OSError:
            return None
        return int(words[1]) if len(words) == 2 and words[1].isdigit() else None

    def _is_current_file(self, handle: int) -> bool:
        try:
            on_disk, ours = self._path.stat(), os.fstat(handle)
        except OSError:
            return False
        return (on_disk.st_dev, on_disk.st_ino) == (ours.st_dev, ours.st_ino)


def _parse_fence(text: bytes) -> int:
    words = text.split()
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) <= 18 else 0
