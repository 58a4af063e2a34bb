"""Text of others, made harmless before it stands beside our own in front of a model. Pure.

A host shows our whole message as one text, and escapes no more of it than the end of its own block. So what looks like
the frame that hosts and we put around text (`<channel …>`, `<system-reminder>`, `<instructions>` and their like) is
spelled so that it can still be read and is no tag; characters that terminals obey, and those that nobody sees but
models read, are left out. All other text, code among it, stays as it is.

Above: words. Below: nothing.
"""

import re
import unicodedata

_FRAMES = (
    "channel|system|instruction|body|reminder|user|human|assistant|developer|tool|function|invoke|parameter|antml|"
    "molecule|task|command|local-command|teammate|untrusted"
)
# What readers take for `<` and for a slash, as well as the signs themselves; blanks and invisible characters between.
_TAG = re.compile(rf"[<\uff1c\ufe64\u2039\u276e](?=[\s\u00a0]*[/\\!?\uff0f]*[\s\u00a0]*(?:{_FRAMES}))", re.IGNORECASE)
_KEPT_CONTROLS = frozenset("\n\t")
# Format characters that scripts and emoji are written with.
_JOINERS = frozenset("\u200c\u200d")


def sanitize(text: str) -> str:
    """A text of somebody else, fit to stand in a message to a model."""
    return _TAG.sub("&lt;", strip_invisible(text))


def strip_invisible(text: str) -> str:
    """A text without control and invisible characters; the ends of its lines are `\\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(each for each in text if each in _KEPT_CONTROLS or _is_visible(each))


def _is_visible(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    # Cc control, Cf format (bidi marks and tag characters are among them), Cs surrogates, Zl and Zp line breaks.
    return character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def sanitize_line(text: str, max_length: int = 200) -> str:
    """A name or a short fact: one harmless line."""
    flat = " ".join(sanitize(text[: max_length * 4]).split())
    return flat if len(flat) <= max_length else flat[: max_length - 1] + "…"
