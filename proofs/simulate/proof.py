"""`prove simulate`: the whole server, played by seeds on a loop whose time jumps and whose order is drawn.

The games (game.py) run in two processes of their own, so that a control's copy of the package can be put in their way.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.simulate.reach import left_out, rare
from proofs.simulate.seeds import PLAYED, Played, both

_MEMORY = Path("/dev/shm")
_PROCESSES = 2
_MOST_SECONDS = 7_200.0
# With fewer seeds, what comes seldom may not have come.
_ENOUGH_SEEDS = 1_000
_FEWEST_DELIVERED = 100
ANOTHER = "same seed, another journal"
ZEROS = (
    "accepted but missing",
    "twice in an inbox",
    "order of a sender broken",
    "two receipts",
    "gaps",
    "handed twice under one attempt",
    "handed again after its ack",
    "delegations that did not end once",
    "answers that did not come once",
    "results that were not told",
    "answered and yet not ended by it",
    "approvals that did not end once",
    "approvals used twice",
    "turns that did not end once",
    "said to a thread and not there once",
    "letters not there once",
    "spawned not once",
    "waits that ended early",
    "waits past their limit",
    "waits that never came back",
    "woken late though no ring was lost",
    "calls that never got an answer",
    "open for ever",
    "deadlocks",
    "never at rest",
    "timers past due",
    "answers of 5xx",
    "refused without reason",
    "tasks that ended with an error",
    "errors in the server's log",
    "left behind by a server that was closed",
    "did not start",
    ANOTHER,
)
_SHOWN = (
    "events",
    "messages delivered",
    "calls",
    "delegations",
    "approvals",
    "threads",
    "letters between threads",
    "waits of threads",
    "deaths",
    "calls never made",
    "answers cut",
    "pushes",
    "pushes failed",
    "pushes doubled",
    "hung up",
    "late answers",
    "rings lost",
    "clock jumps",
    "engines that forgot all",
    "messages forgotten",
)


async def run(setting: Setting) -> Verdict:
    """`setting.size` seeds, half of them in each process, in memory where that has a folder: a process dies here, and
    never the machine. RuntimeError: they broke down."""
    with tempfile.TemporaryDirectory(prefix="molecule-simulate-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        parts = [_part(setting, Path(name), number) for number in range(_PROCESSES)]
        await asyncio.gather(*(in_a_child("proofs.simulate.seeds", part, most_seconds=_MOST_SECONDS) for part in parts))
        found = [msgspec.json.decode((part.folder / PLAYED).read_bytes(), type=Played) for part in parts]
    return _verdict(found, is_whole=setting.size >= _ENOUGH_SEEDS)


def _part(setting: Setting, folder: Path, number: int) -> Setting:
    own = folder / str(number)
    own.mkdir()
    size = setting.size // _PROCESSES + (number < setting.size % _PROCESSES)
    return replace(setting, folder=own, seed=setting.seed * _PROCESSES + number, size=size)


def _verdict(found: list[Played], *, is_whole: bool) -> Verdict:
    one, other = found
    counts = Counter(both(one.counts, other.counts))
    faults, cells = Counter(both(one.faults, other.faults)), both(one.cells, other.cells)
    reached = both(one.points, other.points)
    seldom = rare()
    wanted = set(one.every_cell) - left_out() - seldom
    unreached = sorted((wanted - set(cells)) | (set(one.every_point) - set(reached)))
    strange = sorted(set(faults) - set(ZEROS))
    if strange:
        raise RuntimeError(f"faults without a zero of their own: {strange}")
    figures: dict[str, Figure] = {"seeds": one.seeds + other.seeds, "seeds played twice": one.twice + other.twice}
    figures |= {name: counts[name] for name in _SHOWN}
    figures["fewest messages delivered by a seed"] = min(each.least for each in found)
    refused = sorted(name for name in counts if name.startswith("refused "))
    figures["refused as it should be"] = sum(counts[name] for name in refused)
    figures["crash points reached"] = f"{len(reached)} of {len(one.every_point) or len(reached)}"
    figures["places of deaths"] = len(both(one.died_at, other.died_at))
    figures["cells reached"] = f"{len(wanted & set(cells))} of {len(wanted)}"
    figures["rare cells reached"] = f"{len(seldom & set(cells))} of {len(seldom)}"
    figures["cells beside the tables"] = len(set(cells) - set(one.every_cell))
    zeros = {name: faults[name] for name in ZEROS}
    zeros["seeds with too few messages"] = sum(each.least < _FEWEST_DELIVERED for each in found)
    zeros["cells and points never reached"] = len(unreached) if is_whole else 0
    notes = [*one.notes, *other.notes, *(f"never reached: {name}" for name in unreached if is_whole)]
    told = [
        f"points: {', '.join(sorted(reached))}",
        f"cells: {', '.join(sorted(cells))}",
        f"rare cells that nobody reached: {', '.join(sorted(seldom - set(cells))) or 'none'}",
    ]
    return Verdict(figures, zeros, notes, told if is_whole else [])


_CONTROLS = (
    Control(
        name="who waits for mail listens to nobody",
        marker="mail-wait",
        change=Swap("$($), ", '"nobody", '),
        breaks="woken late though no ring was lost",
    ),
    Control(
        name="a wait for mail is measured by the wall clock",
        marker="mail-wait",
        change=Swap(
            ", $look, $wait)",
            ", lambda over=self._clock.now() + round($wait * 1e6): $look() if self._clock.now() < "
            'over else __import__("asyncio").sleep(0, Poll([])), $wait)',
        ),
        breaks="waits that ended early",
    ),
    Control(
        name="an answer goes out before the commit",
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
    Control(
        name="nobody looks after a delegation",
        marker="delegation-timer",
        change=Remove(),
        breaks="open for ever",
    ),
    Control(
        name="delegations do not hear of answers",
        marker="answer-closes-delegation",
        change=Remove(),
        breaks="answered and yet not ended by it",
    ),
    Control(
        name="who took a receipt is thought to wait",
        marker="sender-waits",
        change=Swap("> $()", ">= 0"),
        breaks="answers that did not come once",
    ),
    Control(
        name="an approval that was used can be used",
        marker="approval-used-check",
        change=Always(False),
        breaks="approvals used twice",
    ),
    Control(
        name="what was said under a key is not recognised",
        marker="turn-key",
        change=Swap(", $=$)", ")"),
        breaks="said to a thread and not there once",
    ),
    Control(
        name="chance is drawn, and not handed in",
        marker="jitter-source",
        change=Swap(", $($bits())", ', int.from_bytes(__import__("os").urandom(2)) % (1 << $bits())'),
        breaks=ANOTHER,
    ),
)

PROOF = Proof(
    name="simulate",
    claim="In a deterministic simulation with crashes, lost wake-ups and clock changes, all invariants hold for "
    "every seed.",
    shows="The whole server in one process, on a loop whose time jumps to the next timer and whose order of steps "
    "is drawn from the seed; no thread, no socket. A lead, three managers and six agents poll, claim, answer, "
    "decline, acknowledge, forget and give back; two more are pushed to over a net that delays, fails and brings "
    "things twice; delegations are given on, waited for, taken back and begun again, approvals climb and are "
    "decided, used and taken back, threads spawn, write to and wait for each other under two engines that fence "
    "each other off, persons speak and decide. The server dies between two steps or at a named point, up to three "
    "times a seed, and another one opens the same file; calls are cut before or after they were done, and senders hang "
    "up; half of all "
    "wake-ups get lost; the wall clock is set by an hour, and back; a slow disk commits in another turn. In the "
    "end nothing that was accepted is missing or there twice, what an agent has answered to a push is known to who "
    "asked, and once in its inbox if it is there, each delegation, approval and turn has ended once, "
    "every wait has come back neither early nor late, no timer is past due, no journal has a gap, nobody waits "
    "for what never comes; and the same seed plays the same game, to the last row of the journal. All crash points and "
    "all cells of the tables of states are reached, but for those that the game cannot come to, and for rare ones, in "
    "which two things have to meet that no run has to bring together: of these it tells how many it reached.",
    engines=("sqlite",),
    unit="seeds",
    sizes={"sqlite": 10_000},
    control_sizes={"sqlite": 24},
    controls={"sqlite": _CONTROLS},
    run=run,
    demands={"sqlite": {"events": 1_000_000}},
    simulated=("deaths", "answers cut", "pushes failed", "pushes doubled", "clock jumps"),
)
