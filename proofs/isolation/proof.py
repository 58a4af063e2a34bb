"""`prove isolation`: organisations and workspaces see of each other what they may, and nothing else.

The neighbours (neighbours.py) act in a process of their own, so that a control's copy of the package can be put in
their way.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.isolation.cursors import CHANGED
from proofs.isolation.judging import APART, EXTRA, HEARD, LATER, MISSED, MISSING, TAKEN
from proofs.isolation.neighbours import ABROAD

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` acts, in memory where that has a folder: nobody dies here. RuntimeError: it broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-isolation-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.isolation.neighbours", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="organisations are one to the guards",
        marker="caller-org",
        change=Swap("return $...", "return True"),
        breaks=EXTRA,
    ),
    Control(
        name="any workspace reads any other's log",
        marker="own-reach",
        change=Swap("$ is $ or ", ""),
        breaks=EXTRA,
    ),
    Control(
        name="workspaces hear of each other what is for themselves alone",
        marker="peers-audience",
        change=Swap('$ == "peers" and ', ""),
        breaks=HEARD,
    ),
    Control(
        name="a workspace is not told of its own rows",
        marker="own-rows-notice",
        change=Swap("yield from $...", "yield from ()"),
        breaks=MISSED,
    ),
    Control(
        name="a row of others is a place in one's own log",
        marker="position_of_activity",
        change=Swap("AND workspace_id =", "AND :workspace_id ="),
        breaks=TAKEN,
    ),
    Control(
        name="a thread of others is a place in one's own list",
        marker="own-thread-cursor",
        change=Swap("await $($, $place)", "await self._reader.get_thread($place)"),
        breaks=TAKEN,
    ),
    Control(
        name="threads of other organisations are there",
        marker="thread-org",
        change=Always(False),
        breaks=APART,
    ),
    Control(
        name="what others have takes longer than what is not there",
        marker="unknown-workspace",
        change=Swap("$workspace.$org)", "$workspace.$org) and sum(range(1_000_000)) > 0"),
        breaks=LATER,
    ),
    Control(
        name="a delegation is shown to who does it, not to who gave it",
        marker="delegation-seen-by-both",
        change=Swap("in ($, $target)", "== $target"),
        breaks=MISSING,
    ),
)

PROOF = Proof(
    name="isolation",
    claim="Nothing of one organisation is shown, sent or confirmed to another one, and cursors of others are useless.",
    shows="Twenty organisations of ten workspaces each, and a person in each, act on one server in an order that "
    "chance gives: they write, claim, give work, ask for leave, remember, begin threads, read lists and "
    "snapshots, look at single things; three of four times, whatever they do, at another organisation's place. Then "
    "half as many cursors are handed in wherever clients hand in one (pages of all lists, logs and chats, event "
    "streams, live channels, threads over their own channel): with a sign changed, torn, of nothing at all, or of "
    "another organisation. Everything that somebody writes carries a mark of its own, and a plain account says who may "
    "see it (but for the page of one delegation, which shows what was begun below it: there only marks of other "
    "organisations count). Three listeners in each organisation follow the event stream. No answer and no event shows "
    "a mark to whom it is not for, no listener misses a row that is for it, and who looks at a thing of its own is "
    "shown it. The ids of another organisation's things answer byte for byte like unknown ones, and, asked for in "
    "turns with them, less than 1 ms apart by the median of any path. A changed cursor shows no row of others and is "
    "answered with 200, 404 (which docs/reference/errors.md has for what is not there), 410 or 422.",
    engines=("sqlite",),
    unit="acts",
    sizes={"sqlite": 100_000, "postgres": 20_000},
    control_sizes={"sqlite": 10_000, "postgres": 5_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=(ABROAD, CHANGED),
)
