"""Text that others wrote: what a name may hold, what a client's id may look like, how a line is shortened."""

import re
import unicodedata

from molecule_core.common.errors import InvalidField, InvalidName

ID_ALPHABET = "A-Z a-z 0-9 . _ : -"
_ID = re.compile(r"[A-Za-z0-9._:-]+")
# Cc control, Cf format (bidi marks and tag characters are among them), Cs surrogates, Zl and Zp line breaks.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# The joiners are format characters too, but emoji and several scripts are written with them.
_JOINERS = {"\u200c", "\u200d"}
# Letters to Unicode, nothing to the eye: fillers and the combining joiner.
_BLANK_LETTERS = {"\u034f", "\u115f", "\u1160", "\u3164", "\uffa0"}
_INVISIBLE = " \u200c\u200d"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def validate_name(name: str, limit: int) -> str:
    """A name fit to stand in a list, a prompt or a page: one line, visible characters, trimmed.

    Raises InvalidName if it is empty, longer than `limit` characters, or holds control, bidi or tag characters."""
    trimmed = name.strip()
    if not trimmed.strip(_INVISIBLE):
        raise InvalidName(reason="it is empty; give at least one visible character")
    if len(trimmed) > limit:
        raise InvalidName(reason=f"it has {len(trimmed)} characters; at most {limit} are taken")
    if bad := find_hidden_character(trimmed):
        raise InvalidName(reason=f"it holds the hidden character U+{ord(bad):04X}; remove it")
    return trimmed


def find_hidden_character(text: str) -> str | None:
    """The first control, bidi, tag or other invisible character of a line, if there is one."""
    if text.isascii() and text.isprintable():
        return None
    return next((c for c in text if c in _BLANK_LETTERS or _is_hidden(c)), None)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def validate_line(text: str, limit: int, what: str) -> str:
    """A one-line field (role, runtime): like a name, but it may be empty. Raises InvalidField."""
    trimmed = text.strip()
    if len(trimmed) > limit:
        raise InvalidField(reason=f"{what} has {len(trimmed)} characters; at most {limit} are taken")
    if bad := find_hidden_character(trimmed):
        raise InvalidField(reason=f"{what} holds the hidden character U+{ord(bad):04X}; remove it")
    return trimmed


def is_valid_client_id(text: str, limit: int) -> bool:
    """Whether an id that a client chose is short enough and of the allowed alphabet."""
    return len(text) <= limit and _ID.fullmatch(text) is not None


def unique_name(name: str, taken: set[str], limit: int) -> str:
    """The name itself if it is free, else with the first free numeric suffix: `Ops`, `Ops 2`, `Ops 3`."""
    if name not in taken:
        return name
    number = 2
    while True:
        suffix = f" {number}"
        candidate = name[: limit - len(suffix)] + suffix
        if candidate not in taken:
            return candidate
        number += 1


def truncate_line(text: str, limit: int) -> str:
    """The beginning of a text as one line of at most so many characters."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def single_line(text: str, limit: int) -> str:
    """What an agent says of its work, as one line of at most so many characters: colours of terminals and hidden
    characters are left out. (A refusal would lose what is said.)"""
    visible = _ESCAPES.sub("", truncate_line(text, limit * 2))
    return truncate_line("".join(c for c in visible if c not in _BLANK_LETTERS and not _is_hidden(c)), limit)


# What a path, a shell or another system takes for something else than a part of a name.
_UNSAFE_FILE_CHARACTERS = re.compile(r'[<>:"|?*\\/]')
# Names that one widespread system takes for devices, whatever ending they have.
_RESERVED_FILE_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_MAX_EXTENSION_BYTES = 20


def sanitize_file_name(name: str, max_bytes: int) -> str:
    """A file's name as people and programs may see it: the last part of a path, one line, visible characters, nothing
    that another system takes for a device or a place. Never empty; too long a name loses its middle, not its ending."""
    last = re.split(r"[/\\]", name[-4 * max_bytes :])[-1]
    visible = "".join(" " if c.isspace() else c for c in last if c.isspace() or not _is_invisible(c))
    trimmed = _UNSAFE_FILE_CHARACTERS.sub("_", " ".join(visible.split())).strip(". ")
    if not trimmed.strip(_INVISIBLE):
        return "file"
    return _truncate_file_name(f"_{trimmed}" if _RESERVED_FILE_NAMES.fullmatch(trimmed) else trimmed, max_bytes)


def _is_invisible(character: str) -> bool:
    return not (character.isascii() and character.isprintable()) and find_hidden_character(character) is not None


def _truncate_file_name(name: str, max_bytes: int) -> str:
    """The name in so many bytes: its beginning, and the ending that says what kind of file it is."""
    if len(name.encode()) <= max_bytes:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension.encode()) > _MAX_EXTENSION_BYTES:
        stem, dot, extension = name, "", ""
    stem_bytes = max_bytes - len((dot + extension).encode())
    return stem.encode()[:stem_bytes].decode(errors="ignore").strip(". ") + dot + extension
