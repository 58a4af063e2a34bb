"""The system prompt as a sink: what peers and a parent say of themselves stands in it, and its sections stay."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from molecule_core.agent.prompt.assembly import Prompt, PromptInputs, assemble_prompt
from molecule_core.agent.prompt.home import Home, HomeFile
from molecule_core.agent.prompt.peers import PromptPeer, peer_from_row

_PEERS, _FILES, _SKILLS = 3, 2, 2
# Of an agent that has everything a prompt is made of, and room for all of it.
_HOME = Home(
    prompts=(HomeFile("system-prompt.md", "You are somebody."),),
    rules=(HomeFile("rules.md", "Never lie."),),
    approval_rules=({"action": "delete*"},),
    budget=1_000_000,
)
# What any reader takes for the end of a line.
_LINES = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_FENCE = re.compile(r"(`{3,})text")
_SIGNS = re.compile(r"#{1,6} ?|</?peer\b|</?(?:instructions|body|channel)\b")


class Prompter:
    """Makes prompts of names and texts, and compares each with one of plain ones."""

    def __init__(self) -> None:
        self._plain = self._prompt(lambda: "x", lambda: "x")

    def is_itself(self, name: Callable[[], str], text: Callable[[], str]) -> bool:
        """Whether a prompt of hostile names and texts has the sections of a plain one, in its order, also for somebody
        who reads it as plain text."""
        return self._prompt(name, text) == self._plain

    def _prompt(self, name: Callable[[], str], text: Callable[[], str]) -> tuple[list[tuple[int, str]], list[str]]:
        files = tuple(HomeFile(name(), text()) for _ in range(_FILES))
        peers = tuple(_peer(place, name) for place in range(_PEERS))
        made = assemble_prompt(
            PromptInputs(home=_HOME, workspace_id="w", parent_id="w-0", parent_files=files, peers=peers)
        )
        return _sections(made), [*_skeleton(made.text)]


def _peer(place: int, name: Callable[[], str]) -> PromptPeer:
    """As the server lists it; the last one stands below."""
    skills: list[Any] = [{"name": name(), "description": name()} for _ in range(_SKILLS)]
    card = {"description": name(), "skills": [*skills, name()]}
    row = {"id": f"w-{place}", "name": name(), "role": name(), "status": "online", "agent_card": card}
    found = peer_from_row({**row, "parent_id": "w" if place == _PEERS - 1 else None}, "w")
    if found is None:
        raise RuntimeError("a peer that the server lists is none")
    return found


def _sections(prompt: Prompt) -> list[tuple[int, str]]:
    return [(each.part, each.kind) for each in prompt.sections]


def _skeleton(text: str) -> Iterator[str]:
    """What gives a prompt its shape: headings and fences of peers, but nothing between the fences of a text."""
    fence = ""
    for line in _LINES.split(text):
        if fence:
            fence = "" if line == fence else fence
            yield from ("end of a text",) * (not fence)
        elif opened := _FENCE.fullmatch(line):
            fence = opened[1]
            yield "text"
        elif found := _SIGNS.match(line):
            # Of a heading of the third level the rest is the name of a file.
            yield found[0].strip() if found[0].startswith(("###", "<")) else line
