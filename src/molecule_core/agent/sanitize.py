"""Makes text of others safe to place beside our own in front of a model. Pure.

A host shows the whole message as one text and escapes only the end of its own block. So text that looks like a frame of
hosts or of ours (`<channel …>`, `<system-reminder>`, `<instructions>` and similar) is escaped so that it stays readable
but is no tag. Characters that terminals interpret, and invisible characters that models read, are removed. All other
text, including code, is unchanged.
"""

import re
import unicodedata

from molecule_core.common.text import remove_terminal_codes

_FRAMES = (
    "channel|system|instruction|body|reminder|user|human|assistant|developer|tool|function|invoke|parameter|antml|"
    "molecule|task|command|local-command|teammate|untrusted"
)
# Characters that readers take for `<` and for a slash, besides these two; blanks and invisible characters in between.
_TAG = re.compile(rf"[<\uff1c\ufe64\u2039\u276e](?=[\s\u00a0]*[/\\!?\uff0f]*[\s\u00a0]*(?:{_FRAMES}))", re.IGNORECASE)
_KEPT_CONTROLS = frozenset("\n\t")
# Format characters used by scripts and emoji.
_JOINERS = frozenset("\u200c\u200d")


def sanitize(text: str) -> str:
    """Escape frame-like tags in untrusted text and remove invisible characters."""
    return _TAG.sub("&lt;", strip_invisible(text))


def strip_invisible(text: str) -> str:
    """Remove terminal codes, control and invisible characters, and normalize line ends to `\\n`."""
    text = remove_terminal_codes(text).replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(each for each in text if each in _KEPT_CONTROLS or _is_visible(each))


def _is_visible(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    # Cc control, Cf format (bidi marks and tag characters are among them), Cs surrogates, Zl and Zp line breaks.
    return character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def sanitize_line(text: str, max_length: int = 200) -> str:
    """Sanitize a name or short value into one line of at most `max_length` characters."""
    flat = " ".join(sanitize(text[: max_length * 4]).split())
    return flat if len(flat) <= max_length else flat[: max_length - 1] + "…"
