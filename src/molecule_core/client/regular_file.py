"""Reads files at paths that others may have prepared: never a pipe, a device or a folder, and without waiting."""

import errno
import os
import stat
from pathlib import Path

# O_NONBLOCK: opening a pipe does not wait for its other end. Windows lacks two of them, and has the third alone.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_regular_file(file: Path) -> bytes:
    """Return the content of a file. Raises OSError, also if the path is not a regular file."""
    handle = os.open(file, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(handle)
