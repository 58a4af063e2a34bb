"""`prove storage`: the store refuses under mixed commands, again and again; what was answered is true.

The faults are those of SQLite: somebody else holds the database, it may have no more pages, and every single call of
the disk fails once.
"""

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict


async def run(setting: Setting) -> Verdict:
    """`setting.size` calls of the disk, twice as many times busy, a tenth as many times full."""
    return await in_a_child("proofs.storage.rounds", setting)


_CONTROLS = (
    Control(
        name="the answer leaves before the commit",
        file="store/sqlite.py",
        line="await self._to_disk()",
        by="[each.settle() for each in group], await self._to_disk()",
        breaks="2xx without commit",
    ),
    Control(
        name="the journal is written in a transaction of its own",
        file="store/sqlite.py",
        line="at = self._clock.now()",
        by='at = (self._writing.execute("COMMIT"), self._writing.execute("BEGIN"), self._clock.now())[-1]',
        breaks="half-done commands",
    ),
    Control(
        name="a store that failed once takes nothing more",
        file="store/sqlite.py",
        line="if self._writing.in_transaction:",
        by="if self._queue.close() is None and self._writing.in_transaction:",
        breaks="not back within 5 s",
    ),
    Control(
        name="the numbers of a group that failed stay used",
        file="store/sqlite.py",
        line="self._numbers.clear()",
        by="pass",
        breaks="numbers missing",
    ),
)

PROOF = Proof(
    name="storage",
    shows="Six workspaces send, write to their users, give and take back tasks, claim and acknowledge, all at once on "
    "a whole server in one process, while somebody else holds its SQLite file, while the file may have no more pages, "
    "and while the call 1, 2, 3, ... of the disk since the last fault fails (a read or write, now and then a sync; a "
    "fifth of the times each one after it too), and the first syncs by themselves. Whoever had 503 asks again under "
    "the same id. What had a 2xx is in the file, once; no command is there by halves, no number is left out; nothing "
    "but 2xx and 503 is answered; and within five seconds behind each fault everybody is served.",
    engines=("sqlite",),
    unit="calls of the disk that fail",
    sizes={"sqlite": 500},
    control_sizes={"sqlite": 20},
    controls={"sqlite": _CONTROLS},
    run=run,
    faults=("busy", "full", "I/O errors"),
)
