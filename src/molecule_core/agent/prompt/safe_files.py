"""Reads files below one folder only: no parent paths, no links, no devices, a limited number of bytes.

Each part of a path is opened relative to the one before, so that nothing can be replaced by a link between a check and
a read.
"""

import errno
import os
import stat
from pathlib import Path

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # control: no-link-in-path
# Not blocking: opening a pipe in place of a file must not hang.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_PARTS, _MAX_NAME = 16, 255
_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "a part of its path is not a folder",
}


class UnreadableFileError(Exception):
    """A file cannot be read; the text is the reason. `is_missing`: it does not exist."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        self.is_missing = missing
        super().__init__(reason)


def read_safe_file(root: Path, path: str, limit: int) -> str:
    """Read the text of a file below `root`, at most `limit` bytes. Raises UnreadableFileError."""
    handle = _open_file(root, path)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError("it is not a regular file")
        data = b""
        while len(data) <= limit and (chunk := os.read(handle, limit + 1 - len(data))):
            data += chunk
    except OSError as error:
        raise UnreadableFileError(_error_reason(error)) from None
    finally:
        os.close(handle)
    if len(data) > limit:
        raise UnreadableFileError(f"it is larger than {limit} bytes")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise UnreadableFileError("it is not text in UTF-8") from None
    if "\x00" in text:
        raise UnreadableFileError("it contains a NUL character, so it is not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def list_folders(root: Path, path: str, limit: int) -> tuple[list[str], list[str]]:
    """Return the sorted names of the folders in a folder, at most `limit`, and of links, which are not followed.

    Both are empty if the folder is missing.

    Raises UnreadableFileError.
    """
    try:
        handle = _open_folder(root, _split_path(path))
    except UnreadableFileError as error:
        if error.is_missing:
            return [], []
        raise
    try:
        with os.scandir(handle) as entries:
            listed = list(entries)
            found = sorted(each.name for each in listed if each.is_dir(follow_symlinks=False))
            links = sorted(each.name for each in listed if each.is_symlink())
    except OSError as error:
        raise UnreadableFileError(_error_reason(error)) from None
    finally:
        os.close(handle)
    if len(found) > limit:
        raise UnreadableFileError(f"it contains more than {limit} folders")
    return found, links[:limit]


def _open_file(root: Path, path: str) -> int:
    *folders, name = _split_path(path)
    parent = _open_folder(root, folders)
    try:
        return os.open(name, _FILE_FLAGS, dir_fd=parent)
    except OSError as error:
        raise UnreadableFileError(_error_reason(error), missing=error.errno == errno.ENOENT) from None
    finally:
        os.close(parent)


def _open_folder(root: Path, parts: list[str]) -> int:
    """Open a folder. The root itself may be a link, since a person names it."""
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts:
            parent_handle, handle = handle, -1
            try:
                handle = os.open(part, _FOLDER_FLAGS, dir_fd=parent_handle)
            finally:
                os.close(parent_handle)
    except OSError as error:
        raise UnreadableFileError(_error_reason(error), missing=error.errno == errno.ENOENT) from None
    return handle


def _split_path(path: str) -> list[str]:
    """Split a path. Raises UnreadableFileError if it may lead outside of the root."""
    parts = path.split("/")
    is_invalid = any(
        each.strip() in ("", ".", "..") or len(each.encode(errors="replace")) > _MAX_NAME for each in parts
    )
    # control: path-check
    if is_invalid or len(parts) > _MAX_PARTS or "\\" in path or "\x00" in path or path.startswith("~"):
        raise UnreadableFileError("its path must consist of names with / between them")
    return parts


def _error_reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, os.strerror(error.errno or 0))
