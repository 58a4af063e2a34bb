"""Words of the documentation: how many, of which kind of page, and the banned ones among them.

Code and quotations are not read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.guards.words import count_words
from tests.architecture.vocabulary import BANNED

_NOT_READ = re.compile(
    r"^ {0,3}(`{3,}).*?^ {0,3}\1[ \t]*$|^> .*?$|(`+)(?!`).+?(?<!`)\2(?!`)|(?<=\])\([^)\s]*\)|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)
KINDS = ("tutorial", "how-to", "reference", "explanation", "decisions", "interop")
"""Folders of docs/; a page beside them is of the kind `other`."""


def kind_of(docs: Path, page: Path) -> str:
    """Return the kind of a page, by its folder."""
    first = page.relative_to(docs).parts[0]
    return first if first in KINDS else "other"


def prose(text: str) -> str:
    """Return a page without what is not read; lines keep their numbers."""
    return _NOT_READ.sub(lambda found: "\n" * found[0].count("\n") or " ", text)


def count_by_kind(docs: Path) -> Counter[str]:
    """Count the words of each kind of page, code and tables among them."""
    counts = Counter[str]()
    for page in sorted(docs.rglob("*.md")):
        counts[kind_of(docs, page)] += count_words(page.read_text(encoding="utf-8"))
    return counts


def find_banned_words(repo: Path, pages: Iterable[Path]) -> Iterator[str]:
    """Find banned words of pages, with their places."""
    for page in pages:
        text = prose(page.read_text(encoding="utf-8"))
        for hit in BANNED.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            yield f"{page.relative_to(repo)}:{line} {hit[0].lower()}"
