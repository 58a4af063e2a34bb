"""`prove crashpoints`: the server dies at each of its named points, and what it had promised stands.

The games (falling.py) run in two processes of their own, so that a control's copy of the package can be put in their
way.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from molecule_core.common.crash_points import POINTS
from proofs.crashpoints.falling import NOT_DIED
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.simulate.proof import ANOTHER
from proofs.simulate.proof import ZEROS as OF_GAMES
from proofs.simulate.seeds import PLAYED, Played, both

_MEMORY = Path("/dev/shm")
_MOST_SECONDS = 1_800.0
# No game is played twice here.
ZEROS = tuple(name for name in OF_GAMES if name != ANOTHER)
_NOBODY = "points at which too few died"


async def run(setting: Setting) -> Verdict:
    """`setting.size` deaths at each point. RuntimeError: the games broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-crash-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        parts = [replace(setting, folder=Path(name, str(n)), seed=setting.seed * 2 + n) for n in range(2)]
        for part in parts:
            part.folder.mkdir()
        child = "proofs.crashpoints.falling"
        await asyncio.gather(*(in_a_child(child, part, most_seconds=_MOST_SECONDS) for part in parts))
        found = [msgspec.json.decode((part.folder / PLAYED).read_bytes(), type=Played) for part in parts]
    return _verdict(*found, deaths=setting.size)


def _verdict(one: Played, other: Played, *, deaths: int) -> Verdict:
    counts, faults = Counter(both(one.counts, other.counts)), Counter(both(one.faults, other.faults))
    died_at = Counter(both(one.died_at, other.died_at))
    if strange := sorted(set(faults) - set(ZEROS) - {NOT_DIED}):
        raise RuntimeError(f"faults without a zero of their own: {strange}")
    figures: dict[str, Figure] = {"points": len(POINTS), "deaths": sum(died_at.values())}
    figures |= {name: counts[name] for name in ("events", "messages delivered", "calls", "answers cut", "clock jumps")}
    few = [point for point in POINTS if died_at[point] < deaths]
    zeros = {_NOBODY: len(few), NOT_DIED: faults[NOT_DIED], **{name: faults[name] for name in ZEROS}}
    return Verdict(figures, zeros, [*one.notes, *other.notes, *(f"{point}: {died_at[point]} deaths" for point in few)])


_CONTROLS = (
    Control(
        name="the answer leaves before the commit",
        marker="sqlite-commit",
        change=Swap('$execute("COMMIT")', 'asyncio.get_running_loop().call_soon($execute, "COMMIT")'),
        breaks="accepted but missing",
    ),
    Control(
        name="the same message is another one when it comes again",
        marker="inserted-dedupe-key",
        change=Swap("dedupe_key=$,", "dedupe_key=None,"),
        breaks="twice in an inbox",
    ),
)

PROOF = Proof(
    name="crashpoints",
    claim="The server recovers from a crash at each of its named crash points.",
    shows="The games of `prove simulate`: a seed is played once without a death, and then once for each of the named "
    "points of the product (src/molecule_core/common/crash_points.py: at a start, before and behind the decision, "
    "the writing, the commit, the answers and the wake-ups of a group, around claims, pushes, timers and "
    "waits), with the same course up to there; the server dies at one of the times at which it passes that "
    "point, and another one opens the same file. What else the seed has drawn goes wrong too: calls are cut, "
    "wake-ups lost, clocks set. Each game recovers to a state in which all zeros of the simulation are zero.",
    engines=("sqlite",),
    unit="deaths at each point",
    sizes={"sqlite": 25},
    control_sizes={"sqlite": 2},
    controls={"sqlite": _CONTROLS},
    run=run,
    demands={"sqlite": {"points": 24}},
    simulated=("deaths", "answers cut", "clock jumps"),
)
