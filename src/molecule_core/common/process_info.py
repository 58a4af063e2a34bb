"""What the machine says about this process; None or 0 where it does not say."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_PROC_SELF = Path("/proc/self")


def memory_bytes() -> int:
    """Resident memory."""
    try:
        pages = int((_PROC_SELF / "statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux: the most it ever had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds() -> float:
    """Processor time since the start, of user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def open_files() -> int:
    """Open files and sockets."""
    try:
        return len(os.listdir(_PROC_SELF / "fd"))  # noqa: PTH208 - names alone, for there may be 20,000
    except OSError:
        return 0


def open_files_limit() -> int:
    """How many files and sockets may be open."""
    return _limit_count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def max_open_files() -> int:
    """How many there may be if this process asks for it."""
    return _limit_count(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def raise_open_files_limit(count: int) -> None:
    """Asks for so many, as far as the operator allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if open_files_limit() < count:
        with suppress(OSError, ValueError):  # forbidden, or more than this system knows: then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, _limit_count(hard)), hard))


def _limit_count(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
