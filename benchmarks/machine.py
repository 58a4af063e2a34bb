"""What the machine tells: CPU and memory of a process, its cores, what one flush to the disk costs. Linux only."""

import math
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.figures import Failed

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
"""Where everything is kept that a run writes: on the disk of the checkout, because the system's folder for temporary
files may lie in memory, where a flush costs nothing."""
_FLUSHES = 200


class Machine(Struct, frozen=True):
    """Where a figure comes from."""

    cores: int
    model: str
    system: str
    python: str
    flush_ms: float
    """Median of one 4 KiB write with fdatasync."""


def this_machine() -> Machine:
    """Looks at the machine, and flushes some pages to its disk."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        model=_model(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        flush_ms=percentile(flushes_ms(_FLUSHES), 50),
    )


def _model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def flushes_ms(count: int) -> list[float]:
    """What each of so many flushes took, one after the other, in milliseconds."""
    WORK.mkdir(exist_ok=True)
    path = WORK / "flush"
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - start) * 1000)
    path.unlink()
    return taken


def allow_files(count: int) -> None:
    """Lets this process, and those it starts, hold so many files open. Raises Failed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Failed(f"{count} open files are needed, this system allows {hard}")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def cpu_of(pid: int) -> float:
    """CPU seconds a process has used so far, in user and system mode, by all its threads, also those that ended.

    What clock_getcpuclockid(3) computes: nanoseconds, where /proc/PID/stat has hundredths of a second."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_of(pid: int) -> float:
    """The resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")


def family_of(pid: int) -> list[int]:
    """A process and all that it and those it began have begun, as far as they live."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(errors="replace").rpartition(")")[2].split()  # its name may hold anything
        except OSError:  # it has ended since
            continue
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    family = [pid]
    for each in family:
        family += children.get(each, [])
    return family


def commit() -> str:
    """The commit that is checked out, with a plus if files differ from it."""
    short = _git("rev-parse", "--short", "HEAD")
    return f"{short}+" if _git("status", "--porcelain", "--untracked-files=no") else short


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() or ("" if words[0] == "status" else "unknown")


def percentile(values: Iterable[float], percent: float) -> float:
    """The value that so many percent do not exceed; NaN for none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * percent / 100) - 1))]


def median(values: Sequence[float]) -> float:
    """The middle value; the mean of the two middle ones of an even number."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
