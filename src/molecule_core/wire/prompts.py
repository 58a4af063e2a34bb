"""System prompts as an agent tells them and people look at them: sections, builds, and what differs between two.

Above: the agent that puts them together, the server that keeps them, the command line. Below: nothing.
"""

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

Part = Annotated[int, Meta(ge=1, le=6)]
"""Which of the six parts of a prompt, from specific to general: prompt files, parent context, platform rules, skills,
peers, what to do when a delegation fails."""
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Short = Annotated[str, Meta(max_length=500)]
_AROUND = 3
# A middle of more lines than this is not compared line by line: the time grows with the square.
_COMPARED = 400
# Nor is one that is beyond so many pairs of lines, of all sections together: they take 80 ms at the worst, and a server
# does nothing else meanwhile.
_MOST_PAIRS = 500_000
# A line that comes more often is matched only beside one that does not: else the time grows with the cube.
_SELDOM = 8
# Measured on English, other scripts and ids (tests/agent/test_prompt.py): rather too many tokens than too few.
_BYTES, _TOKENS = 7, 2


class Trigger(Struct, frozen=True):
    """Why a prompt was put together. `kind`: start, file, event, reconnect, gap, command. `detail`: which file, which
    event of whom."""

    kind: Short
    detail: Short = ""


class Section(Struct, frozen=True, kw_only=True):
    """One piece of a prompt. `source`: where it comes from, as `file:…`, `workspace:…`, `skill:…`, `molecule`. `tokens`
    is an estimate. `shortened`: what was left out of it to keep the budget; null: nothing."""

    part: Part
    kind: Short
    title: Short
    source: Short
    text: str
    bytes: Whole
    tokens: Whole
    hash: Short
    shortened: Short | None = None


class Build(Struct, frozen=True, kw_only=True):
    """A whole prompt: its sections in order. `hash` is equal if and only if the prompt is; `budget`: so many tokens it
    may have; `session_hash`: names the session that has it, where it was given to one."""

    sections: list[Section]
    trigger: Trigger
    hash: Short
    tokens: Whole
    budget: Whole
    warnings: list[Short] = []
    session_hash: Short | None = None


class BuildView(Build, frozen=True, kw_only=True):
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

    build: BuildView
    previous: BuildView | None
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


class SharedContextUpdated(Struct, frozen=True):
    """A workspace shares other files with its direct children now: so many. What they say, tells
    GET /workspaces/{id}/shared-context."""

    revision: int
    files: int


class PromptBuilt(Struct, frozen=True):
    """The agent of a workspace has put its system prompt together anew, and why. What it says, tells
    GET /workspaces/{id}/prompt. `tokens` is an estimate."""

    revision: int
    hash: str
    tokens: int
    trigger: Trigger


def tokens_of(size: int) -> int:
    """About how many tokens a model reads in a text of so many bytes of UTF-8, without asking its tokenizer: two for
    every seven bytes."""
    return (_TOKENS * size + _BYTES - 1) // _BYTES


def bytes_of(tokens: int) -> int:
    """How many bytes have at most so many tokens, by the same measure."""
    return _BYTES * tokens // _TOKENS


def hash_of(text: str) -> str:
    """What names a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- what differs ------------------------------------------------------------------------------------------------------


def diff(old: Sequence[Section], new: Sequence[Section], most: int) -> list[DiffSection]:
    """What has changed from one prompt to another, section by section in the order of the newer; what is gone stands
    behind. At most so many lines in all."""
    before, after = _named(old), _named(new)
    found: list[DiffSection] = []
    left, effort = most, _Effort()
    for name in (*after, *(each for each in before if each not in after)):
        one, other = before.get(name), after.get(name)
        if one is not None and other is not None and one.text == other.text:
            continue
        shown = other or one
        if shown is None or left <= 0:
            break
        lines = _bounded(_lines("" if one is None else one.text, "" if other is None else other.text, effort), left)
        left -= len(lines)
        change: Literal["added", "removed", "changed"] = "changed"
        if one is None or other is None:
            change = "added" if one is None else "removed"
        found.append(DiffSection(shown.part, shown.title, change, lines))
    return found


class _Effort:
    """What may still be compared line by line."""

    def __init__(self) -> None:
        self._left = _MOST_PAIRS

    def covers(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether these may; then they are taken from it."""
        pairs = len(one) * len(other)
        if max(len(one), len(other)) > _COMPARED or pairs > self._left:
            return False
        self._left -= pairs
        return True


def _named(sections: Iterable[Section]) -> dict[tuple[object, ...], Section]:
    """Sections by what stays the same when their text changes; those that share it, by their order."""
    found: dict[tuple[object, ...], Section] = {}
    seen: dict[tuple[object, ...], int] = {}
    for each in sections:
        name = (each.part, each.kind, each.source)
        seen[name] = seen.get(name, -1) + 1
        found[(*name, seen[name])] = each
    return found


def _bounded(lines: Iterator[DiffLine], most: int) -> list[DiffLine]:
    found: list[DiffLine] = []
    for each in lines:
        if len(found) == most:
            found[-1] = DiffLine(" ", "… more lines differ")
            break
        found.append(each)
    return found


def _lines(old: str, new: str, effort: _Effort) -> Iterator[DiffLine]:
    one, other = old.splitlines(), new.splitlines()
    head = _same(one, other)
    tail = _same(one[head:][::-1], other[head:][::-1])
    yield from (DiffLine(" ", each) for each in one[max(0, head - _AROUND) : head])
    yield from _middle(one[head : len(one) - tail], other[head : len(other) - tail], effort)
    yield from (DiffLine(" ", each) for each in one[len(one) - tail :][:_AROUND])


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


def _middle(one: list[str], other: list[str], effort: _Effort) -> Iterator[DiffLine]:
    if not effort.covers(one, other):
        yield from (DiffLine("-", each) for each in one)
        yield from (DiffLine("+", each) for each in other)
        return
    often = Counter(other)
    matcher = difflib.SequenceMatcher(lambda line: often[line] > _SELDOM, one, other, autojunk=False)
    for group in matcher.get_grouped_opcodes(_AROUND):
        for verb, from_one, to_one, from_other, to_other in group:
            if verb == "equal":
                yield from (DiffLine(" ", each) for each in one[from_one:to_one])
                continue
            yield from (DiffLine("-", each) for each in one[from_one:to_one])
            yield from (DiffLine("+", each) for each in other[from_other:to_other])
