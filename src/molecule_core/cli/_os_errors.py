"""Errors of the operating system in the words of an operator: what cannot be used, and which user can use it."""

import errno
import os
from pathlib import Path

from molecule_core.common.state_files import FULL_DISK_ERRORS

try:
    import pwd
except ImportError:  # Windows
    _HAS_USERS = False
else:
    _HAS_USERS = True

_ROOT = 0
_PERMISSION_ERRORS = (errno.EACCES, errno.EPERM)


def describe_os_error(error: OSError) -> str | None:
    """Describe an error about a file or a disk, with advice; None for any other, which is a bug."""
    if error.errno in FULL_DISK_ERRORS:
        return f"{_subject(error)}: the disk has no space left. Free some space, and run the command again."
    if error.filename is None:
        return None
    if error.errno in _PERMISSION_ERRORS:
        return f"{_subject(error)}: permission denied. {user_advice(Path(os.fsdecode(error.filename)))}"
    return f"{_subject(error)}: {error.strerror}. Correct the path or the file, and run the command again."


def user_advice(path: Path) -> str:
    """Return as which user a command can use a path: the owner of the path, or of the folder that hides it."""
    if not _HAS_USERS:
        return "Check its permissions and those of its folder."
    owner, user = _owner_of(path), user_name(os.geteuid())
    if owner is None or owner == user:
        return "Check its permissions and those of its folder."
    if owner == user_name(_ROOT):
        return f"Choose a place that the user {user} can use, or run the command as root."
    return f"Run the command as the user {owner}: sudo -u {owner} molecule …"


def _subject(error: OSError) -> str:
    return "a file cannot be written" if error.filename is None else f"{os.fsdecode(error.filename)} cannot be used"


def _owner_of(path: Path) -> str | None:
    """Return the owner of a path, or of its nearest folder that this user can see."""
    for each in (path, *path.absolute().parents):
        try:
            return user_name(each.stat().st_uid)
        except OSError:
            continue
    return None


def user_name(number: int) -> str:
    """Return the name of a user, or its number where it has no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
