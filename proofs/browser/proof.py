"""`prove browser`: what others say is words to the page, and pages of other origins cannot act for who is logged in.

The browser and the server (looking.py) run in a process of their own, so that a control's copy of the package can be
put in its way.
"""

from proofs.browser.crossing import CROSSED, HOSTS
from proofs.browser.looking import BROKEN, LED, RAN
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MOST_SECONDS = 900.0


async def run(setting: Setting) -> Verdict:
    """`setting.size` texts, on every surface, and what another origin can try."""
    return await in_a_child("proofs.browser.looking", setting, most_seconds=_MOST_SECONDS)


# As it is built, the page sets texts by one way: here they become markup, and the browser has no rule against it.
_SENT_AS_MARKUP = Swap(
    "$answer($content, $headers=tuple($list), $type=$kind, $policy=$)",
    '$answer(self._files[path].replace(b".textContent=", b".innerHTML="), '
    """$headers=tuple($list[:2]), $type=$kind, $policy=b"default-src * data: 'unsafe-inline'")""",
)
_CONTROLS = (
    Control(
        name="any page may open a live channel",
        marker="request-origin",
        change=Always(False),
        breaks=CROSSED,
    ),
    Control(
        name="any name is the server's",
        marker="request-host",
        change=Swap("raise $...", "return"),
        breaks=HOSTS,
    ),
    Control(
        name="the page may run what is written into it",
        marker="canvas-script-policy",
        change=Swap(
            "script-src 'self'; style-src 'self'; img-src 'self' data:;",
            "script-src 'self' 'unsafe-inline'; style-src 'self';",
        ),
        breaks=BROKEN,
    ),
    Control(
        name="what others say is markup to the page",
        marker="canvas-answer-policy",
        change=_SENT_AS_MARKUP,
        breaks=RAN,
    ),
    Control(
        name="what others say is markup, and leads away",
        marker="canvas-answer-policy",
        change=_SENT_AS_MARKUP,
        breaks=LED,
    ),
)

PROOF = Proof(
    name="browser",
    claim="No text of an agent or person runs in the page, and no other origin can act for a logged-in person.",
    shows="In a real Chromium: texts that want to run, fetch, lead away or look like something else (those of the "
    "page's own tests, doubled, shouted, torn by hidden characters, framed and told by numbers). All are said by "
    "agents and by people in chats, are tasks and results of delegations, there and in full, actions of approvals in "
    "the list, reasons and details of approvals in full, names of files, inputs, answers and base instructions of "
    "threads, skills and their words on a card, names of people and of agents (where the server refuses what has "
    "hidden characters or a second line). The first word of each is shown; nothing runs, nothing that a text "
    "brought along stands in the page, no box opens, nobody else is asked, no rule of the content security policy is "
    "broken. Then a page of another origin tries fourteen ways to read or to write for somebody who is logged in next "
    "door, and others ask for the server under names that are not its own.",
    engines=("sqlite",),
    unit="texts",
    sizes={"sqlite": 300},
    control_sizes={"sqlite": 15},
    controls={"sqlite": _CONTROLS},
    run=run,
    hostile=("shown", "refused", "ways from another origin", "host names"),
)
