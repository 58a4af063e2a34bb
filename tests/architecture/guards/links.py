"""Links between Markdown pages: every relative path exists, every anchor is a heading of its page."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]+)\"")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)(?:\s+#+)?\s*$", re.MULTILINE)
_HTML_ANCHOR = re.compile(r"<[a-z]+\b[^>]*?\b(?:id|name)=\"([^\"]+)\"")
_OUTSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


def find_broken_links(repo: Path, pages: Iterable[Path]) -> list[str]:
    """Find relative links whose file or anchor is missing, and absolute paths."""
    return [
        f"{page.relative_to(repo)}:{line} {target}: {reason}"
        for page in pages
        for line, target in _links(page.read_text(encoding="utf-8"))
        if (reason := _find_problem(repo, page, target))
    ]


def _links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the links of a page with their lines. Blanked code keeps the line numbers."""
    prose = _CODE.sub(_blank, _FENCE.sub(_blank, text))
    for pattern in (_LINK, _REFERENCE, _HTML):
        for found in pattern.finditer(prose):
            yield text.count("\n", 0, found.start(1)) + 1, found[1]


def _blank(found: re.Match[str]) -> str:
    """Replace code; a link text that is code keeps its length, so that the link is still found."""
    return re.sub(r"[^\n]", "x", found[0])


def _find_problem(repo: Path, page: Path, target: str) -> str:
    if _OUTSIDE.match(target):
        return ""
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return "not relative"
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(repo.resolve()) or not file.exists():
        return "no such file"
    if anchor and (file.suffix != ".md" or anchor not in _anchors(file)):
        return "no such heading"
    return ""


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page, as GitHub and the site make them from headings."""
    text = page.read_text(encoding="utf-8")
    seen: dict[str, int] = {}
    anchors = set(_HTML_ANCHOR.findall(text))
    for heading in _HEADING.findall(_FENCE.sub(_blank, text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return frozenset(anchors)
