"""System prompts as an agent tells them and people look at them: sections, builds, and what differs between two.

Above: the agent that puts them together, the server that keeps them, the command line. Below: nothing.
"""

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

PartNumber = Annotated[int, Meta(ge=1, le=6)]
"""Which of the six parts of a prompt, from specific to general: prompt files, parent context, platform rules, skills,
peers, what to do when a delegation fails."""
WholeNumber = Annotated[int, Meta(ge=0, le=1 << 53)]
ShortText = Annotated[str, Meta(max_length=500)]
_CONTEXT_LINES = 3
# A middle of more lines than this is not compared line by line: the time grows with the square.
_MAX_COMPARED_LINES = 400
# Nor is one that is beyond so many pairs of lines, of all sections together: they take 80 ms at the worst, and a server
# does nothing else meanwhile.
_MAX_LINE_PAIRS = 500_000
# A line that comes more often is matched only beside one that does not: else the time grows with the cube.
_MAX_REPEATS = 8
# Measured on English, other scripts and ids (tests/agent/test_prompt.py): rather too many tokens than too few.
_RATIO_BYTES, _RATIO_TOKENS = 7, 2


class BuildTrigger(Struct, frozen=True):
    """Why a prompt was put together. `kind`: start, file, event, reconnect, gap, command. `detail`: which file, which
    event of whom."""

    kind: ShortText
    detail: ShortText = ""


class PromptSection(Struct, frozen=True, kw_only=True):
    """One piece of a prompt. `source`: where it comes from, as `file:…`, `workspace:…`, `skill:…`, `molecule`. `tokens`
    is an estimate. `shortened`: what was left out of it to keep the budget; null: nothing."""

    part: PartNumber
    kind: ShortText
    title: ShortText
    source: ShortText
    text: str
    bytes: WholeNumber
    tokens: WholeNumber
    hash: ShortText
    shortened: ShortText | None = None


class PromptBuild(Struct, frozen=True, kw_only=True):
    """A whole prompt: its sections in order. `hash` is equal if and only if the prompt is; `budget`: so many tokens it
    may have; `session_hash`: names the session that has it, where it was given to one."""

    sections: list[PromptSection]
    trigger: BuildTrigger
    hash: ShortText
    tokens: WholeNumber
    budget: WholeNumber
    warnings: list[ShortText] = []
    session_hash: ShortText | None = None


class PromptBuildView(PromptBuild, frozen=True, kw_only=True):
    """A prompt as the server keeps it. `built_at` (RFC 3339): when the server was told. `revision` counts those of the
    workspace."""

    built_at: str
    revision: int


class DiffLine(Struct, frozen=True):
    """A line of a difference: in both (a blank), only in the newer (+), only in the older (-)."""

    kind: Literal[" ", "+", "-"]
    text: str


class DiffSection(Struct, frozen=True):
    """What differs in one section."""

    part: int
    title: str
    change: Literal["added", "removed", "changed"]
    lines: list[DiffLine]


class PromptView(Struct, frozen=True):
    """The newest prompt of a workspace's agent, the one before, and what differs; null and nothing for the first."""

    build: PromptBuildView
    previous: PromptBuildView | None
    diff: list[DiffSection]


class SharedFile(Struct, frozen=True):
    """A file that a workspace shares with its children. `path`: its name, with slashes between folders."""

    path: str
    content: str


class SharedFileView(Struct, frozen=True):
    """The same as it is kept. Times are RFC 3339."""

    path: str
    content: str
    bytes: int
    updated_at: str


class SharedContext(Struct, frozen=True):
    """All that a workspace shares with its direct children. `revision` is 0 if it never has."""

    workspace_id: str
    revision: int
    files: list[SharedFileView]


class SharedContextUpdatedPayload(Struct, frozen=True):
    """A workspace shares other files with its direct children now: so many. What they say, tells
    GET /workspaces/{id}/shared-context."""

    revision: int
    files: int


class PromptBuiltPayload(Struct, frozen=True):
    """The agent of a workspace has put its system prompt together anew, and why. What it says, tells
    GET /workspaces/{id}/prompt. `tokens` is an estimate."""

    revision: int
    hash: str
    tokens: int
    trigger: BuildTrigger


def estimate_tokens(size: int) -> int:
    """About how many tokens a model reads in a text of so many bytes of UTF-8, without asking its tokenizer: two for
    every seven bytes."""
    return (_RATIO_TOKENS * size + _RATIO_BYTES - 1) // _RATIO_BYTES


def bytes_for_tokens(tokens: int) -> int:
    """How many bytes have at most so many tokens, by the same measure."""
    return _RATIO_BYTES * tokens // _RATIO_TOKENS


def hash_text(text: str) -> str:
    """What names a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- what differs ------------------------------------------------------------------------------------------------------


def diff_sections(old: Sequence[PromptSection], new: Sequence[PromptSection], max_lines: int) -> list[DiffSection]:
    """What has changed from one prompt to another, section by section in the order of the newer; what is gone stands
    behind. At most so many lines in all."""
    before, after = _keyed_sections(old), _keyed_sections(new)
    found: list[DiffSection] = []
    left, budget = max_lines, _DiffBudget()
    for name in (*after, *(each for each in before if each not in after)):
        one, other = before.get(name), after.get(name)
        if one is not None and other is not None and one.text == other.text:
            continue
        shown = other or one
        if shown is None or left <= 0:
            break
        lines = _limit_lines(
            _diff_lines("" if one is None else one.text, "" if other is None else other.text, budget), left
        )
        left -= len(lines)
        change: Literal["added", "removed", "changed"] = "changed"
        if one is None or other is None:
            change = "added" if one is None else "removed"
        found.append(DiffSection(shown.part, shown.title, change, lines))
    return found


class _DiffBudget:
    """What may still be compared line by line."""

    def __init__(self) -> None:
        self._remaining_pairs = _MAX_LINE_PAIRS

    def try_spend(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether these may; then they are taken from it."""
        pairs = len(one) * len(other)
        if max(len(one), len(other)) > _MAX_COMPARED_LINES or pairs > self._remaining_pairs:
            return False
        self._remaining_pairs -= pairs
        return True


def _keyed_sections(sections: Iterable[PromptSection]) -> dict[tuple[object, ...], PromptSection]:
    """Sections by what stays the same when their text changes; those that share it, by their order."""
    found: dict[tuple[object, ...], PromptSection] = {}
    seen: dict[tuple[object, ...], int] = {}
    for each in sections:
        name = (each.part, each.kind, each.source)
        seen[name] = seen.get(name, -1) + 1
        found[(*name, seen[name])] = each
    return found


def _limit_lines(lines: Iterator[DiffLine], max_lines: int) -> list[DiffLine]:
    found: list[DiffLine] = []
    for each in lines:
        if len(found) == max_lines:
            found[-1] = DiffLine(" ", "… more lines differ")
            break
        found.append(each)
    return found


def _diff_lines(old: str, new: str, budget: _DiffBudget) -> Iterator[DiffLine]:
    one, other = old.splitlines(), new.splitlines()
    head = _common_prefix(one, other)
    tail = _common_prefix(one[head:][::-1], other[head:][::-1])
    yield from (DiffLine(" ", each) for each in one[max(0, head - _CONTEXT_LINES) : head])
    yield from _diff_middle(one[head : len(one) - tail], other[head : len(other) - tail], budget)
    yield from (DiffLine(" ", each) for each in one[len(one) - tail :][:_CONTEXT_LINES])


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


def _diff_middle(one: list[str], other: list[str], budget: _DiffBudget) -> Iterator[DiffLine]:
    if not budget.try_spend(one, other):
        yield from (DiffLine("-", each) for each in one)
        yield from (DiffLine("+", each) for each in other)
        return
    often = Counter(other)
    matcher = difflib.SequenceMatcher(lambda line: often[line] > _MAX_REPEATS, one, other, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        for verb, from_one, to_one, from_other, to_other in group:
            if verb == "equal":
                yield from (DiffLine(" ", each) for each in one[from_one:to_one])
                continue
            yield from (DiffLine("-", each) for each in one[from_one:to_one])
            yield from (DiffLine("+", each) for each in other[from_other:to_other])
