"""`prove parity`: whichever way a task is given, what is written and told of it is the same.

What is tried stands in moves.py (scripts), playing.py and twins.py, which run in processes of their own.
"""

import asyncio
from collections import Counter

from msgspec.structs import replace

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
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


_CONTROLS = (
    Control(
        name="message/send forgets the deadline",
        marker="delegation-deadline-passed",
        change=Swap("deadline_seconds=$($, $)", "deadline_seconds=None"),
        breaks=TOLD,
        only="delegations",
    ),
    Control(
        name="message/send passes on what was said to the server",
        marker="server-words-removed",
        change=Always(True),
        breaks=ROWS,
        only="delegations",
    ),
    Control(
        name="message/send does not say that the task was given already",
        marker="idempotent-hit-answered",
        change=Always(False),
        breaks=SPOKEN,
        only="delegations",
    ),
    Control(
        name="the tools forget the host's name of a call",
        marker="host-call-name",
        change=Always(False),
        breaks=ROWS,
        only="delegations",
    ),
    Control(
        name="the tools forget the deadline",
        marker="tool-deadline",
        change=Remove(),
        breaks=TOLD,
        only="delegations",
    ),
    Control(
        name="the tools forget the intent of what is said to a peer",
        marker="message-intent",
        change=Swap('"intent": $, ', ""),
        breaks=ROWS,
        only="messages",
    ),
    Control(
        name="the tools pass an answer on as one that is on its way",
        marker="answer-in-progress",
        change=Always(True),
        breaks=ROWS,
        only="messages",
    ),
    Control(
        name="the tools forget for whom a memory is",
        marker="memory-scope",
        change=Swap('"scope": "scope", "namespace": "namespace"}', '"namespace": "namespace"}'),
        breaks=ROWS,
        only="memory",
    ),
    Control(
        name="the tools look for other words than they were given",
        marker="memory-query",
        change=Swap('"query": "q", ', ""),
        breaks=SPOKEN,
        only="memory",
    ),
    Control(
        name="the tools forget what a request for leave costs",
        marker="approval-cost",
        change=Remove(),
        breaks=ROWS,
        only="approvals",
    ),
    Control(
        name="the tools forget what an approval was changed to",
        marker="approval-details",
        change=Remove(),
        breaks=ROWS,
        only="approvals",
    ),
    Control(
        name="the command line withdraws without saying why",
        marker="withdraw-note",
        change=Swap('"note": $', '"note": ""'),
        breaks=ROWS,
        only="approvals",
    ),
    Control(
        name="the tools forget what an agent is that they spawn",
        marker="spawn-role",
        change=Swap('"approval_id"', '"approval_id", "role"'),
        breaks=ROWS,
        only="threads",
    ),
    Control(
        name="the command line starts a thread without its first words",
        marker="first-input",
        change=Swap(", $=$() if $...)", ")"),
        breaks=ROWS,
        only="threads",
    ),
)

PROOF = Proof(
    name="parity",
    claim="The same script leaves the same rows and events through REST, MCP, A2A and the command line, on both "
    "engines.",
    shows="Random scripts of what a few agents do are played twice: through REST, and through one of the other "
    "entrances (both tools of MCP that give tasks, by a client of MCP, A2A message/send, the shell), each on an engine "
    "that is drawn too. Most are about tasks: begin, the same call again, its key with another task, a target out of "
    "reach, claims, answers of all sorts by reply, decline, message and update, progress, messages given back, an "
    "agent that is pushed to and answers in words, late, busy, broken or not at all, cancellations, retries, seats "
    "removed, time. The others are about messages (of a person, of peers, answers with and without handle, declined, "
    "on their way, acknowledged, notices, options, broadcasts), approvals (asked for, decided by a workspace and by a "
    "person, explained, withdrawn, used, rules), memory (kept, recalled, forgotten, keys with compare-and-set) and "
    "threads (started, spoken to, forked, stopped, closed, resumed, agents that are spawned and written to). The rows "
    "of activities, delegations, their time lines and keys, obligations, dead letters, approvals with holders, keys "
    "and rules, memories, keys and versions, threads with entries, bases, turns, mail and keys, the whole journal and "
    "what callers are told are then the same on both sides, but for ids (by their first appearance), times (from the "
    "start), the number of a memory, and how long somebody waits. What an entrance has no word for is left out of its "
    "scripts, or done through REST on both sides; the tables `CANNOT` and `UNSAID` say what and why. Of the scripts by "
    "the shell about a fifth are played by processes of their own, over argv, environment and standard streams. With "
    "`--engine sqlite` both sides are on SQLite.",
    engines=("postgres",),
    unit="scripts",
    sizes={"sqlite": 500, "postgres": 500},
    control_sizes={"sqlite": 24, "postgres": 24},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
)
