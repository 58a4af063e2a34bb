"""`prove wait`: whoever waits for agents is woken by what it waits for, once, and by nothing else.

The games (waiters.py) run in a process of their own, so that a control's copy of the package can be put in their way.
"""

import tempfile
from pathlib import Path

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MEMORY = Path("/dev/shm")


async def run(setting: Setting) -> Verdict:
    """`setting.size` games, in memory where that has a folder: nobody dies here. RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-wait-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return await in_a_child("proofs.wait.waiters", replace(setting, folder=Path(name)))


_WAITING = "threads/waiting.py"
_CONTROLS = (
    Control(
        name="who waits looks first and listens then",
        file=_WAITING,
        line="is_over = await held(self._wakeups, _keys(thread, call), lambda: self._look(thread, begun), seconds)",
        # Between the two others have their turn; the first look behind it sees nothing.
        by="is_over = (await self._look(thread, begun)).found or any("
        '[await __import__("asyncio").sleep(0) for _ in range(9)]'
        ") or await held(self._wakeups, _keys(thread, call), lambda first=[None]: self._look(thread, begun) "
        'if not first else __import__("asyncio").sleep(0, Look(first.pop())), seconds)',
        breaks="lost wake-ups",
    ),
    Control(
        name="who waits listens to nobody",
        file=_WAITING,
        line="return [thread_key(each) for each in (thread.thread_id, *call.receiver_thread_ids)]",
        by="return []",
        breaks="lost wake-ups",
    ),
    Control(
        name="the user's word ends no wait",
        file=_WAITING,
        line="if own is None or call.call_id not in own.waiting or own.heard > begun.since:",
        by="if own is None or call.call_id not in own.waiting:",
        breaks="lost wake-ups",
    ),
    Control(
        name="nobody keeps which ends were told",
        file=_WAITING,
        line='change.write("keep_thread_report", {"thread_id": row.thread_id, **report})',
        by="pass",
        breaks="ends that were none, or told before",
    ),
    Control(
        name="the first end is enough for all",
        file="threads/rules.py",
        line='return Waited(states, bool(targets) and (done == len(targets) or (mode == "any" and done > 0)))',
        by="return Waited(states, done > 0)",
        breaks="ended for nothing",
    ),
    Control(
        name="a lost source is no error",
        file=_WAITING,
        line="refusal = None if lost is None else SourceLost(target=lost.thread_id, outcome=lost.outcome)",
        by="refusal = None",
        breaks="lost sources told as no error",
    ),
    Control(
        name="who is gone is taken for one at work",
        file="threads/rules.py",
        line='outcome: Outcome = "source_lost" if each in known else "unknown"',
        by='outcome: Outcome = "timed_out"',
        breaks="lost sources not named",
    ),
    Control(
        name="who was closed has come to its end",
        file="threads/fold.py",
        line='"end_status": "shutdown",',
        by='"end_status": "completed",',
        breaks="ends told as another end",
    ),
    Control(
        name="bells are rung half a second late",
        file="store/wakeups.py",
        line="slot = math.ceil((self._clock.monotonic() + seconds) * _SLOTS_A_SECOND)",
        by="slot = math.ceil((self._clock.monotonic() + seconds) * _SLOTS_A_SECOND) + 5",
        breaks="open 100 ms behind the deadline",
    ),
    Control(
        name="a wait lasts no longer than a request",
        file=_WAITING,
        line="is_late = self._left(thread, call) <= 0",
        by="is_late = True",
        breaks="ended before the deadline",
    ),
)

PROOF = Proof(
    name="wait",
    shows="Trees of agents on a whole server in one process (all routes and guards; only the socket is missing). While "
    "a root begins to wait for some of its agents, for any or for all, once or twice under one name, in an order that "
    "chance gives, two in five of those that work end, one in ten is closed, one in ten is gone with all that was "
    "known of it, and the user may speak; one may have ended, and been told of, before. Time stands still: who has "
    "something to hear is woken without it. Then it passes: who has nothing to hear sleeps until its deadline, of 8 to "
    "30 seconds, and no longer than a tenth of a second past it. The answer is the one that it should be: each end "
    "once and as it was, who was closed as shut down, who is gone as lost, and as an error to who waited for it alone. "
    "A second wait is told no end again.",
    engines=("sqlite", "postgres"),
    unit="games",
    sizes={"sqlite": 10_000, "postgres": 2_000},
    control_sizes={"sqlite": 300, "postgres": 300},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
