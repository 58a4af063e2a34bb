"""Words of a text as a search knows them: the same for what is kept and for what is asked, on every engine.

A word is a run of letters, digits and the marks that belong to them, in lower case and without accents. Scripts that
put no blanks between words (Han, Hiragana, Katakana) count each character as a word.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# Longer words are cut: nobody looks for their end, and an engine takes no word without end.
_MAX_TERM_LENGTH = 64
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_SINGLE_CHARACTER_RANGES = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
# Characters whose folding is remembered: those of a few scripts.
_FOLD_CACHE_SIZE = 1 << 13


def split_terms(text: str) -> list[str]:
    """The words of a text, in their order."""
    if text.isascii():
        return [word[:_MAX_TERM_LENGTH] for word in _ASCII_WORD.findall(text.lower())]
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return [word[:_MAX_TERM_LENGTH] for word in "".join(map(_fold_character, folded)).split()]


def distinct_terms(words: Iterable[str], max_bytes: int) -> list[str]:
    """Each word once, the first ones, up to so many bytes."""
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
    """A character as it stands in a word; a blank if it stands in none; nothing for an accent."""
    point = ord(character)
    if any(first <= point <= last for first, last in _SINGLE_CHARACTER_RANGES):
        return f" {character} " if character.isalnum() else " "
    category = unicodedata.category(character)
    if category[0] == "M":
        return "" if _is_accent(unicodedata.combining(character)) else character
    return character if category[0] in "LN" else " "


def _is_accent(combining_class: int) -> bool:
    """Accents of Latin, Greek and Cyrillic letters, and the points of Hebrew and Arabic, which many leave out. Vowel
    signs of other scripts make another word."""
    return combining_class >= 200 or 10 <= combining_class <= 35
