"""Words of the page's texts: the banned ones in what its components show."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.vocabulary import BANNED, BANNED_IN_CANVAS

_COMMENT = re.compile(r"/\*.*?\*/|(?m:(?<=\s)//.*$|^//.*$)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
_ELEMENT_TEXT = re.compile(r">([^<>{}=;]*[a-z][^<>{}=;]*)<")
_STRING = re.compile(r"([\"'`])((?:(?!\1)[^\\\n]|\\.)* (?:(?!\1)[^\\\n]|\\.)*)\1")


def find_texts(source: str) -> list[str]:
    """Return the texts of a TypeScript module: those between tags, and strings of several words."""
    code = _PLACEHOLDER.sub("…", _COMMENT.sub("", source))
    return [*_ELEMENT_TEXT.findall(code), *(text for _, text in _STRING.findall(code))]


def find_banned_canvas_texts(canvas: Path, modules: Iterable[Path]) -> Iterator[str]:
    """Find banned words in texts of the page, with their modules."""
    for module in modules:
        for text in find_texts(module.read_text(encoding="utf-8")):
            for hit in (*BANNED.finditer(text), *BANNED_IN_CANVAS.finditer(text)):
                yield f"{module.relative_to(canvas)}: {hit[0].lower()} in {text.strip()!r}"
