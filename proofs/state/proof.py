"""`prove state`: inboxes, what is owed, delegations, approvals, threads, keys and the tree, each against its model.

The machines (machines.py) run in processes of their own, two at a time.
"""

import asyncio

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
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
        file="messages/settling.py",
        only="inbox",
        line="return WriteSet(floor.acked_seq, writes, told, rings, owed.then, facts=[*facts])",
        by="return WriteSet(floor.acked_seq)",
        breaks=DISAGREED,
    ),
    Control(
        name="a deadline that falls due is forgotten",
        file="delegations/writer.py",
        only="delegations",
        line="if row.deadline_at <= now:",
        by="if False:",
        breaks=DISAGREED,
    ),
    Control(
        name="a key is written over, whatever its writer believes",
        file="memory/writer.py",
        only="keys",
        line="rules.check_version(Entry(*found[0]).version if found else NO_VERSION, if_match_version)",
        by="pass",
        breaks=DISAGREED,
    ),
    Control(
        name="a seat may stand below what stands below it",
        file="org/rules.py",
        only="tree",
        line="if _lies_below(tree.parents(), parent.parent_id, moving.id):",
        by="if False:",
        breaks=DISAGREED,
    ),
    Control(
        name="an approval is used as often as one likes",
        file="approvals/rules.py",
        only="approvals",
        line="if row.used_at is not None:",
        by="if False:",
        breaks=DISAGREED,
    ),
    Control(
        name="a question stops no clock",
        file="approvals/steps.py",
        only="approvals",
        line="course.put(status=Status.INFO, asker=_json(by), level_at=None)",
        by="course.put(status=Status.INFO, asker=_json(by))",
        breaks=DISAGREED,
    ),
    Control(
        name="an engine that comes too late writes still",
        file="threads/rules.py",
        only="threads",
        line="return thread.owner is None or thread.generation != generation",
        by="return thread.owner is None",
        breaks=DISAGREED,
    ),
    Control(
        name="a letter that was read is read again",
        file="threads/turning.py",
        only="threads",
        line='change.stamp(mail, "delivered", turn_id)',
        by="pass",
        breaks=DISAGREED,
    ),
    Control(
        name="who asked by a letter does not hear that its reader was stopped",
        file="threads/acts.py",
        only="threads",
        line="if not goes_on and not change.of(thread_id).open:",
        by="if False:",
        breaks=DISAGREED,
    ),
)

PROOF = Proof(
    name="state",
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
