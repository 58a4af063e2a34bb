"""`prove approvals`: whoever decides what about whose request, exactly what the specification allows happens.

The trees (askers.py) run in a process of their own, so that a control's copy of the package can be put in their way;
what ought to happen is written down apart from the product, in ladder.py.
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
    """`setting.size` trees, in memory where that has a folder: nobody dies here, and a disk would only slow them down.
    RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-leave-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.approvals.askers", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="who asks may decide",
        marker="own-request",
        change=Swap("$verdict.$", "$verdict.VALID"),
        breaks="taken wrongly",
    ),
    Control(
        name="who had it once may decide still",
        marker="decision-holder",
        change=Always(False),
        breaks="taken wrongly",
    ),
    Control(
        name="nobody looks at the revision and the hash that a decision names",
        marker="decision-revision",
        change=Always(False),
        breaks="taken wrongly",
    ),
    Control(
        name="what was approved may be changed before it is done",
        marker="use-action-hash",
        change=Always(False),
        breaks="taken wrongly",
    ),
    Control(
        name="an approval is good for ever",
        marker="use-once",
        change=Always(False),
        breaks="used twice",
    ),
    Control(
        name="the last word counts",
        marker="decision-final",
        change=Always(False),
        breaks="taken wrongly",
    ),
    Control(
        name="time says nothing",
        marker="approval-expiry",
        change=Always(False),
        breaks="open for ever",
    ),
    Control(
        name="nobody tells the requester",
        marker="requester-informed",
        change=Always(False),
        breaks="requester not told",
    ),
    Control(
        name="who was passed over is not noted",
        marker="escalation-hop",
        change=Remove(),
        breaks="hops unlike what happened",
    ),
)

PROOF = Proof(
    name="approvals",
    claim="An approval is decided and used only by those who may, once, and ends by its clock.",
    shows="Random trees of one to seven seats on a whole server in one process (all routes and guards; only the socket "
    "is missing), some managers of which were never heard, are paused, or decide things alone. Their lowest seats "
    "ask for leave, and everybody decides: the holder, who had it before, the requester, "
    "seats beside and above, persons of each role, an owner of another organisation; with the revision "
    "and hash that stand there, with older ones, with "
    "none, with other details, again, otherwise again, two at once, and late: after the end, the use, a move of the "
    "requester, a restart. The requester answers, takes back, and uses: twice, something else, too late. What should "
    "happen is said by a plain account of each approval that knows nothing of the product. Nothing is taken or refused "
    "that should not be, nothing is decided or used twice, all ends by its clock, the requester is told each end once, "
    "and the chain of hops is the one that happened.",
    engines=("sqlite", "postgres"),
    unit="trees",
    sizes={"sqlite": 10_000, "postgres": 2_000},
    control_sizes={"sqlite": 40, "postgres": 40},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=("refused",),
)
