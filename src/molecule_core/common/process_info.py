"""Resource use of this process; None or 0 where the system does not report it."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_PROC_SELF = Path("/proc/self")


def memory_bytes() -> int:
    """Return resident memory."""
    try:
        pages = int((_PROC_SELF / "statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux: the peak instead
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds() -> float:
    """Return user and system CPU time since the start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def open_files() -> int:
    """Return the number of open files and sockets."""
    try:
        return len(os.listdir(_PROC_SELF / "fd"))  # noqa: PTH208 - names alone, for there may be 20,000
    except OSError:
        return 0


def open_files_limit() -> int:
    """Return the soft limit of open files and sockets."""
    return _limit_count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def max_open_files() -> int:
    """Return the hard limit of open files and sockets."""
    return _limit_count(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def raise_open_files_limit(count: int) -> None:
    """Raise the soft limit to `count`, as far as the hard limit allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if open_files_limit() < count:
        with suppress(OSError, ValueError):  # forbidden, or above the system's maximum: keep the present limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, _limit_count(hard)), hard))


def _limit_count(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
