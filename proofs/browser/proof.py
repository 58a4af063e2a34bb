"""`prove browser`: what others say is words to the page, and pages of other origins cannot act for who is logged in.

The browser and the server (looking.py) run in a process of their own, so that a control's copy of the package can be
put in its way.
"""

from proofs.browser.crossing import CROSSED, HOSTS
from proofs.browser.looking import BROKEN
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MOST_SECONDS = 900.0


async def run(setting: Setting) -> Verdict:
    """`setting.size` texts, on every surface, and what another origin can try."""
    return await in_a_child("proofs.browser.looking", setting, most_seconds=_MOST_SECONDS)


_CONTROLS = (
    Control(
        name="any page may open a live channel",
        file="edges/auth.py",
        line="if not own and (origin is not None or upgrade):",
        by="if False:",
        breaks=CROSSED,
    ),
    Control(
        name="any name is the server's",
        file="edges/auth.py",
        line="raise WrongHost(host=text[:200])",
        by="return",
        breaks=HOSTS,
    ),
    Control(
        name="the page may run what is written into it",
        file="edges/canvas.py",
        line="b\"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \"",
        by="b\"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self'; connect-src 'self'; \"",
        breaks=BROKEN,
    ),
)

PROOF = Proof(
    name="browser",
    shows="In a real Chromium: texts that want to run, fetch, lead away or look like something else (those of the "
    "page's own tests, doubled, shouted, torn by hidden characters, framed and told by numbers) are said by agents and "
    "by people, and are names, roles, cards, tasks at hand, delegations with their results, approvals and names of "
    "files. Each is shown as the words that it is; nothing runs, nothing that a text brought along stands in the page, "
    "no box opens, nobody else is asked, no rule of the content security policy is broken. Then a page of another "
    "origin tries fourteen ways to read or to write for somebody who is logged in next door, and others ask for the "
    "server under names that are not its own.",
    engines=("sqlite",),
    unit="texts",
    sizes={"sqlite": 300},
    control_sizes={"sqlite": 6},
    controls={"sqlite": _CONTROLS},
    run=run,
    hostile=("shown", "ways from another origin", "host names"),
)
