"""Validates and shortens text from outside: names, ids, lines, file names."""

import re
import unicodedata
from typing import Any
from urllib.parse import unquote

import msgspec

from molecule_core.common.errors import InvalidField, InvalidName

ID_ALPHABET = "A-Z a-z 0-9 . _ : -"
_ID = re.compile(r"[A-Za-z0-9._:-]+")
# Cc control, Cf format (with bidi marks and tag characters), Cs surrogates, Zl and Zp line breaks.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# The joiners are format characters too, but emoji and several scripts need them.
_JOINERS = {"\u200c", "\u200d"}
# Of Unicode category L, but invisible: fillers and the combining joiner.
_BLANK_LETTERS = {"\u034f", "\u115f", "\u1160", "\u3164", "\uffa0"}
_INVISIBLE = " \u200c\u200d"
# ECMA-48: control sequences, control strings up to their terminator, and the other escapes; 7-bit and 8-bit forms.
# An 8-bit form is removed only if it is whole: its first byte is also a part of text that was decoded wrongly.
_TERMINAL_CODE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x9b[0-?]+[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|[\x90\x98\x9d-\x9f][^\x07\n\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)


def validate_name(name: str, limit: int) -> str:
    """Return a name trimmed, valid for a list, a prompt or a page.

    Raises InvalidName if it is empty, longer than `limit` characters, or has control, bidi or tag characters."""
    trimmed = name.strip()
    if not trimmed.strip(_INVISIBLE):
        raise InvalidName(reason="the name cannot be empty. Use at least one visible character.")
    if len(trimmed) > limit:
        raise InvalidName(reason=f"the name cannot have {len(trimmed)} characters. Use at most {limit}.")
    if bad := find_hidden_character(trimmed):
        raise InvalidName(reason=f"the name cannot have the hidden character U+{ord(bad):04X}. Remove it.")
    return trimmed


def find_hidden_character(text: str) -> str | None:
    """Return the first control, bidi, tag or other invisible character of a line, or None."""
    if text.isascii() and text.isprintable():
        return None
    return next((c for c in text if c in _BLANK_LETTERS or _is_hidden(c)), None)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def validate_line(text: str, limit: int, what: str) -> str:
    """Validate a one-line field (role, runtime), which may be empty. Raises InvalidField."""
    trimmed = text.strip()
    if len(trimmed) > limit:
        raise InvalidField(reason=f"{what} cannot have {len(trimmed)} characters. Use at most {limit}.")
    if bad := find_hidden_character(trimmed):
        raise InvalidField(reason=f"{what} cannot have the hidden character U+{ord(bad):04X}. Remove it.")
    return trimmed


def is_valid_client_id(text: str, limit: int) -> bool:
    """Return whether an id chosen by a client is short enough and in the allowed alphabet."""
    return len(text) <= limit and _ID.fullmatch(text) is not None


def unique_name(name: str, taken: set[str], limit: int) -> str:
    """Return the name if it is free, else with the first free suffix: `Ops`, `Ops 2`, `Ops 3`."""
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
    """Return the beginning of a text as one line of at most `limit` characters."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def hide_control_characters(text: str) -> str:
    """Return a text of the same length with a blank for each line break and each hidden character."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if _is_hidden(each) else each for each in text)


def remove_terminal_codes(text: str) -> str:
    """Remove colours, cursor movements, titles and hyperlinks of a terminal, each code as a whole."""
    return _TERMINAL_CODE.sub("", text)


def single_line(text: str, limit: int) -> str:
    """Return an agent's text as one line of at most `limit` characters, without terminal colours and hidden characters.

    Rejecting it would lose the content."""
    visible = truncate_line(remove_terminal_codes(text), limit * 2)
    return truncate_line("".join(c for c in visible if c not in _BLANK_LETTERS and not _is_hidden(c)), limit)


_DISPOSITION_NAME = re.compile(r"filename\*=UTF-8''([^;]+)")
# Path separators, shell syntax and other characters that are special on some system.
_UNSAFE_FILE_CHARACTERS = re.compile(r'[<>:"|?*\\/]')
# Windows treats these names as devices, with any extension.
_RESERVED_FILE_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_MAX_EXTENSION_BYTES = 20


def file_name_of(disposition: str) -> str:
    """Return the file name of a Content-Disposition header of ours, empty if it has none."""
    found = _DISPOSITION_NAME.search(disposition)
    return "" if found is None else unquote(found[1])


def sanitize_file_name(name: str, max_bytes: int) -> str:
    """Return a file name that is safe to show and to save.

    It is one path segment and one line, has visible characters only, and is no device name. Never empty; a name that is
    too long keeps its extension."""
    last = re.split(r"[/\\]", remove_terminal_codes(name[-4 * max_bytes :]))[-1]
    visible = "".join(" " if c.isspace() else c for c in last if c.isspace() or not _is_invisible(c))
    trimmed = _UNSAFE_FILE_CHARACTERS.sub("_", " ".join(visible.split())).strip(". ")
    if not trimmed.strip(_INVISIBLE):
        return "file"
    return _truncate_file_name(f"_{trimmed}" if _RESERVED_FILE_NAMES.fullmatch(trimmed) else trimmed, max_bytes)


def _is_invisible(character: str) -> bool:
    return not (character.isascii() and character.isprintable()) and find_hidden_character(character) is not None


def _truncate_file_name(name: str, max_bytes: int) -> str:
    """Shorten a name to `max_bytes`, keeping its extension."""
    if len(name.encode()) <= max_bytes:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension.encode()) > _MAX_EXTENSION_BYTES:
        stem, dot, extension = name, "", ""
    stem_bytes = max_bytes - len((dot + extension).encode())
    return stem.encode()[:stem_bytes].decode(errors="ignore").strip(". ") + dot + extension


def encode_json(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


def quote_lines(text: str) -> str:
    """Quote each line of another party's text, so that it cannot imitate a line of the server."""
    return "\n".join(f"> {line}" for line in text.splitlines())
