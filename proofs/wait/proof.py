"""`prove wait`: whoever waits for agents is woken by what it waits for, once, and by nothing else.

The games (waiters.py) run in a process of their own, so that a control's copy of the package can be put in their way.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` games, in memory where that has a folder: nobody dies here. RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-wait-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.wait.waiters", replace(setting, folder=Path(name)))


_CONTROLS = (
    Control(
        name="who waits looks first and listens then",
        marker="wait-registers-first",
        change=Swap(
            "= await $held($keys..., lambda: $look($args...), $seconds)",
            '= (await $look($args)).result or any([await __import__("asyncio").sleep(0) for _ in '
            "range(9)]) or await $held($keys, lambda first=[None]: $look($args) if not first else "
            '__import__("asyncio").sleep(0, Poll(first.pop())), $seconds)',
        ),
        breaks="lost wake-ups",
    ),
    Control(
        name="who waits listens to nobody",
        marker="wait-keys",
        change=Swap("return $...", "return []"),
        breaks="lost wake-ups",
    ),
    Control(
        name="the user's word ends no wait",
        marker="user-word-ends-wait",
        change=Swap(" or $ > $", ""),
        breaks="lost wake-ups",
    ),
    Control(
        name="nobody keeps which ends were told",
        marker="thread-report",
        change=Remove(),
        breaks="ends that were none, or told before",
    ),
    Control(
        name="the first end is enough for all",
        marker="waited-ends",
        change=Swap('bool($) and ($... or ($ == "any" and $done > 0))', "$done > 0"),
        breaks="ended for nothing",
    ),
    Control(
        name="who has ended before is waited for",
        marker="waited-at-rest",
        change=Swap("$done + len($) == len($targets)", "$done == len($targets)"),
        breaks="lost wake-ups",
    ),
    Control(
        name="a lost source is no error",
        marker="source-lost-error",
        change=Always(True),
        breaks="lost sources told as no error",
    ),
    Control(
        name="who is gone is taken for one at work",
        marker="source-lost",
        change=Swap("= $...", '= "timed_out"'),
        breaks="lost sources not named",
    ),
    Control(
        name="who was closed has come to its end",
        marker="closed-end-status",
        change=Swap('"end_status": "shutdown"', '"end_status": "completed"'),
        breaks="ends told as another end",
    ),
    Control(
        name="bells are rung half a second late",
        marker="alarm-slot",
        change=Swap("* $slots)", "* $slots) + 5"),
        breaks="open 100 ms behind the deadline",
    ),
    Control(
        name="a wait lasts no longer than a request",
        marker="wait-deadline",
        change=Swap("= $... <= 0", "= True"),
        breaks="ended before the deadline",
    ),
)

PROOF = Proof(
    name="wait",
    claim="A wait of a thread returns exactly when it should, with each end once.",
    shows="Trees of agents on a whole server in one process (all routes and guards; only the socket is missing). While "
    "a root begins to wait for some of its agents, for any or for all, once or twice under one name, in an order that "
    "chance gives, two in five of those that work end, one in ten is closed, one in ten is gone with all that was "
    "known of it, and the user may speak; one may have ended, and been told of, before. Time stands still: who has "
    "something to hear is woken without it. Then it passes: who has nothing to hear sleeps until its deadline, of 8 to "
    "30 seconds, and no longer than a tenth of a second past it. The answer is the one that it should be: each end "
    "once and as it was, who was closed as shut down, who is gone as lost, and as an error to who waited for it alone. "
    "A second wait reports no end again, unless no target is at work: then it reports all of them at once.",
    engines=("sqlite", "postgres"),
    unit="games",
    sizes={"sqlite": 10_000, "postgres": 2_000},
    control_sizes={"sqlite": 300, "postgres": 300},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
