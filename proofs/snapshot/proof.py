"""`prove snapshot`: an old snapshot and the events behind it are the new snapshot, for plain words and for the page.

The histories (histories.py) are played in processes of their own, so that a control's copy of the package can be put in
their way.
"""

import asyncio
import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Remove
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.snapshot.histories import PAGES, UNLIKE

_MEMORY = Path("/dev/shm")
_PROCESSES = 2
_MOST_SECONDS = 1_200.0


async def run(setting: Setting) -> Verdict:
    """`setting.size` histories, half of them in each process, in memory where that has a folder: nobody dies here.
    RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-snapshot-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        parts = [_part(setting, Path(name), number) for number in range(_PROCESSES)]
        module = "proofs.snapshot.histories"
        found = await asyncio.gather(*(in_a_child(module, part, most_seconds=_MOST_SECONDS) for part in parts))
    names = list(dict.fromkeys(name for each in found for name in each.figures))
    figures: dict[str, Figure] = {name: sum(int(each.figures.get(name, 0)) for each in found) for name in names}
    figures["kinds of events"] = max(int(each.figures["kinds of events"]) for each in found)
    zeros = {name: sum(each.zeros[name] for each in found) for name in found[0].zeros}
    return Verdict(figures, zeros, [note for each in found for note in each.notes])


def _part(setting: Setting, folder: Path, number: int) -> Setting:
    own = folder / str(number)
    own.mkdir()
    size = setting.size // _PROCESSES + (number < setting.size % _PROCESSES)
    return replace(setting, folder=own, seed=setting.seed * _PROCESSES + number, size=size)


_CONTROLS = (
    Control(
        name="nobody tells what became of a message",
        marker="message-event",
        change=Remove(),
        breaks=PAGES,
    ),
    Control(
        name="nobody tells what became of an approval",
        marker="approval-event",
        change=Remove(),
        breaks=UNLIKE,
    ),
)

PROOF = Proof(
    name="snapshot",
    claim="An old snapshot plus its events equals a new snapshot.",
    shows="Random histories of four kinds on a whole server behind its socket: a company (workspaces come, "
    "change, move, rest, go; cards, heartbeats, silence, chats), duties (messages that want an answer are "
    "claimed, answered, declined, said elsewhere, forgotten), work (delegations are given, claimed, "
    "reported on, ended, taken back, begun again, recorded) and leave (approvals climb and are decided, "
    "asked about, answered, used, withdrawn, expire). Somebody takes snapshots meanwhile. Each of them "
    "becomes the last one by the events behind it: told by plain words that were written from the wire "
    "alone, and by the page's own source under the Node that compiles it.",
    engines=("sqlite",),
    unit="histories",
    sizes={"sqlite": 2_000, "postgres": 400},
    control_sizes={"sqlite": 16, "postgres": 16},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
