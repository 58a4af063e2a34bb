"""`prove matrix`: every credential finds every route at every target as it is written down by hand.

The callers (callers.py) run in a process of their own, so that a control's copy of the package can be put in its way.
"""

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.matrix.callers import ATTEMPTS, LET_IN, STRANGE, TOLD_APART


async def run(setting: Setting) -> Verdict:
    """`setting.size` requests. RuntimeError: it broke down."""
    return await in_a_child("proofs.matrix.callers", setting)


_CONTROLS = (
    Control(
        name="any credential will do",
        marker="credential-kind",
        change=Always(False),
        breaks=LET_IN,
    ),
    Control(
        name="nobody looks at the role",
        marker="caller-role",
        change=Always(False),
        breaks=LET_IN,
    ),
    Control(
        name="an agent reaches every workspace that it may talk to",
        marker="own-reach",
        change=Swap("$ is $ or ", ""),
        breaks=LET_IN,
    ),
    Control(
        name="organisations are one",
        marker="caller-org",
        change=Swap("return $...", "return True"),
        breaks=LET_IN,
    ),
    Control(
        name="a workspace of others is forbidden, not unknown",
        marker="unknown-workspace",
        change=Swap("$workspace.$org)", "$workspace.$org) and (_ for _ in ()).throw(InvalidCaller)"),
        breaks=TOLD_APART,
    ),
)

PROOF = Proof(
    name="matrix",
    claim="Every route answers every kind of caller as a table written by hand says; resources of others read "
    "like missing ones.",
    shows="Every route of a real server is asked by eleven callers (nobody, a token that is none, the admin, an owner, "
    "an operator and a viewer of one organisation, an owner of another one, four workspaces: the one that is "
    "asked about, its sibling, one that it may not talk to, one of another organisation) about each target (their "
    "own, one of another organisation, one that is not there), in an order that chance gives. Who may what is "
    "written by hand, route by route, and not taken from the server; a route that is not written down, or says "
    "otherwise of itself, counts. Whatever belongs to others answers byte for byte as if it were not there. "
    "Each is asked several times, and counted once.",
    engines=("sqlite",),
    unit="requests",
    sizes={"sqlite": 40_000, "postgres": 10_000},
    control_sizes={"sqlite": 3_000, "postgres": 3_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=(ATTEMPTS, STRANGE),
)
