"""`prove templates`: whatever somebody writes as a template, it is refused with line and reason, or it is harmless.

What is tried stands in scribes.py, which runs in a process of its own.
"""

from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict


async def run(setting: Setting) -> Verdict:
    """The corpus of escapes, bombs and mistakes, and `setting.size` random templates."""
    return await in_a_child("proofs.templates.scribes", setting)


_CONTROLS = (
    Control(
        name="the parts of a template are not counted",
        marker="template-nodes",
        change=Always(False),
        breaks="known bombs and escapes accepted",
    ),
    Control(
        name="a loop may stand in another",
        marker="nested-loop",
        change=Always(False),
        breaks="known bombs and escapes accepted",
    ),
    Control(
        name="the texts of a template are not counted together",
        marker="template-bytes",
        change=Always(False),
        breaks="known bombs and escapes accepted",
    ),
    Control(
        name="what a loop does is not counted",
        marker="template-steps",
        change=Always(False),
        breaks="known bombs and escapes accepted",
    ),
    Control(
        name="what was said is not measured",
        marker="text-length",
        change=Always(False),
        breaks="words over the bound",
    ),
    Control(
        name="values are read as templates",
        marker="values-not-parsed",
        change=Swap('"".join($pieces)', '"".join($pieces).replace("{{ kind }}", message.kind)'),
        breaks="values read as templates",
    ),
    Control(
        name="a condition of one message is remembered for all",
        marker="render-cache-key",
        change=Swap(", not $...)", ")"),
        breaks="words that differ from those made anew",
    ),
)

PROOF = Proof(
    name="templates",
    claim="No instruction template escapes its language, takes too long, or renders more than its limit.",
    shows="Every known escape from a sandbox, every known bomb and every mistake of a list is refused with line and "
    "reason. Then random templates are made, most of them of pieces of the language, some of them broken by chance: "
    "each is refused with a line that it has and a reason, or it is accepted, and then it is rendered for random "
    "agents and messages whose values are themselves pieces of templates. No accepted one says more than "
    "`instruction_bytes` or takes 100 ms of CPU, none breaks down, none reads a value as a template, and what is "
    "remembered between messages says the same as what is made anew.",
    engines=("sqlite",),
    unit="random templates",
    sizes={"sqlite": 300_000},
    control_sizes={"sqlite": 3_000},
    controls={"sqlite": _CONTROLS},
    run=run,
    hostile=("refused",),
)
