"""Files and folders of a server: created for their owner only, with the owner of the state folder.

A command that root runs (`sudo molecule backup`) must leave nothing that the server's own user cannot use.
"""

import errno
import os
import shutil
from pathlib import Path

from molecule_core.common.errors import StartFailed

ADMIN_TOKEN_FILE = "admin-token"
"""File in the state folder with the server's admin token, unless the operator configured one."""
BACKUP_STAMP = "last-backup"
"""File in the state folder whose modification time is that of the last backup."""
FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of a quota, without space."""


def disk_full_error(path: Path) -> StartFailed:
    """Return the error of a start on a full disk."""
    return StartFailed(
        reason=f"the disk of {path} has no space left. Free some space on it, then start the server again."
    )


def last_backup_at(state: Path) -> int | None:
    """Return when the last backup of a state folder was made (microseconds); None if there is none."""
    try:
        return (state / BACKUP_STAMP).stat().st_mtime_ns // 1000
    except OSError:
        return None


def free_bytes(folder: Path) -> int:
    """Return the free space on the disk of a folder, which may not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0  # Windows has no such number


def match_owner(path: Path, folder: Path) -> None:
    """Set the owner of a new file or folder to that of `folder`, if this process is root.

    Otherwise the server's user could not use what `sudo molecule backup` or `restore` has written."""
    if _is_root():
        owner = folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def match_handle_owner(handle: int, folder: Path) -> None:
    """Set the owner of an open file to that of `folder`, if this process is root."""
    if _is_root():
        owner = folder.stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)


def create_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700, with the owner of the folder that they are in."""
    for each in (*reversed(folder.parents), folder):
        try:
            each.mkdir(mode=0o700)
        except OSError:  # exists, also on a read-only file system
            if not each.is_dir():
                raise
        else:
            match_owner(each, each.parent)


def create_private_file(path: Path) -> None:
    """Create an empty file for its owner only, if it is missing; close one of ours that others may read."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o600)
        match_handle_owner(handle, path.parent)
    finally:
        os.close(handle)
