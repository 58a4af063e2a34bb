"""`prove approvals`: whoever decides what about whose request, exactly what the specification allows happens.

The trees (askers.py) run in a process of their own, so that a control's copy of the package can be put in their way;
what ought to happen is written down apart from the product, in ladder.py.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` trees, in memory where that has a folder: nobody dies here, and a disk would only slow them down.
    RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-leave-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.approvals.askers", replace(setting, folder=Path(name)))


_RULES = "approvals/rules.py"
_CONTROLS = (
    Control(
        name="who asks may decide",
        file=_RULES,
        line="return Verdict.OWN",
        by="return Verdict.DONE",
        breaks="taken wrongly",
    ),
    Control(
        name="who had it once may decide still",
        file=_RULES,
        line="if is_agent and (by.id != stands.holder_id or not stands.is_above):",
        by="if False:",
        breaks="taken wrongly",
    ),
    Control(
        name="nobody looks at the revision and the hash that a decision names",
        file=_RULES,
        line="if _is_changed(stands, wish):",
        by="if False:",
        breaks="taken wrongly",
    ),
    Control(
        name="what was approved may be changed before it is done",
        file=_RULES,
        line="if row.action_hash != action_hash:",
        by="if False:",
        breaks="taken wrongly",
    ),
    Control(
        name="an approval is good for ever",
        file=_RULES,
        line="if row.used_at is not None:",
        by="if False:",
        breaks="used twice",
    ),
    Control(
        name="the last word counts",
        file=_RULES,
        line="if stands.status.ended:",
        by="if False:",
        breaks="taken wrongly",
    ),
    Control(
        name="time says nothing",
        file="approvals/writer.py",
        line="elif now >= row.expires_at:",
        by="elif False:",
        breaks="open for ever",
    ),
    Control(
        name="nobody tells the requester",
        file="approvals/steps.py",
        line="if told and requester is not None and by.id != requester.id:",
        by="if False:",
        breaks="requester not told",
    ),
    Control(
        name="who was passed over is not noted",
        file="approvals/steps.py",
        line='course.hop("escalated", SERVER, _seat(each), why=reason)',
        by="pass",
        breaks="hops unlike what happened",
    ),
)

PROOF = Proof(
    name="approvals",
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
