"""`prove budgets`: turns that begin at the same time never spend more than the budgets of their tree.

The trees (trees.py) run in a process of their own, so that a control's copy of the package can be put in their way.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` trees, in memory where that has a folder. RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-budgets-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.budgets.trees", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="turns begin without a lease",
        marker="budget-lease",
        change=Swap("<= $ and", "<= 1 << 60 and"),
        breaks="leased above the limit",
    ),
    Control(
        name="a claim that does not know of budgets is not decided alone",
        marker="budget-alone",
        change=Swap("not $", "False"),
        breaks="leased above the limit",
    ),
    Control(
        name="usage does not end the lease",
        marker="budget-lease-end",
        change=Remove(),
        breaks="leases unlike the turns",
    ),
)

PROOF = Proof(
    name="budgets",
    claim="Turns that begin at the same time never spend more than the budgets of their tree.",
    shows="Random trees of two to seven workspaces, with budgets of money and of tokens for the whole tree, for parts"
    " of it and for single workspaces. In six rounds up to twelve turns begin at the same time; a fifth of them with"
    " a claim that does not know of the budgets yet. Half report what they used, some twice at the same moment;"
    " the others are killed or report rounds later, when their lease has ended. After each step, what is spent"
    " and leased of each budget is within its limit, what is spent is the sum of the reports, each once, and"
    " what is leased belongs to turns that have not reported. In the end all have, and no lease is left.",
    engines=("sqlite", "postgres"),
    unit="trees",
    sizes={"sqlite": 1_000, "postgres": 1_000},
    control_sizes={"sqlite": 10, "postgres": 10},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    faults=("kills",),
)
