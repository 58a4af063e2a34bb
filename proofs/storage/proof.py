"""`prove storage`: the store refuses under mixed commands, again and again; what was answered is true.

The faults of SQLite: somebody else holds the database, it may have no more pages, and every single call of the disk
fails once. Those of PostgreSQL: all connections are cut, and the server is stopped with `-m immediate`.
"""

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.storage.asking import FAULTS
from proofs.storage.deeds import KINDS


async def run(setting: Setting) -> Verdict:
    """SQLite: `setting.size` calls of the disk, twice as many times busy, a tenth as many times full. PostgreSQL: so
    many times all connections, a tenth as many times the server."""
    return await in_a_child(f"proofs.storage.{'rounds' if setting.engine == 'sqlite' else 'sessions'}", setting)


_CONTROLS = (
    Control(
        name="the answer leaves before the commit",
        marker="sqlite-settle-last",
        change=Swap("await", "[each.resolve() for each in group], await"),
        breaks="2xx without commit",
    ),
    Control(
        name="the journal is written in a transaction of its own",
        marker="sqlite-journal",
        change=Swap(
            "$now()", '(self._write_connection.execute("COMMIT"), self._write_connection.execute("BEGIN"), $now())[-1]'
        ),
        breaks="half-done commands",
    ),
    Control(
        name="a store that failed once takes nothing more",
        marker="sqlite-rollback",
        change=Swap("if $open", "if self._queue.close() is None and $open"),
        breaks="not back within 5 s",
    ),
    Control(
        name="the numbers of a group that failed stay used",
        marker="sqlite-numbers",
        change=Remove(),
        breaks="numbers missing",
    ),
)

# (Where a mistake opens a gap of a fifth of a millisecond, which a fault seldom meets, the gap is made wider.)
_ON_POSTGRES = (
    Control(
        name="the answer leaves before the commit",
        marker="postgres-settle-last",
        change=Swap(
            "await $in($connection, $group)",
            "(await $in($connection, $group), [each.resolve() for each in $group], await asyncio.sleep(0.02))[0]",
        ),
        breaks="2xx without commit",
    ),
    Control(
        name="the journal is written in a transaction of its own",
        marker="postgres-journal",
        change=Swap(
            "await $put($connection,",
            'await $connection.execute("COMMIT; BEGIN"), await asyncio.sleep(0.02), await $put($connection,',
        ),
        breaks="half-done commands",
    ),
    Control(
        name="a connection that was lost is not made anew",
        marker="postgres-reconnect",
        change=Swap(" or $()", ""),
        breaks="not back within 5 s",
    ),
    Control(
        name="the numbers of a group that failed stay used",
        marker="postgres-numbers",
        change=Remove(),
        breaks="numbers missing",
    ),
)

PROOF = Proof(
    name="storage",
    claim="When the disk or database fails, a command is stored as a whole or not at all, and callers get 2xx or 503.",
    shows="Six workspaces send, write to their users, give and take back tasks, claim and acknowledge, ask for "
    "leave and withdraw, begin and close threads, note memories and put values, all at once on a whole server in one "
    "process. On SQLite, while somebody else holds its file, while the file may have no more pages, and while the "
    "call 1, 2, 3, ... of the disk since the last fault fails (a read or write, now and then a sync; a fifth of the "
    "times each one after it too), and the first syncs by themselves. On PostgreSQL, while all connections are cut "
    "at some moment, and while the server, which waits for its disk, is stopped at once and recovers. Whoever had "
    "503 asks again under the same id. What had a 2xx is there, once; no command is there by halves, no number is "
    "left out; nothing but 2xx and 503 is answered; and within five seconds behind each fault everybody is served.",
    engines=("sqlite", "postgres"),
    unit="calls of the disk that fail, or times that all connections are cut",
    sizes={"sqlite": 500, "postgres": 500},
    control_sizes={"sqlite": 20, "postgres": 100},
    controls={"sqlite": _CONTROLS, "postgres": _ON_POSTGRES},
    run=run,
    demands={
        "sqlite": {"full": 50, "busy": 1_000, "I/O errors": 500, **dict.fromkeys(KINDS, 1)},
        "postgres": {"connections cut": 200, "servers stopped": 10, **dict.fromkeys(KINDS, 1)},
    },
    faults=(FAULTS,),
)
