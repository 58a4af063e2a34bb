"""`prove http`: whatever strangers and friends send, a server answers as its own document says, and goes on.

The server is a process of its own; the storms (storm.py) know its address, its document and what it says of itself.
"""

from proofs.harness.controls import Control
from proofs.harness.mutations import Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.http.storm import BENT, BREAKS, BROKE, CALLS, CARDS, FRAMES, STUCK, UNFIT, Storm


async def run(setting: Setting) -> Verdict:
    """`setting.size` requests and frames of all five kinds. RuntimeError: the server does not start."""
    return await Storm(setting).play()


_CONTROLS = (
    Control(
        name="JSON that is too deep for its reader is a surprise",
        marker="deep-json",
        change=Swap("RecursionError", "ZeroDivisionError"),
        breaks=BROKE,
    ),
    Control(
        name="a refusal leaves out its status",
        marker="problem-status",
        change=Swap('"status": $,', ""),
        breaks=BREAKS,
    ),
    Control(
        name="a route answers with a status that it does not declare",
        marker="workspace-status",
        change=Swap("))", "), 206)"),
        breaks=BREAKS,
    ),
    Control(
        name="who listened and is gone is told on",
        marker="sink-leaves",
        change=Remove(),
        breaks=STUCK,
    ),
)

PROOF = Proof(
    name="http",
    claim="No malformed request, JSON-RPC call, card or WebSocket frame causes a 5xx, a leak or an undocumented "
    "answer.",
    shows="A real server is asked by six callers (nobody, the operator, an owner, a viewer, two workspaces) in "
    "five ways: requests that schemathesis makes for each route from the server's own document, three of five "
    "fitting it, about things that mostly are there; requests that were answered, bent in their first line, "
    "headers, framing, bytes or body, and sent as bytes; calls of JSON-RPC to the A2A and MCP routes broken in one "
    "place or in their text; agent cards broken likewise, said by their agents when they register and later; frames "
    "of WebSockets broken in their bits, lengths, masks, order or content. Each answer has a status, a type and a "
    "body that the document declares for its route, but for bent requests, whose refusals are refusals of ours; "
    "whoever sends a whole request is answered, whoever breaks a frame is told why or goes on; no answer is 5xx. "
    "After every 25th somebody asks as one should and is answered so, what was kept is read again. Once all have "
    "gone, the server's own figures of polls, waits, channels, open files and queues are as before, it has logged "
    "no error, and ends when told to.",
    engines=("sqlite",),
    unit="requests and frames",
    sizes={"sqlite": 67_000, "postgres": 13_400},
    control_sizes={"sqlite": 2_000, "postgres": 2_000},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=(UNFIT, BENT, CALLS, CARDS, FRAMES),
)
