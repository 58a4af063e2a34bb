"""`prove power`: the power fails under load, and nothing that was accepted is gone.

The server works in a process of its own (cutting.py), so that a control's copy of the package can be put in its way.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.power.cutting import DAMAGED
from proofs.workload.busy_writers import ACTS, MISSING

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` power cuts, on files in memory: what a disk keeps is played. RuntimeError: it broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-power-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.power.cutting", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="nobody waits for the disk",
        marker="sqlite-synchronous",
        change=Swap('"FULL"', '"OFF"'),
        breaks=MISSING,
    ),
    Control(
        name="the disk is waited for only where the log is folded in",
        marker="sqlite-synchronous",
        change=Swap('"FULL"', '"NORMAL"'),
        breaks=MISSING,
    ),
    Control(
        name="no log: pages are written where they belong",
        marker="sqlite-wal",
        change=Swap('"wal"', '"off"'),
        breaks=DAMAGED,
    ),
)

PROOF = Proof(
    name="power",
    claim="After a power cut that loses unflushed writes, everything accepted is in the SQLite store.",
    shows="On a whole server in one process, whose database lies on a disk that forgets what was not flushed "
    "(uploaded files are not played), six senders, three agents who answer some of it, one who gives work and takes "
    "it back, one who asks for leave and withdraws, one who begins threads and closes them and two who remember "
    "write all the time. The power fails before any write and any flush, at moments that chance gives; the disk "
    "then holds what was flushed, and of all other writes a random half, the last one torn at a sector. What is "
    "found is whole and opens; all that was accepted by then is in it, of each of them it holds a beginning of what "
    "was done, without a gap, what was answered and nothing else is owed no more, logs and journals count without a "
    "gap, and each row has its event. One in ten is served again and takes a message. (PostgreSQL keeps its own "
    "promises; how it is stopped is shown by `prove storage`.)",
    engines=("sqlite",),
    unit="power cuts",
    sizes={"sqlite": 1_000},
    control_sizes={"sqlite": 30},
    controls={"sqlite": _CONTROLS},
    run=run,
    demands={"sqlite": dict.fromkeys(ACTS, 1)},
    faults=("power cuts",),
)
