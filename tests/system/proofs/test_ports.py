"""`testing.ports`: whoever starts a server has its port to itself."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from testing.ports import free_port
from testing.processes import ROOT
from testing.waits import PROCESS_START_SECONDS

_ASKS = "from testing.ports import free_port; print(*(free_port() for _ in range(500)), flush=True); input()"


@contextmanager
def _another() -> Iterator[set[int]]:
    """A process that lives, and the ports that it was given."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _ASKS], cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield {int(port) for port in process.stdout.readline().split()}
            process.communicate("\n", timeout=PROCESS_START_SECONDS)
        finally:
            process.kill()


def test_processes_that_live_at_the_same_time_are_given_no_port_in_common() -> None:
    mine = {free_port() for _ in range(500)}
    with _another() as second, _another() as third:
        assert min(len(mine), len(second), len(third)) > 50
        assert mine.isdisjoint(second) and mine.isdisjoint(third) and second.isdisjoint(third)
    # Meanwhile others may have taken the places of one or the other.
    given = set[int]()
    for _ in range(3):
        with _another() as later:
            given |= later
    assert given & (second | third), "the ports of a process that has ended are never given again"


def test_a_port_that_somebody_has_is_passed_over() -> None:
    with socket.socket() as somebody:
        taken = free_port()
        somebody.bind(("127.0.0.1", taken))
        assert taken not in {free_port() for _ in range(500)}
