"""Fenced blocks of the pages, with the class of each block of commands.

A block of commands is run, unless the line above it has a comment: `<!-- check: CLASS: reason -->`. A block that keeps
running until the page ends has `<!-- check: stays until "TEXT" -->`: it runs in a terminal of its own, and the next
block begins when it has printed the text (without `until`: at once). `stays alone until`, and `alone`
for a block that ends, end what stayed before, the server too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from testing.processes import ROOT

COMMAND_LANGUAGES = ("sh", "console")
OUTPUT_LANGUAGE = "output"
OTHER_LANGUAGES = ("text", "python", "toml", "yaml", "json", "sql", "ini")
RUN = "run"
CLASSES = {
    RUN: "run in the scenario of its page",
    "host": "needs a real host: run by tests/interop",
    "parse": "not run: commands, options and files exist",
    "root": "not run, as it changes a machine: commands, options and files exist",
    "long": "not run, as it takes long or needs the network: commands, options and files exist",
}

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<mark>`{3,})(?P<language>\S*)[^\n]*\n(?P<text>.*?)^ *(?P=mark)[ \t]*$", re.M | re.S
)
_MARKER = re.compile(r"<!-- check: (?P<words>[^>]*?) -->\s*\Z")
_STAYS = re.compile(r'stays(?P<alone> alone)?(?: until "(?P<text>[^"]+)")?')
_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_INDENTED_COMMAND = re.compile(r"^ {4,}(?:\$ |molecule |scripts/|curl )", re.M)


class PageError(Exception):
    """A block of a page that cannot be checked as it is written."""


@dataclass
class Block:
    """A block of commands. `stays_until`: what it prints before the next block begins, if it keeps running; `is_alone`:
    blocks that stayed before it end first. `outputs`: the blocks of output below it."""

    page: str
    line: int
    language: str
    text: str
    kind: str = RUN
    stays_until: str | None = None
    is_alone: bool = False
    outputs: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where the block is, as editors link it."""
        return f"{self.page}:{self.line}"


class Entry(NamedTuple):
    """A command of a console block, and the output that the page prints below it."""

    command: str
    output: str


def documented_pages(root: Path = ROOT) -> list[Path]:
    """List the pages whose commands are checked."""
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "docs/index.md")]
    for folder in ("tutorial", "how-to", "explanation", "reference", "interop"):
        pages += sorted((root / "docs" / folder).glob("*.md"))
    return pages


def read_blocks(page: Path, root: Path = ROOT) -> list[Block]:
    """Read the blocks of commands of a page, with the outputs below them.

    Raises PageError for a block without a language, of an unknown one, with an unknown marker, or for output without a
    command.
    """
    name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for found in _FENCE.finditer(text):
        line, language = text.count("\n", 0, found.start()) + 1, found["language"]
        body = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.M)
        if language in COMMAND_LANGUAGES:
            block = Block(name, line, language, body)
            _classify(block, text[: found.start()])
            blocks.append(block)
        elif language == OUTPUT_LANGUAGE:
            if not blocks:
                raise PageError(f"{name}:{line}: output without a block of commands above it")
            blocks[-1].outputs.append(body)
        elif language not in OTHER_LANGUAGES:
            known = ", ".join((*COMMAND_LANGUAGES, OUTPUT_LANGUAGE, *OTHER_LANGUAGES))
            raise PageError(f"{name}:{line}: a block of language {language!r}, not one of {known}")
    if stray := _INDENTED_COMMAND.search(_FENCE.sub(_keep_lines, text)):
        line = text.count("\n", 0, stray.start()) + 1
        raise PageError(f"{name}:{line}: a command in an indented block; use a fenced one")
    return blocks


def read_other(page: Path, language: str) -> str:
    """Return the first block of a page in a language that is not of commands."""
    return next(
        each["text"] for each in _FENCE.finditer(page.read_text(encoding="utf-8")) if each["language"] == language
    )


def read_texts(page: Path) -> list[str]:
    """Return the text blocks of a page: what a reader types elsewhere."""
    return [each["text"] for each in _FENCE.finditer(page.read_text(encoding="utf-8")) if each["language"] == "text"]


def read_spans(page: Path, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the commands in the text of a page, with their places: `molecule ...` and `scripts/...`."""
    text = page.read_text(encoding="utf-8")
    prose = _FENCE.sub(_keep_lines, text)
    for found in _SPAN.finditer(prose):
        span = " ".join(found[2].split())
        if re.match(r"(?:\.venv/bin/)?molecule [a-z-]|scripts/[a-z]", span):
            yield f"{page.relative_to(root).as_posix()}:{prose.count(chr(10), 0, found.start()) + 1}", span


def read_entries(block: Block) -> list[Entry]:
    """Split a console block into its commands and their outputs."""
    entries: list[Entry] = []
    continued = False
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            entries.append(Entry(line[2:], ""))
        elif not entries:
            raise PageError(f"{block.place}: a console block begins with a command after '$ '")
        elif continued:
            entries[-1] = Entry(entries[-1].command + line, "")
        else:
            entries[-1] = Entry(entries[-1].command, entries[-1].output + line)
        continued = (line.startswith("$ ") or continued) and line.rstrip("\n").endswith("\\")
    return entries


def commands_of(block: Block) -> str:
    """Return the shell text of a block, without outputs."""
    return block.text if block.language == "sh" else "".join(entry.command for entry in read_entries(block))


def _classify(block: Block, above: str) -> None:
    marker = _MARKER.search(above)
    if marker is None:
        return
    words = marker["words"]
    if stays := _STAYS.fullmatch(words):
        block.stays_until, block.is_alone = stays["text"] or "", stays["alone"] is not None
        return
    if words == "alone":
        block.is_alone = True
        return
    kind, separator, reason = words.partition(": ")
    if kind not in CLASSES or kind == RUN:
        raise PageError(f"{block.place}: no class is called {kind!r}: {', '.join(CLASSES)}")
    if not separator or not reason:
        raise PageError(f"{block.place}: the class {kind!r} needs a reason: <!-- check: {kind}: reason -->")
    block.kind = kind


def _keep_lines(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
