"""Splits text into search terms, the same for stored text and queries, on every engine.

A term is a run of letters, digits and their marks, in lower case and without accents. In scripts without spaces between
words (Han, Hiragana, Katakana) each character is a term.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

# Longer words are cut: searches do not need their end, and engines limit the length of a word.
_MAX_TERM_LENGTH = 64
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_CHUNK = re.compile(r"\S+")
_SINGLE_CHARACTER_RANGES = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
# Enough for the characters of a few scripts.
_FOLD_CACHE_SIZE = 1 << 13


def split_terms(text: str) -> list[str]:
    """Return the terms of a text, in order."""
    if text.isascii():
        return [word[:_MAX_TERM_LENGTH] for word in _ASCII_WORD.findall(text.lower())]
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return [word[:_MAX_TERM_LENGTH] for word in "".join(map(_fold_character, folded)).split()]


def distinct_terms(words: Iterable[str], max_bytes: int) -> list[str]:
    """Return the first distinct terms, up to `max_bytes` in UTF-8."""
    found: dict[str, None] = {}
    for word in words:
        if word not in found:
            max_bytes -= len(word.encode()) + 1
            if max_bytes < 0:
                break
            found[word] = None
    return list(found)


@lru_cache(_FOLD_CACHE_SIZE)
def _fold_character(character: str) -> str:
    """Return a character as part of a term; a space if it separates terms; nothing for an accent."""
    point = ord(character)
    if any(first <= point <= last for first, last in _SINGLE_CHARACTER_RANGES):
        return f" {character} " if character.isalnum() else " "
    category = unicodedata.category(character)
    if category[0] == "M":
        return "" if _is_accent(unicodedata.combining(character)) else character
    return character if category[0] in "LN" else " "


def _is_accent(combining_class: int) -> bool:
    """Return whether a mark is an accent that texts often omit.

    These are accents of Latin, Greek and Cyrillic, and the points of Hebrew and Arabic. Vowel signs of other scripts
    change the word."""
    return combining_class >= 200 or 10 <= combining_class <= 35


def locate_terms(text: str, is_wanted: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield where the wanted terms of a text are, in order: from, to (exclusive)."""
    for chunk in _CHUNK.finditer(text):
        piece, start = chunk.group(), chunk.start()
        if piece.isascii():
            for found in _ASCII_WORD.finditer(piece.lower()):
                if is_wanted(found.group()[:_MAX_TERM_LENGTH]):
                    yield start + found.start(), start + found.end()
        elif any(map(is_wanted, split_terms(piece))):
            for term, first, end in _located_terms(piece):
                if is_wanted(term[:_MAX_TERM_LENGTH]):
                    yield start + first, start + end


def _located_terms(piece: str) -> Iterator[tuple[str, int, int]]:
    """Yield the terms of a text with their places. Accents belong to the character before them."""
    term, first, end = "", 0, 0
    for position, character in enumerate(piece):
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for part in "".join(map(_fold_character, folded)) or ("\0" if term else ""):
            if part == "\0":
                end = position + 1
            elif part != " ":
                first = first if term else position
                term, end = term + part, position + 1
            elif term:
                yield term, first, end
                term = ""
    if term:
        yield term, first, end
