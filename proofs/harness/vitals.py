"""What a process costs, as Linux counts it."""

import os
import re
from pathlib import Path


def memory_of(pid: int) -> int:
    """How much memory a process has now, in bytes."""
    return _counted(pid, "VmRSS")


def peak_of(pid: int) -> int:
    """How much it has had at most since it began, or since that was forgotten, in bytes."""
    return _counted(pid, "VmHWM")


def forget_peak(pid: int) -> int:
    """From here on counts the most anew; what it has now, in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    return peak_of(pid)


def cpu_of(pid: int) -> float:
    """How many seconds of CPU it has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def files_of(pid: int) -> int:
    """How many files and connections it has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _counted(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) << 10
