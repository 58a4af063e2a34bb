"""`prove state`: inboxes, what is owed, delegations, approvals, threads, keys and the tree, each against its model.

The machines (machines.py) run in processes of their own, two at a time.
"""

import asyncio

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.state.machines import BROKE_DOWN, DISAGREED, UNREACHED

MACHINES = ("inbox", "delegations", "approvals", "threads", "obligations", "keys", "tree")
_AT_ONCE = 2
_MOST_SECONDS = 1_200.0
# With fewer steps, what is done seldom may not have been done.
_ENOUGH_STEPS = 28_000


async def run(setting: Setting) -> Verdict:
    """`setting.size` steps, an equal share of each machine that is played."""
    turns, names = asyncio.Semaphore(_AT_ONCE), (setting.only,) if setting.only else MACHINES

    async def played(name: str) -> Verdict:
        async with turns:
            part = replace(setting, folder=setting.folder / name, size=setting.size // len(names))
            return await in_a_child("proofs.state.machines", part, most_seconds=_MOST_SECONDS)

    verdict = Verdict(zeros={DISAGREED: 0, BROKE_DOWN: 0, UNREACHED: 0})
    for found in await asyncio.gather(*map(played, names)):
        verdict.figures |= found.figures
        for name in (DISAGREED, BROKE_DOWN):
            verdict.zeros[name] += found.zeros[name]
        if setting.size >= _ENOUGH_STEPS:
            verdict.zeros[UNREACHED] += found.zeros[UNREACHED]
        verdict.notes += found.notes
    total = sum(int(count) for name, count in verdict.figures.items() if name.startswith("steps of "))
    verdict.figures = {"steps": total, **verdict.figures}
    return verdict


_CONTROLS = (
    Control(
        name="an ack is answered and not written",
        marker="ack-kept",
        change=Swap("($seq, $...)", "($seq)"),
        breaks=DISAGREED,
        only="inbox",
    ),
    Control(
        name="a deadline that falls due is forgotten",
        marker="deadline-due",
        change=Always(False),
        breaks=DISAGREED,
        only="delegations",
    ),
    Control(
        name="a key is written over, whatever its writer believes",
        marker="version-check",
        change=Remove(),
        breaks=DISAGREED,
        only="keys",
    ),
    Control(
        name="a seat may stand below what stands below it",
        marker="org-tree-cycle",
        change=Always(False),
        breaks=DISAGREED,
        only="tree",
    ),
    Control(
        name="an approval is used as often as one likes",
        marker="use-once",
        change=Always(False),
        breaks=DISAGREED,
        only="approvals",
    ),
    Control(
        name="a question stops no clock",
        marker="question-stops-clock",
        change=Swap(", $=None)", ")"),
        breaks=DISAGREED,
        only="approvals",
    ),
    Control(
        name="an engine that comes too late writes still",
        marker="engine-generation",
        change=Swap(" or $ != $", ""),
        breaks=DISAGREED,
        only="threads",
    ),
    Control(
        name="a letter that was read is read again",
        marker="mail-delivered",
        change=Remove(),
        breaks=DISAGREED,
        only="threads",
    ),
    Control(
        name="who asked by a letter does not hear that its reader was stopped",
        marker="stopped-reader-told",
        change=Always(False),
        breaks=DISAGREED,
        only="threads",
    ),
)

PROOF = Proof(
    name="state",
    claim="Inbox, obligations, delegations, approvals, threads, keys and tree behave like their models at each step.",
    shows="Seven machines do random things to the product and to a model of a few lines, and compare after each step: "
    "an inbox (sent, claimed, acknowledged one by one, upto and by cursor, dead and brought back), what is owed for "
    "messages (reminded, drafted, answered, declined), delegations (begun under keys, below each other, pushed, "
    "claimed, answered, cancelled, retried, waited for, overdue), approvals (asked for under keys and by rules; "
    "decided by who may and who may not, about what they saw or did not; passed on, asked back, answered, used, used "
    "again, taken back, expired; while seats are moved, removed, silent, or decide alone; the model is that of "
    "`approvals`), threads (started, spoken to, forked; claimed, begun, added to and ended by engines that may come "
    "too late; agents spawned, written to, waited for, interrupted, closed, resumed, alone or with all below them; "
    "with letters and what each model has read), keys of memories (with versions and ends) and the "
    "tree of workspaces (made, moved, expanded, collapsed, removed; in memory). The product is its writers and readers "
    "on a store; the routes above them are `simulate`'s and `parity`'s. A control is looked for by the machine of its "
    "noun alone.",
    engines=("sqlite", "postgres"),
    unit="steps",
    sizes={"sqlite": 140_000, "postgres": 42_000},
    control_sizes={"sqlite": 6_000, "postgres": 4_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
