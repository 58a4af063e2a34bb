"""A system prompt: six parts, from what is most an agent's own to what is everybody's. Pure: gathered inputs in,
sections out; the same inputs give the same bytes.

1 prompt files, 2 parent context, 3 platform rules (rules, team, approvals, tools), 4 skills, 5 peers, 6 what to do when
a delegation fails. Above: rebuilding, the command line. Below: prompt_peers, prompt_words, the tools' documentation.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property, lru_cache

from msgspec import Struct

from molecule_core.agent import prompt_words as words
from molecule_core.agent.home import Home, HomeFile
from molecule_core.agent.neutral import visible
from molecule_core.agent.prompt_peers import BETWEEN, END, MARKS, SOME, Peer, PeerBlock, Piece, fenced
from molecule_core.wire import tooldocs
from molecule_core.wire.prompts import Build, Section, Trigger, hash_of, tokens_of
from molecule_core.wire.toolspec import Runtime, runtime_named, tool_name

_MOST_TITLE = 200
# Names of a team that the coordinator's text lists; the others stand among the peers.
_MOST_TEAM = 20


class Inputs(Struct, frozen=True, kw_only=True):
    """All that a prompt is made of. `parent_files` is None without a parent, or if they could not be read; `peers`, if
    it is not known who they are. `warnings`: what went wrong while this was gathered."""

    home: Home
    workspace_id: str = ""
    parent_id: str | None = None
    parent_files: tuple[HomeFile, ...] | None = None
    peers: tuple[Peer, ...] | None = ()
    warnings: tuple[str, ...] = ()


class Prompt:
    """A whole prompt. Nothing of it changes once it is made; `text`, `hash` and `sections` are made when asked for."""

    def __init__(
        self, before: tuple[Section, ...], peers: "_Peers", last: Section, *, budget: int, warnings: tuple[str, ...]
    ) -> None:
        self.budget = budget
        self.warnings = warnings
        self.tokens = sum(each.tokens for each in before) + peers.intro.tokens + peers.tokens + last.tokens
        self._before, self._peers, self._last = before, peers, last

    @cached_property
    def text(self) -> str:
        """What the model reads: the texts of all sections, an empty line between them."""
        peers = [each.text for each in self._peers.pieces]
        return BETWEEN.join([*(each.text for each in self._before), self._peers.intro.text, *peers, self._last.text])

    @cached_property
    def hash(self) -> str:
        """Equal if and only if the prompt is."""
        named = [each.hash for each in (*self._before, self._peers.intro, self._last)]
        return hashlib.sha256("".join(named).encode() + self._peers.digest).hexdigest()

    @cached_property
    def sections(self) -> list[Section]:
        """All of it in order; each peer is one."""
        return [*self._before, self._peers.intro, *self._peers.sections(), self._last]

    def build(self, trigger: Trigger) -> Build:
        """As it is told to the server."""
        return Build(
            sections=self.sections,
            trigger=trigger,
            hash=self.hash,
            tokens=self.tokens,
            budget=self.budget,
            warnings=[each[:500] for each in self.warnings],
        )


class _Peers(Struct, frozen=True):
    """The peers as they were when a prompt was made."""

    intro: Section
    pieces: tuple[Piece, ...] = ()
    tokens: int = 0

    @property
    def text(self) -> str:
        """All of them."""
        return BETWEEN.join([each.text for each in self.pieces])

    @property
    def digest(self) -> bytes:
        """Names their text."""
        return b"".join([each.digest for each in self.pieces])

    def sections(self) -> Iterator[Section]:
        mark = self.intro.shortened
        whole = self.text
        # No peer's text holds the end of one, so it can be cut there.
        for each in whole.removesuffix(END).split(END + BETWEEN) if whole else ():
            head, name = each.split("\n", 2)[:2]
            id_ = head.split('"')[1]
            yield section(5, "peer", name.removeprefix("name: "), f"workspace:{id_}", each + END, mark)


class Assembly:
    """Puts prompts together, and keeps what stays: one peer that changes costs little, whatever their number."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        runtime = runtime_named(inputs.home.runtime)
        self._runtime = runtime
        self._before = tuple(_before(inputs, runtime))
        self._last = section(6, "failures", "When a delegation fails", "molecule", words.FAILED)
        budget = inputs.home.budget
        own = sum(each.tokens for each in self._before) + self._last.tokens
        room = budget - own - tokens_of(1200)  # the intro with its longest note
        self._block = None if inputs.peers is None else PeerBlock(inputs.peers, room)
        warnings = (*inputs.home.warnings, *inputs.warnings)
        if room < 0:
            warnings += (f"the agent's own files take {own} of {budget} tokens: peers are left out, nothing else is",)
        self._warnings = warnings

    def put(self, peer: Peer) -> bool:
        """A peer says other things of itself now. False: it is none of these; gather anew."""
        return self._block is not None and self._block.put(peer)

    def prompt(self, warnings: tuple[str, ...] = ()) -> Prompt:
        """The prompt as it is now. `warnings`: what went wrong beside it."""
        budget, warnings = self._inputs.home.budget, (*self._warnings, *warnings)
        return Prompt(self._before, self._peers(), self._last, budget=budget, warnings=warnings)

    def _peers(self) -> _Peers:
        block = self._block
        if not block:
            text = words.NOT_KNOWN if block is None else words.NOBODY
            return _Peers(_intro(text.format(list=tool_name("list_peers", self._runtime)), None))
        budget = self._inputs.home.budget
        text, mark = _introduced(block.level, block.shown, len(block), budget, self._runtime)
        return _Peers(_intro(text, mark), block.pieces, block.tokens)


def assemble(inputs: Inputs) -> Prompt:
    """The prompt of these inputs."""
    return Assembly(inputs).prompt()


def section(part: int, kind: str, title: str, source: str, text: str, shortened: str | None = None) -> Section:
    """A section with its size."""
    size = len(text.encode())
    return Section(
        part=part,
        kind=kind,
        title=fenced(title, _MOST_TITLE),
        source=source[:500],
        text=text,
        bytes=size,
        tokens=tokens_of(size),
        hash=hash_of(text),
        shortened=shortened,
    )


@lru_cache(64)
def _intro(text: str, shortened: str | None) -> Section:
    return section(5, "peers", "Available workspaces", "molecule", text, shortened)


@lru_cache(64)
def _introduced(level: int, shown: int, count: int, budget: int, runtime: Runtime) -> tuple[str, str | None]:
    mark = MARKS[level]
    if level == SOME:
        mark = f"{mark}; {count - shown} of {count} workspaces"
    return words.peers_intro(level, shown=shown, count=count, budget=budget, runtime=runtime), mark


# -- parts one to four -------------------------------------------------------------------------------------------------


def _before(inputs: Inputs, runtime: Runtime) -> Iterator[Section]:
    home = inputs.home
    for each in home.prompts:
        yield section(1, "prompt", each.path, f"file:{each.path}", each.text)
    yield from _parent(inputs)
    for each in home.rules:
        yield section(3, "rules", each.path, f"file:{each.path}", each.text)
    team = [each for each in inputs.peers or () if each.child]
    if team:
        names = ", ".join(fenced(each.name, 120) or each.id for each in team[:_MOST_TEAM])
        names += f" and {len(team) - _MOST_TEAM} more" if len(team) > _MOST_TEAM else ""
        yield section(3, "coordinator", "Your team", "molecule", words.COORDINATOR.format(names=names))
    if home.approval_rules:
        yield section(
            3, "approvals", "What needs approval", "file:config.yaml", words.approval_text(home.approval_rules)
        )
    if home.tools:
        yield _tools(runtime, home.only)
    for skill in home.skills:
        text = f"## Skill: {skill.name}\n\n{skill.body}\n\nIts files are in {skill.folder}."
        yield section(4, "skill", skill.name, f"skill:{skill.name}", text)


def _parent(inputs: Inputs) -> Iterator[Section]:
    """One section a file, under one heading."""
    source, head = f"workspace:{inputs.parent_id}", words.PARENT + BETWEEN
    for each in inputs.parent_files or ():
        name = fenced(each.path, _MOST_TITLE)
        yield section(2, "parent", name, f"{source}/{name}", f"{head}### {name}\n\n{words.framed(visible(each.text))}")
        head = ""


@lru_cache(8)
def _tools(runtime: Runtime, only: tuple[str, ...] | None) -> Section:
    text = f"{tooldocs.a2a_with_mcp(runtime, only)}\n{tooldocs.inbox_and_memory(runtime, only)}".strip()
    return section(3, "tools", "Tools", "molecule", text)
