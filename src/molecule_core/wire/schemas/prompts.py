"""System prompts as agents report them and people read them: sections, builds, diffs.

Called by the agent, which builds prompts, by the server, which stores them, and by the command line.
"""

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

PartNumber = Annotated[int, Meta(ge=1, le=6)]
"""The part of the prompt, from specific to general: prompt files, parent context, platform rules, skills, peers,
handling of failed delegations."""
WholeNumber = Annotated[int, Meta(ge=0, le=1 << 53)]
ShortText = Annotated[str, Meta(max_length=500)]
_CONTEXT_LINES = 3
# Larger middles are not compared line by line: the time grows with the square of their lines.
_MAX_COMPARED_LINES = 400
# Bound on the pairs of lines over all sections: 80 ms at worst, during which the server does nothing else.
_MAX_LINE_PAIRS = 500_000
# A line that is repeated more often is matched only next to a rarer one: the time would grow with the cube.
_MAX_REPEATS = 8
# Measured on English, other scripts and ids (tests/agent/prompt/test_assembly.py). Rather too high than too low.
_RATIO_BYTES, _RATIO_TOKENS = 7, 2


class BuildTrigger(Struct, frozen=True):
    """Why a prompt was built. `kind`: start, file, event, reconnect, gap, command. `detail`: the file or event."""

    kind: ShortText
    detail: ShortText = ""


class PromptSection(Struct, frozen=True, kw_only=True):
    """A section of a prompt.

    `source`: its origin, as `file:…`, `workspace:…`, `skill:…`, `molecule`. `tokens` is an estimate. `shortened`:
    what was omitted to meet the budget; null: nothing."""

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
    """A complete prompt, its sections in order.

    `hash` identifies the content; `budget`: maximum tokens; `session_hash`: identifies the session that received it."""

    sections: list[PromptSection]
    trigger: BuildTrigger
    hash: ShortText
    tokens: WholeNumber
    budget: WholeNumber
    warnings: list[ShortText] = []
    session_hash: ShortText | None = None


class PromptBuildView(PromptBuild, frozen=True, kw_only=True):
    """A prompt as the server stores it. `built_at` (RFC 3339): time of the report; `revision` counts the builds."""

    built_at: str
    revision: int


class DiffLine(Struct, frozen=True):
    """A line of a diff: in both versions (space), only in the newer (+), only in the older (-)."""

    kind: Literal[" ", "+", "-"]
    text: str


class DiffSection(Struct, frozen=True):
    """The changes of one section."""

    part: int
    title: str
    change: Literal["added", "removed", "changed"]
    lines: list[DiffLine]


class PromptView(Struct, frozen=True):
    """The newest prompt of a workspace's agent, the previous one (null for the first), and their diff."""

    build: PromptBuildView
    previous: PromptBuildView | None
    diff: list[DiffSection]


class SharedFile(Struct, frozen=True):
    """A file that a workspace shares with its children. `path`: its name, with slashes between folders."""

    path: str
    content: str


class SharedFileView(Struct, frozen=True):
    """A shared file as the server stores it. Times are RFC 3339."""

    path: str
    content: str
    bytes: int
    updated_at: str


class SharedContext(Struct, frozen=True):
    """All files that a workspace shares with its direct children. `revision` is 0 if it never shared any."""

    workspace_id: str
    revision: int
    files: list[SharedFileView]


class SharedContextUpdatedPayload(Struct, frozen=True):
    """The files that a workspace shares with its direct children changed. `files`: their number.

    GET /workspaces/{id}/shared-context returns the content."""

    revision: int
    files: int


class PromptBuiltPayload(Struct, frozen=True):
    """The agent of a workspace rebuilt its system prompt. `tokens` is an estimate.

    GET /workspaces/{id}/prompt returns the content."""

    revision: int
    hash: str
    tokens: int
    trigger: BuildTrigger


def estimate_tokens(size: int) -> int:
    """Estimate the tokens of a text of `size` UTF-8 bytes without a tokenizer: two tokens for seven bytes."""
    return (_RATIO_TOKENS * size + _RATIO_BYTES - 1) // _RATIO_BYTES


def bytes_for_tokens(tokens: int) -> int:
    """Return the largest number of bytes that is estimated at no more than `tokens`."""
    return _RATIO_BYTES * tokens // _RATIO_TOKENS


def hash_text(text: str) -> str:
    """Return the hash that identifies a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- diffs -------------------------------------------------------------------------------------------------------------


def diff_sections(old: Sequence[PromptSection], new: Sequence[PromptSection], max_lines: int) -> list[DiffSection]:
    """Compare two prompts section by section, in the order of the newer one with removed sections last.

    At most `max_lines` lines in all."""
    before, after = _keyed_sections(old), _keyed_sections(new)
    found: list[DiffSection] = []
    remaining, budget = max_lines, _DiffBudget()
    for key in (*after, *(each for each in before if each not in after)):
        earlier, later = before.get(key), after.get(key)
        if earlier is not None and later is not None and earlier.text == later.text:
            continue
        shown = later or earlier
        if shown is None or remaining <= 0:
            break
        lines = _limit_lines(
            _diff_lines("" if earlier is None else earlier.text, "" if later is None else later.text, budget), remaining
        )
        remaining -= len(lines)
        change: Literal["added", "removed", "changed"] = "changed"
        if earlier is None or later is None:
            change = "added" if earlier is None else "removed"
        found.append(DiffSection(shown.part, shown.title, change, lines))
    return found


class _DiffBudget:
    """The remaining budget for comparison line by line."""

    def __init__(self) -> None:
        self._remaining_pairs = _MAX_LINE_PAIRS

    def try_spend(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Deduct a comparison of these lines from the budget; return whether it fits."""
        pairs = len(one) * len(other)
        if max(len(one), len(other)) > _MAX_COMPARED_LINES or pairs > self._remaining_pairs:
            return False
        self._remaining_pairs -= pairs
        return True


def _keyed_sections(sections: Iterable[PromptSection]) -> dict[tuple[object, ...], PromptSection]:
    """Key sections by what stays the same when their text changes; equal keys are numbered in order."""
    found: dict[tuple[object, ...], PromptSection] = {}
    seen: dict[tuple[object, ...], int] = {}
    for each in sections:
        key = (each.part, each.kind, each.source)
        seen[key] = seen.get(key, -1) + 1
        found[(*key, seen[key])] = each
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
    old_lines, new_lines = old.splitlines(), new.splitlines()
    head = _common_prefix(old_lines, new_lines)
    tail = _common_prefix(old_lines[head:][::-1], new_lines[head:][::-1])
    yield from (DiffLine(" ", each) for each in old_lines[max(0, head - _CONTEXT_LINES) : head])
    yield from _diff_middle(old_lines[head : len(old_lines) - tail], new_lines[head : len(new_lines) - tail], budget)
    yield from (DiffLine(" ", each) for each in old_lines[len(old_lines) - tail :][:_CONTEXT_LINES])


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the start of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


def _diff_middle(one: list[str], other: list[str], budget: _DiffBudget) -> Iterator[DiffLine]:
    if not budget.try_spend(one, other):
        yield from (DiffLine("-", each) for each in one)
        yield from (DiffLine("+", each) for each in other)
        return
    counts = Counter(other)
    matcher = difflib.SequenceMatcher(lambda line: counts[line] > _MAX_REPEATS, one, other, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        for tag, from_one, to_one, from_other, to_other in group:
            if tag == "equal":
                yield from (DiffLine(" ", each) for each in one[from_one:to_one])
                continue
            yield from (DiffLine("-", each) for each in one[from_one:to_one])
            yield from (DiffLine("+", each) for each in other[from_other:to_other])
