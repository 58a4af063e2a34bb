"""`prove loops`: agents that always delegate on come to rest, whoever gives work to whom.

The graphs (graphs.py) run in a process of their own, so that a control's copy of the package can be put in their way;
what they leave is judged in trees.py.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` graphs, in memory where that has a folder: nobody dies here, and a disk would only slow them down.
    RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-loops-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.loops.graphs", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="nobody looks whether a task comes back",
        marker="delegation-cycle",
        change=Always(False),
        breaks="the same task came back on its own way",
    ),
    Control(
        name="levels are not counted",
        marker="delegation-depth",
        change=Always(False),
        breaks="deeper than allowed",
    ),
    Control(
        name="what is open below one is not counted",
        marker="delegation-children",
        change=Always(False),
        breaks="wider than allowed",
    ),
    Control(
        name="a tree may grow for ever",
        marker="tree-size",
        change=Swap('"", $', '"", 1 << 40'),
        breaks="larger than allowed",
    ),
    Control(
        name="a refusal is told to the agent only",
        marker="refusal-event",
        change=Swap("return $(None, $..., $=$error)", "raise $error"),
        breaks="refusals without event",
    ),
    Control(
        name="nobody looks after a delegation",
        marker="delegation-timer",
        change=Remove(),
        breaks="open without a timer in time",
    ),
)

PROOF = Proof(
    name="loops",
    claim="Agents that delegate in circles come to rest by the shipped limits, and every delegation ends once.",
    shows="Random graphs of three to seven agents, three of ten edges of which lead back, on a whole server in one "
    "process whose time stands still. Every agent gives every task that it gets to everybody it knows, in the "
    "same words or in other ones; it names what it is at work on, or only holds it, or acknowledges it first. "
    "Some graphs are dense, in some an agent gives forty pieces at once, in some whoever gets a result "
    "delegates again, in some results go up to who began, who begins anew. All come to rest by the limits as "
    "they are shipped: no tree is deeper, wider or larger, no task meets itself on its own way, every refusal "
    "is an event with limit, use and remedy, every open delegation has a timer in time, and no journal has "
    "more than twelve lines for each delegation and refusal. Then a third is answered, a third taken back from"
    " its root, and the rest meets its deadline behind a restart: each has ended, once.",
    engines=("sqlite",),
    unit="graphs",
    sizes={"sqlite": 1_000, "postgres": 1_000},
    control_sizes={"sqlite": 24, "postgres": 24},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
