"""`prove envelope`: whatever somebody writes into a message, a name or a card, what an agent is shown parses to exactly
one instructions and one body.

What is tried stands in hostile.py, which runs in a process of its own.
"""

import asyncio
from collections import Counter

from msgspec.structs import replace

from proofs.envelope.hostile import BROKEN, CARDS, CASES, DOUBLED, FORGED, PROMPTS, SECTIONS, TOOLS
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

# Processes side by side: the cases have nothing to do with each other.
_CHILDREN = 2
MOST = "more than half are broken"


async def run(setting: Setting) -> Verdict:
    """`setting.size` cases, each through every form."""
    share = setting.size // _CHILDREN
    parts = [replace(setting, size=share, seed=setting.seed + number) for number in range(_CHILDREN)]
    verdicts = await asyncio.gather(*(in_a_child("proofs.envelope.hostile", part) for part in parts))
    zeros = sum((Counter(each.zeros) for each in verdicts), Counter[str]())
    figures = {name: sum(int(each.figures[name]) for each in verdicts) for name in (CASES, CARDS, PROMPTS)}
    counted = {name: zeros[name] for name in verdicts[0].zeros}
    notes = [note for each in verdicts for note in each.notes]
    return Verdict({**figures}, {**counted, MOST: int(zeros[BROKEN] * 2 > figures[CASES])}, notes)


_CONTROLS = (
    Control(
        name="the naive builder: text goes between the tags as it is",
        marker="text-escaping",
        change=Swap("$text = $...", "return $text"),
        breaks=MOST,
    ),
    Control(
        name="text is escaped, and what XML cannot write is left in it",
        marker="illegal-characters",
        change=Swap("$.sub($, $text)", "$text"),
        breaks=BROKEN,
    ),
    Control(
        name="ends of lines in attributes are written as they are",
        marker="attribute-escaping",
        change=Swap("""f'"{$...($, $plain))}"'""", """'"' + $plain.replace('"', "&quot;") + '"'"""),
        breaks=BROKEN,
    ),
    Control(
        name="signs that look like a tag are left in the text",
        marker="lookalikes-escaped",
        change=Always(True),
        breaks=DOUBLED,
    ),
    Control(
        name="a sender's own instructions are passed on",
        marker="sender-instructions",
        change=Remove(),
        breaks=FORGED,
    ),
    Control(
        name="an agent has all tools, whatever its card says",
        marker="card-tools",
        change=Swap("map($bare, $plain)", "[*map($bare, $plain), *ALL_TOOL_NAMES]"),
        breaks=TOOLS,
    ),
    Control(
        name="peers stand in a prompt as they describe themselves",
        marker="peer-text-escaped",
        change=Swap("$($text, $most).replace($...)", "$text[:$most].encode(errors='replace').decode()"),
        breaks=SECTIONS,
    ),
)

PROOF = Proof(
    name="envelope",
    claim="No text, name or card can forge or break the markup around a message or a system prompt.",
    shows="Hostile bodies, names, roles, ids, file names and agent cards (our own tags in every spelling, references, "
    "CDATA, comments, control characters, lone surrogates, signs that look like `<`, all ends of lines, members of "
    "JSON, words of templates) go through every form in which a message is shown with its instructions: the whole "
    "channel tag, the text of a projected row, the metadata of a push, the object beside a message; and into a system "
    "prompt, as names, roles, descriptions and skills of peers and as files of a parent. Templates are rendered as the "
    "product renders them. XML is read back by expat, JSON by the standard library: one instructions and one body, the "
    "body as it was after cleaning (by the judge's own reading of XML 1.0), no attribute twice, never `source`, each "
    "tag once for whoever reads it as plain text, the same words in both forms, nothing of a sender's own "
    "instructions, no tool that no text of the card names (in any spelling of a host); and the sections of each prompt "
    "are as many and in the order as with plain names, also for whoever reads it as plain text.",
    engines=("sqlite",),
    unit="cases",
    sizes={"sqlite": 1_200_000},
    control_sizes={"sqlite": 2_000},
    controls={"sqlite": _CONTROLS},
    run=run,
    hostile=(CASES,),
)
