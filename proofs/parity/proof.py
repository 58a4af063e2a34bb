"""`prove parity`: whichever way a task is given, what is written and told of it is the same.

What is tried stands in moves.py (scripts), playing.py and twins.py, which run in processes of their own.
"""

import asyncio
from collections import Counter

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.parity.twins import ROWS, SPOKEN, TOLD

# So many at a time have nothing to do with each other; so many of these at once.
_PART, _CHILDREN = 25, 2


async def run(setting: Setting) -> Verdict:
    """`setting.size` scripts."""
    free = asyncio.Semaphore(_CHILDREN)

    async def part(number: int, size: int) -> Verdict:
        own = replace(setting, size=size, seed=setting.seed + number, folder=setting.folder / f"part_{number}")
        async with free:
            return await in_a_child("proofs.parity.twins", own)

    sizes = [min(_PART, setting.size - start) for start in range(0, setting.size, _PART)]
    verdicts = await asyncio.gather(*(part(number, size) for number, size in enumerate(sizes)))
    figures: Counter[str] = Counter()
    zeros: Counter[str] = Counter()
    for each in verdicts:
        figures.update({name: int(count) for name, count in each.figures.items()})
        zeros.update(each.zeros)
    notes = [note for each in verdicts for note in each.notes]
    return Verdict(dict(figures), {name: zeros[name] for name in (ROWS, TOLD, SPOKEN)}, notes)


_EDGE = "edges/delegated.py"
_CONTROLS = (
    Control(
        name="message/send forgets the deadline",
        file=_EDGE,
        line="deadline_seconds=life_of(draft, self._limits.delegation_most_seconds),",
        by="deadline_seconds=None,",
        breaks=TOLD,
    ),
    Control(
        name="message/send passes on what was said to the server",
        file=_EDGE,
        line='metadata = {name: value for name, value in draft.message["metadata"].items() if name != _ASKS}',
        by='metadata = draft.message["metadata"]',
        breaks=ROWS,
    ),
    Control(
        name="message/send does not say that the task was given already",
        file=_EDGE,
        line='more: dict[str, Any] = {"idempotent_hit": True} if receipt.hit else {}',
        by="more: dict[str, Any] = {}",
        breaks=SPOKEN,
    ),
    Control(
        name="the tools forget the host's name of a call",
        file="wire/delegating.py",
        line='return f"{own}:{call}" if call else ""',
        by='return ""',
        breaks=ROWS,
    ),
    Control(
        name="the tools forget the deadline",
        file="wire/delegating.py",
        line='body["deadline_seconds"] = given.deadline_seconds',
        by="pass",
        breaks=TOLD,
    ),
)

PROOF = Proof(
    name="parity",
    shows="Random scripts of what a few agents do with tasks (begin, the same call again, its key with another task, a "
    "target out of reach, claims, answers of all sorts by reply, decline, message and update, progress, messages given "
    "back, an agent that is pushed to and answers in words, late, busy, broken or not at all, cancellations, retries, "
    "seats removed, time) are played twice: through REST, and through one of the other entrances (both tools of MCP by "
    "a client of MCP, A2A message/send, the shell), each on an engine that is drawn too. The rows of activities, "
    "delegations, their time lines and keys, obligations and dead letters, the whole journal and what callers are told "
    "are then the same on both sides, but for ids (by their first appearance), times (from the start), and how long "
    "somebody waits. What an entrance has no word for is left out of its scripts; the tables `CANNOT` and `UNSAID` say "
    "what and why. With `--engine sqlite` both sides are on SQLite.",
    engines=("postgres",),
    unit="scripts",
    sizes={"sqlite": 500, "postgres": 500},
    control_sizes={"sqlite": 24, "postgres": 24},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
