"""Reads files below one folder and nowhere else: no way up, no link, no device, no more bytes than asked for.

Each part of a path is opened below the one before, so that nothing can be exchanged for a link between a look and a
read. Above: home, skills. Below: the disk.
"""

import errno
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # control: no-link-in-path
# Not blocking: a pipe in the place of a file must not hang who opens it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_PARTS, _MOST_NAME = 16, 255
_REASONS = {
    errno.ENOENT: "it is not there",
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "a part of its path is no folder",
}


class Unreadable(Exception):
    """A file cannot be read; the text says why. `missing`: because it is not there."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        self.missing = missing
        super().__init__(reason)


def read_own(root: Path, path: str, most: int) -> str:
    """The text of a file below a folder. Raises Unreadable."""
    handle = _open(root, path)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is no plain file")
        data = b""
        while len(data) <= most and (more := os.read(handle, most + 1 - len(data))):
            data += more
    except OSError as error:
        raise Unreadable(_reason(error)) from None
    finally:
        os.close(handle)
    if len(data) > most:
        raise Unreadable(f"it is larger than {most} bytes")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Unreadable("it is no text in UTF-8") from None
    if "\x00" in text:
        raise Unreadable("it holds a NUL character; it is no text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def folders_of(root: Path, path: str, most: int) -> list[str]:
    """The names of the folders in a folder below another, in order; none if it is not there. Raises Unreadable."""
    try:
        handle = _below(root, _parts(path))
    except Unreadable as error:
        if error.missing:
            return []
        raise
    try:
        with os.scandir(handle) as entries:
            found = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError as error:
        raise Unreadable(_reason(error)) from None
    finally:
        os.close(handle)
    if len(found) > most:
        raise Unreadable(f"it holds more than {most} folders")
    return found


def _open(root: Path, path: str) -> int:
    *folders, name = _parts(path)
    parent = _below(root, folders)
    try:
        return os.open(name, _FILE, dir_fd=parent)
    except OSError as error:
        raise Unreadable(_reason(error), missing=error.errno == errno.ENOENT) from None
    finally:
        os.close(parent)


def _below(root: Path, parts: list[str]) -> int:
    """An open folder. The root itself may be a link: a person names it."""
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts:
            above, handle = handle, -1
            try:
                handle = os.open(part, _FOLDER, dir_fd=above)
            finally:
                os.close(above)
    except OSError as error:
        raise Unreadable(_reason(error), missing=error.errno == errno.ENOENT) from None
    return handle


def _parts(path: str) -> list[str]:
    """Raises Unreadable if a path may lead anywhere else."""
    parts = path.split("/")
    wrong = any(each.strip() in ("", ".", "..") or len(each.encode(errors="replace")) > _MOST_NAME for each in parts)
    # control: path-check
    if wrong or len(parts) > _MOST_PARTS or "\\" in path or "\x00" in path or path.startswith("~"):
        raise Unreadable("its path is not one of names with / between them")
    return parts


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, os.strerror(error.errno or 0))
