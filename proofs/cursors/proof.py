"""`prove cursors`: whoever follows a cursor through a journal or an inbox sees every event once, in order.

The crowd (crowd.py) runs in a process of its own, so that a control's copy of the package can be put in its way.
"""

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict


async def run(setting: Setting) -> Verdict:
    """`setting.size` events by eight writers, followed by sixteen readers. RuntimeError: the crowd broke down."""
    return await in_a_child("proofs.cursors.crowd", setting)


PROOF = Proof(
    name="cursors",
    claim="No reader of a journal or inbox skips, repeats or reorders an event, and numbers have no gaps, under "
    "concurrent writers and rollbacks.",
    shows="Eight writers append events (messages, notices, log rows, repetitions, refusals, and commands that take "
    "numbers and then fail, so that their whole group is rolled back and replayed) to two organisations, while sixteen "
    "readers of journals and inboxes come, leave and go on from their cursor. On PostgreSQL each writer has a store of "
    "its own, as if it were a server of its own, and the database pauses before each commit, so that commits overlap "
    "and come late. No reader skips or repeats an event or sees it out of order, and all numbers are gap-free. (On "
    "SQLite no single line makes commits overlap, since there is one writer: its controls break the numbers and the "
    "cursor itself.)",
    engines=("sqlite", "postgres"),
    unit="events",
    sizes={"sqlite": 100_000, "postgres": 40_000},
    control_sizes={"sqlite": 5_000, "postgres": 2_000},
    controls={
        "sqlite": (
            Control(
                name="a rollback does not forget the numbers it gave",
                marker="sqlite-numbers",
                change=Remove(),
                breaks="journal numbers missing",
            ),
            Control(
                name="a journal is read from its cursor on, not behind it",
                marker="events_after",
                change=Swap("seq > :seq", "seq >= :seq"),
                breaks="repeated",
            ),
        ),
        "postgres": (
            Control(
                name="a plain serial column: the sequence of the database gives the numbers, and no lock orders them",
                marker="org-lock",
                change=Swap("pg_advisory_xact_lock(n)", "n"),
                breaks="skipped",
                serial=True,
            ),
            Control(
                name="no lock: groups of one organisation decide side by side",
                marker="org-lock",
                change=Swap("pg_advisory_xact_lock(n)", "n"),
                breaks="failed without reason",
            ),
        ),
    },
    run=run,
)
