"""`prove state`: the inbox, what is owed, delegations, keys of memories and the tree, each against its model.

The machines (machines.py) run in processes of their own, two at a time.
"""

import asyncio

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.state.machines import DISAGREED, UNREACHED

MACHINES = ("inbox", "delegations", "obligations", "keys", "tree")
_AT_ONCE = 2
_MOST_SECONDS = 1_200.0
# With fewer steps, what is done seldom may not have been done.
_ENOUGH_STEPS = 20_000


async def run(setting: Setting) -> Verdict:
    """`setting.size` steps, an equal share of each machine."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def played(name: str) -> Verdict:
        async with turns:
            part = replace(setting, folder=setting.folder / name, size=setting.size // len(MACHINES))
            return await in_a_child("proofs.state.machines", part, most_seconds=_MOST_SECONDS)

    verdict = Verdict(zeros={DISAGREED: 0, UNREACHED: 0})
    for found in await asyncio.gather(*map(played, MACHINES)):
        verdict.figures |= found.figures
        verdict.zeros[DISAGREED] += found.zeros[DISAGREED]
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
        line="return WriteSet(floor.acked_seq, writes, told, (org_key(seat.org_id), *owed.rings), owed.then)",
        by="return WriteSet(floor.acked_seq)",
        breaks=DISAGREED,
    ),
    Control(
        name="a deadline that falls due is forgotten",
        file="delegations/writer.py",
        line="if row.deadline_at <= now:",
        by="if False:",
        breaks=DISAGREED,
    ),
    Control(
        name="a key is written over, whatever its writer believes",
        file="memory/writer.py",
        line="rules.check_version(Entry(*found[0]).version if found else NO_VERSION, if_match_version)",
        by="pass",
        breaks=DISAGREED,
    ),
    Control(
        name="a seat may stand below what stands below it",
        file="org/rules.py",
        line="if _lies_below(tree.parents(), parent.parent_id, moving.id):",
        by="if False:",
        breaks=DISAGREED,
    ),
)

PROOF = Proof(
    name="state",
    shows="Five machines do random things to the product and to a model of a few lines, and compare after each step: "
    "an inbox (sent, claimed, acknowledged one by one, upto and by cursor, dead and brought back), what is owed for "
    "messages (reminded, drafted, answered, declined), delegations (begun under keys, below each other, pushed, "
    "claimed, answered, cancelled, retried, waited for, overdue), keys of memories (with versions and ends) and the "
    "tree of workspaces (made, moved, expanded, collapsed, removed; in memory). The product is its writers and readers "
    "on a store; the routes above them are `simulate`'s and `parity`'s.",
    engines=("sqlite", "postgres"),
    unit="steps",
    sizes={"sqlite": 100_000, "postgres": 30_000},
    control_sizes={"sqlite": 6_000, "postgres": 3_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
