"""Which of several processes reads a workspace's inbox: a lock of the operating system, and a number that only grows.

The lock ends with the process that holds it, however it ends. The number (fence) stands in everything the leader
writes, so that one that does not know that it was succeeded, because somebody removed the lock file under it, cannot
write over its successor.

Above: membership. Below: the disk.
"""

import errno
import fcntl
import os
from pathlib import Path

_MAX_BYTES = 256


class LeaderLock:
    """One workspace's lock."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self._path = folder / f".mcp_leader_{workspace_id}"
        self._handle: int | None = None
        self.fence = 0

    def try_acquire(self, at_least: int = 0) -> bool:
        """Becomes the leader if nobody is; the fence is then above every earlier one, and above `at_least`.

        Raises OSError where the folder does not allow it."""
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
        """Whether the lock that this process has is still the one that others try to take."""
        return self._handle is not None and self._is_current_file(self._handle)

    def release(self) -> None:
        """Lets another process lead."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def leader_pid(self) -> int | None:
        """The process that wrote itself down as leader last; it may be gone."""
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
