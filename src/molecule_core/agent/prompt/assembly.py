"""Assembles a system prompt. Pure: equal inputs give equal bytes.

Parts, from the agent's own to the most general: 1 prompt files, 2 parent context, 3 platform rules (rules, team,
approvals, tools), 4 skills, 5 peers, 6 what to do when a delegation fails.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property, lru_cache

from msgspec import Struct

from molecule_core.agent.prompt import texts
from molecule_core.agent.prompt.home import Home, HomeFile
from molecule_core.agent.prompt.peers import (
    LEVEL_SOME,
    PEER_END,
    SEPARATOR,
    SHORTENED_MARKS,
    PeerBlock,
    PeerChunk,
    PromptPeer,
    escape_fence,
)
from molecule_core.agent.sanitize import strip_invisible
from molecule_core.tools import docs
from molecule_core.tools.host_context import DELEGATION_FAILED, PARENT_HEADING, code_fence
from molecule_core.wire.schemas.prompts import BuildTrigger, PromptBuild, PromptSection, estimate_tokens, hash_text
from molecule_core.wire.schemas.runtimes import Runtime, runtime_for_name, tool_name

_MAX_TITLE = 200
# Names listed in the coordinator's text; further ones are only among the peers.
_MAX_TEAM_NAMES = 20


class PromptInputs(Struct, frozen=True, kw_only=True):
    """Inputs of a prompt.

    `parent_files`: None without a parent, or if they could not be loaded. `peers`: None if unknown. `warnings`:
    problems while loading.
    """

    home: Home
    workspace_id: str = ""
    parent_id: str | None = None
    parent_files: tuple[HomeFile, ...] | None = None
    peers: tuple[PromptPeer, ...] | None = ()
    warnings: tuple[str, ...] = ()


class Prompt:
    """An immutable prompt; `text`, `hash` and `sections` are built on first use."""

    def __init__(
        self,
        leading: tuple[PromptSection, ...],
        peers: "_PeerSections",
        closing: PromptSection,
        *,
        budget: int,
        warnings: tuple[str, ...],
    ) -> None:
        self.budget = budget
        self.warnings = warnings
        self.tokens = sum(each.tokens for each in leading) + peers.intro.tokens + peers.tokens + closing.tokens
        self._leading, self._peers, self._closing = leading, peers, closing

    @cached_property
    def text(self) -> str:
        """Return what the model reads: the texts of all sections, separated by an empty line."""
        peers = [each.text for each in self._peers.chunks]
        return SEPARATOR.join(
            [*(each.text for each in self._leading), self._peers.intro.text, *peers, self._closing.text]
        )

    @cached_property
    def hash(self) -> str:
        """Return the hash; equal if and only if the prompts are equal."""
        hashes = [each.hash for each in (*self._leading, self._peers.intro, self._closing)]
        return hashlib.sha256("".join(hashes).encode() + self._peers.digest).hexdigest()

    @cached_property
    def sections(self) -> list[PromptSection]:
        """Return all sections in order; each peer is one."""
        return [*self._leading, self._peers.intro, *self._peers.sections(), self._closing]

    def build(self, trigger: BuildTrigger) -> PromptBuild:
        """Return the prompt as reported to the server."""
        return PromptBuild(
            sections=self.sections,
            trigger=trigger,
            hash=self.hash,
            tokens=self.tokens,
            budget=self.budget,
            warnings=[each[:500] for each in self.warnings],
        )


class _PeerSections(Struct, frozen=True):
    """Peers at the time a prompt was built."""

    intro: PromptSection
    chunks: tuple[PeerChunk, ...] = ()
    tokens: int = 0

    @property
    def text(self) -> str:
        """Return the text of all peers."""
        return SEPARATOR.join([each.text for each in self.chunks])

    @property
    def digest(self) -> bytes:
        """Return a digest of the text."""
        return b"".join([each.digest for each in self.chunks])

    def sections(self) -> Iterator[PromptSection]:
        mark = self.intro.shortened
        whole = self.text
        # No peer's text contains the end of a fence, so the text can be split there.
        for each in whole.removesuffix(PEER_END).split(PEER_END + SEPARATOR) if whole else ():
            head, name = each.split("\n", 2)[:2]
            id_ = head.split('"')[1]
            yield make_section(5, "peer", name.removeprefix("name: "), f"workspace:{id_}", each + PEER_END, mark)


class PromptAssembler:
    """Builder of prompts with a cache of unchanged parts, so that a changed peer costs little."""

    def __init__(self, inputs: PromptInputs) -> None:
        self._inputs = inputs
        runtime = runtime_for_name(inputs.home.runtime)
        self._runtime = runtime
        self._leading = tuple(_leading_sections(inputs, runtime))
        self._closing = make_section(6, "failures", "When a delegation fails", "molecule", DELEGATION_FAILED)
        budget = inputs.home.budget
        own_tokens = sum(each.tokens for each in self._leading) + self._closing.tokens
        capacity = budget - own_tokens - estimate_tokens(1200)  # the intro with its longest note
        self._peer_block = None if inputs.peers is None else PeerBlock(inputs.peers, capacity)
        warnings = (*inputs.home.warnings, *inputs.warnings)
        if capacity < 0:
            warnings += (
                f"the agent's own files take {own_tokens} of {budget} tokens: the peers are omitted, nothing else",
            )
        self._warnings = warnings

    def update_peer(self, peer: PromptPeer) -> bool:
        """Update one peer; return False if it is not among the peers, so that all inputs must be loaded again."""
        return self._peer_block is not None and self._peer_block.update_peer(peer)

    def build_prompt(self, warnings: tuple[str, ...] = ()) -> Prompt:
        """Build the current prompt. `warnings`: further problems to report."""
        budget, warnings = self._inputs.home.budget, (*self._warnings, *warnings)
        return Prompt(self._leading, self._peer_sections(), self._closing, budget=budget, warnings=warnings)

    def _peer_sections(self) -> _PeerSections:
        block = self._peer_block
        if not block:
            text = texts.PEERS_UNKNOWN if block is None else texts.NO_PEERS
            return _PeerSections(_peers_intro(text.format(list=tool_name("list_peers", self._runtime)), None))
        budget = self._inputs.home.budget
        text, mark = _intro_for_level(block.level, block.included_count, len(block), budget, self._runtime)
        return _PeerSections(_peers_intro(text, mark), block.chunks, block.tokens)


def assemble_prompt(inputs: PromptInputs) -> Prompt:
    """Build the prompt of these inputs."""
    return PromptAssembler(inputs).build_prompt()


def make_section(
    part: int, kind: str, title: str, source: str, text: str, shortened: str | None = None
) -> PromptSection:
    """Create a section with its size, token estimate and hash."""
    size = len(text.encode())
    return PromptSection(
        part=part,
        kind=kind,
        title=escape_fence(title, _MAX_TITLE),
        source=source[:500],
        text=text,
        bytes=size,
        tokens=estimate_tokens(size),
        hash=hash_text(text),
        shortened=shortened,
    )


@lru_cache(64)
def _peers_intro(text: str, shortened: str | None) -> PromptSection:
    return make_section(5, "peers", "Available workspaces", "molecule", text, shortened)


@lru_cache(64)
def _intro_for_level(level: int, shown: int, count: int, budget: int, runtime: Runtime) -> tuple[str, str | None]:
    mark = SHORTENED_MARKS[level]
    if level == LEVEL_SOME:
        mark = f"{mark}; {count - shown} of {count} workspaces"
    return texts.peers_intro(level, shown=shown, count=count, budget=budget, runtime=runtime), mark


# -- parts one to four -------------------------------------------------------------------------------------------------


def _leading_sections(inputs: PromptInputs, runtime: Runtime) -> Iterator[PromptSection]:
    home = inputs.home
    for each in home.prompts:
        yield make_section(1, "prompt", each.path, f"file:{each.path}", each.text)
    yield from _parent_sections(inputs)
    for each in home.rules:
        yield make_section(3, "rules", each.path, f"file:{each.path}", each.text)
    team = [each for each in inputs.peers or () if each.is_child]
    if team:
        names = ", ".join(escape_fence(each.name, 120) or each.id for each in team[:_MAX_TEAM_NAMES])
        names += f" and {len(team) - _MAX_TEAM_NAMES} more" if len(team) > _MAX_TEAM_NAMES else ""
        yield make_section(3, "coordinator", "Your team", "molecule", texts.COORDINATOR.format(names=names))
    if home.approval_rules:
        yield make_section(
            3, "approvals", "What needs approval", "file:config.yaml", texts.approval_text(home.approval_rules)
        )
    if home.has_tools:
        yield _tools_section(runtime, home.tool_names)
    for skill in home.skills:
        text = f"## Skill: {skill.name}\n\n{skill.body}\n\nIts files are in {skill.folder}."
        yield make_section(4, "skill", skill.name, f"skill:{skill.name}", text)


def _parent_sections(inputs: PromptInputs) -> Iterator[PromptSection]:
    """Yield one section per file, the first with the heading."""
    source, head = f"workspace:{inputs.parent_id}", PARENT_HEADING + SEPARATOR
    for each in inputs.parent_files or ():
        name = escape_fence(each.path, _MAX_TITLE)
        yield make_section(
            2, "parent", name, f"{source}/{name}", f"{head}### {name}\n\n{code_fence(strip_invisible(each.text))}"
        )
        head = ""


@lru_cache(8)
def _tools_section(runtime: Runtime, only: tuple[str, ...] | None) -> PromptSection:
    text = f"{docs.messaging_docs(runtime, only)}\n{docs.inbox_and_memory_docs(runtime, only)}".strip()
    return make_section(3, "tools", "Tools", "molecule", text)
