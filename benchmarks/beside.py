"""Compares this checkout with an earlier commit: both servers run at once, and get the same load in turns.

A figure is the ratio of the two within a round, never a figure of one run beside that of another. The interval is that
of the median by ranks (sign test): it supposes nothing about how the ratios are distributed.

The earlier commit runs from a worktree below .bench/, with the packages of this environment.
"""

import math
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.figures import Failed, Options, Say
from benchmarks.machine import ROOT, WORK, median
from benchmarks.row_01_full_path import Bench
from benchmarks.row_04_delegation import Load, Ours
from benchmarks.servers import Server, molecule, new_place

ROUNDS = 15
_DUE_SECONDS = "86400"
_CONFIDENCE = 0.95
_ALONE, _CROWD = Load(sources=1, workers=1, connections=1), Load()
_MESSAGES, _MESSAGES_ALONE, _TASKS, _TASKS_ALONE = 5_000, 600, 1_000, 200
_QUICK_SHARE = 5


class Sample(Struct, frozen=True):
    """What one load cost one server. Microseconds of CPU for each message or delegation; the wait in milliseconds."""

    cpu_us: float
    wait_ms: float


Measurement = Callable[[], Sample]


class Ratios(Struct, frozen=True):
    """Ratios of this checkout to the earlier commit, one a round."""

    name: str
    values: list[float]
    beside: str

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval in which the median lies with a probability of 95 %."""
        ordered, rank = sorted(self.values), interval_rank(len(self.values))
        return ordered[rank], ordered[-1 - rank]


def interval_rank(count: int) -> int:
    """Return how many values at each end are outside the interval of the median."""
    rank, outside = 0, 0.0
    while True:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - _CONFIDENCE:
            return max(0, rank - 1)
        rank += 1


class Side:
    """One of the two servers, and the loads on it."""

    def __init__(self, stack: ExitStack, source: Path, options: Options) -> None:
        place = stack.enter_context(new_place())
        settings = {"push_instructions_enabled": "true", "limit_reply_seconds": _DUE_SECONDS}
        server: Server = stack.enter_context(molecule(place, is_lifted=True, flushes=True, source=source, **settings))
        # Messages and delegations have servers of their own: the counts of one are checked in its whole store.
        self._messages = Bench(server, place, server, options, told=True)
        place = stack.enter_context(new_place())
        server = stack.enter_context(molecule(place, is_lifted=True, flushes=True, source=source, **settings))
        self._tasks = Ours(server, place)

    def messages(self, connections: int, count: int) -> Sample:
        """Send so many messages, each delivered and acknowledged."""
        cost = self._messages.ours(connections, count, receive=True)
        return Sample(cost.each_us, cost.outcome.delivery_p50_ms or 0.0)

    def tasks(self, load: Load, count: int) -> Sample:
        """Delegate so many tasks, each answered and its result acknowledged."""
        trips = self._tasks.run(count, load=load)
        return Sample(trips.each_us, trips.went.trip_p50_ms)


def compare(commit: str, options: Options, say: Say) -> list[Ratios]:
    """Compare this checkout with a commit. Raises Failed."""
    share = _QUICK_SHARE if options.quick else 1
    with ExitStack() as stack:
        tree = stack.enter_context(_worktree(commit))
        then, now = Side(stack, tree / "src", options), Side(stack, ROOT / "src", options)
        loads: dict[str, Callable[[Side], Sample]] = {
            "message, 64 connections": lambda side: side.messages(64, _MESSAGES // share),
            "message, 1 connection": lambda side: side.messages(1, _MESSAGES_ALONE // share),
            "delegation, 64 connections": lambda side: side.tasks(_CROWD, _TASKS // share),
            "delegation, 1 connection": lambda side: side.tasks(_ALONE, _TASKS_ALONE // share),
        }
        pairs: dict[str, list[tuple[Sample, Sample]]] = {name: [] for name in loads}
        for number in range(options.rounds + 1):
            for name, load in loads.items():
                # The order changes, so that neither side always runs on a warmer machine.
                first, second = (then, now) if number % 2 else (now, then)
                samples = {id(side): load(side) for side in (first, second)}
                if number:  # the first round warms up
                    pairs[name].append((samples[id(then)], samples[id(now)]))
            if number:
                say(f"  round {number}: " + "; ".join(f"{name} {_ratio(each[-1]):.3f}" for name, each in pairs.items()))
    return [found for name, each in pairs.items() for found in _ratios(name, each)]


def table(found: list[Ratios]) -> str:
    """Return the ratios as lines for a terminal."""
    width = max(len(each.name) for each in found)
    lines = [f"{'this checkout / the commit':{width}}  median  95 % interval"]
    for each in found:
        low, high = each.interval
        lines.append(f"{each.name:{width}}  {median(each.values):6.3f}  {low:.3f} to {high:.3f}  {each.beside}")
    return "\n".join(lines)


def _ratio(pair: tuple[Sample, Sample]) -> float:
    return pair[1].cpu_us / pair[0].cpu_us


def _ratios(name: str, pairs: list[tuple[Sample, Sample]]) -> list[Ratios]:
    cpu = [median([side.cpu_us for side in sides]) for sides in zip(*pairs, strict=True)]
    wait = [median([side.wait_ms for side in sides]) for sides in zip(*pairs, strict=True)]
    return [
        Ratios(f"{name}: CPU", [_ratio(pair) for pair in pairs], f"{cpu[0]:,.0f} us, now {cpu[1]:,.0f} us"),
        Ratios(
            f"{name}: p50",
            [now.wait_ms / then.wait_ms for then, now in pairs],
            f"{wait[0]:.2f} ms, now {wait[1]:.2f} ms",
        ),
    ]


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    """Check a commit out below .bench/, removed afterwards."""
    WORK.mkdir(exist_ok=True)
    folder = WORK / "beside"
    _git("worktree", "prune")
    _git("worktree", "add", "--force", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"git {arguments[0]} {arguments[1]}: {done.stderr.strip()}")
