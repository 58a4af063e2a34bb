"""`prove backup`: a copy that is taken while others write is one moment, and nobody who comes back skips silently.

The copies (copying.py) are made in a process of its own, so that a control's copy of the package can be put in its way.
"""

from proofs.backup.copying import BELIEVED, HALF
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.workload.busy_writers import ACTS, EVENTS, MISSING, OWED
from testing.engines import ENGINES


async def run(setting: Setting) -> Verdict:
    """`setting.size` copies. RuntimeError: it broke down."""
    return await in_a_child("proofs.backup.copying", setting)


_CLOSING = Control(
    name="an answer closes nothing",
    marker="obligation-closed",
    change=Swap('("$", {**$, **$})', ""),
    breaks=OWED,
)
_SQLITE = (
    Control(
        name="the file is copied as it lies there",
        marker="backup-vacuum",
        change=Swap('$.execute("VACUUM INTO ?", (str($copy),))', '__import__("shutil").copyfile(database, $copy)'),
        breaks=MISSING,
    ),
    Control(
        name="a copy stands in its place before it is whole",
        marker="backup-part-file",
        change=Swap("$copy.with_name($...)", "$copy"),
        breaks=HALF,
    ),
    Control(
        name="what was put back is taken for the old store",
        marker="backup-epoch",
        change=Remove(),
        breaks=BELIEVED,
    ),
    _CLOSING,
)
_POSTGRES = (
    Control(
        name="each table is of another moment",
        marker="copy-isolation",
        change=Swap('"repeatable_read"', '"read_committed"'),
        breaks=EVENTS,
    ),
    Control(
        name="a copy stands in its place before it is whole",
        marker="copy-part-file",
        change=Swap("$copy.with_name($...)", "$copy"),
        breaks=HALF,
    ),
    Control(
        name="what was put back is taken for the old store",
        marker="copy-epoch",
        change=Remove(),
        breaks=BELIEVED,
    ),
    _CLOSING,
)

PROOF = Proof(
    name="backup",
    claim="A backup taken under load is one consistent moment, and a killed backup leaves no copy.",
    shows="On a whole server six senders, three agents who answer some of it, one who gives work and takes it back, "
    "one who asks for leave and withdraws, one who begins threads and closes them and two who remember write all the "
    "time, while copies are taken; four of ten copies are made in a process of their own that is killed on the way. "
    "Each copy is put back into an empty place, of PostgreSQL also into an SQLite file. It is one moment: what was "
    "accepted before the copy began is in it, of each of them it holds a beginning of what was done, without a gap, "
    "what was answered and nothing else is owed no more, logs and journals count without a gap, and each row has its "
    "event. The store that was put back is then served: who comes with an old place in the journal, or with a row "
    "that is gone, is sent to the snapshot, and who starts from that sees all that follows once. What a killed copy "
    "leaves is no copy.",
    engines=("sqlite", "postgres"),
    unit="copies",
    sizes={"sqlite": 200, "postgres": 100},
    control_sizes={"sqlite": 8, "postgres": 8},
    controls={"sqlite": _SQLITE, "postgres": _POSTGRES},
    run=run,
    demands={engine: dict.fromkeys(ACTS, 1) | {"killed on the way": 20} for engine in ENGINES},
    faults=("killed on the way",),
)
