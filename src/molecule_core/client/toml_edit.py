"""Edits TOML text: one value changes, comments and every other line stay.

The result is verified with the standard library's parser, so that an unsupported form is rejected and never damaged.
Called by client/host_config_edit.py; calls tools/host_config.py to render values.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

from molecule_core.tools.host_config import toml_key, toml_table, toml_value

TomlPath = Sequence[str]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANKS = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)  # long forms first: they start like an empty short one


class TomlEditError(Exception):
    """The text is not TOML, or has the value in a form that cannot be edited; the message says which."""


class TomlStatement(NamedTuple):
    """A statement of a file, of one or more lines.

    `path`: of the table that it opens or of the key that it sets, from the root. `value`: position of its value, None
    for a table header."""

    start: int
    end: int
    path: tuple[str, ...]
    value: tuple[int, int] | None


def value_of(text: str) -> dict[str, Any]:
    """Parse a text. Raises TomlEditError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise TomlEditError(str(error)) from None


def set_value(text: str, path: TomlPath, value: Any) -> str:
    """Set the value at a path; a table is written in a section of its own. Raises TomlEditError."""
    wanted = deepcopy(value_of(text))
    _put_value(wanted, path, value)
    return _verify_edit(_set_in_text(text, tuple(path), value), wanted, path)


def without(text: str, path: TomlPath) -> str:
    """Remove a path and everything below it; without one the text is unchanged. Raises TomlEditError."""
    wanted = deepcopy(value_of(text))
    if not _pop_value(wanted, path):
        return text
    path = tuple(path)
    for each in reversed(list(_parse_statements(text))):
        if each.path[: len(path)] == path:
            text = text[: each.start] + text[each.end :]
        elif each.value is not None and path[: len(each.path)] == each.path:  # inside an inline table
            inside = tomllib.loads(f"x = {text[slice(*each.value)]}")["x"]
            _pop_value(inside, path[len(each.path) :])
            text = text[: each.value[0]] + toml_value(inside) + text[each.value[1] :]
    _prune_empty(wanted, path[:-1])
    return _verify_edit(re.sub(r"\n{3,}\Z", "\n", text), wanted, path)


# -- changing ----------------------------------------------------------------------------------------------------------


def _set_in_text(text: str, path: tuple[str, ...], value: Any) -> str:
    parent = path[:-1]
    heads = [each for each in _parse_statements(text) if each.value is None and each.path == parent]
    for each in _parse_statements(text):
        if each.value is None:
            continue
        if each.path == path:
            return text[: each.value[0]] + toml_value(value) + text[each.value[1] :]
        if path[: len(each.path)] == each.path:
            inside = tomllib.loads(f"x = {text[slice(*each.value)]}")["x"]
            _put_value(inside, path[len(each.path) :], value)
            return text[: each.value[0]] + toml_value(inside) + text[each.value[1] :]
    if isinstance(value, Mapping):
        return _append_block(text, toml_table(path, value))
    if not heads:
        return _append_block(text, toml_table(parent, {path[-1]: value}))
    own = [each for each in _section_statements(text, heads[0]) if each.value is not None]
    end = own[-1].end if own else heads[0].end
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if text[:end].endswith("\n") else newline
    return f"{text[:end]}{gap}{toml_key(path[-1])} = {toml_value(value)}{newline}{text[end:]}"


def _section_statements(text: str, head: TomlStatement) -> Iterator[TomlStatement]:
    """Yield the statements of a table's section."""
    for each in _parse_statements(text):
        if each.start > head.start:
            if each.value is None:
                return
            yield each


def _append_block(text: str, block: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else newline
    gap += newline if text.strip() else ""
    return text + gap + block.replace("\n", newline)


def _verify_edit(text: str, wanted: dict[str, Any], path: TomlPath) -> str:
    try:
        parsed = value_of(text)
        _prune_empty(parsed, path[:-1])
        if parsed == wanted:
            return text
    except TomlEditError:
        pass
    raise TomlEditError(f"it says {'.'.join(path)} in a form that is not edited here; write it as a table of its own")


def _put_value(table: dict[str, Any], path: TomlPath, value: Any) -> None:
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise TomlEditError(f"{step} is no table")
    table[path[-1]] = value


def _pop_value(table: Any, path: TomlPath) -> bool:
    for step in path[:-1]:
        table = table.get(step) if isinstance(table, dict) else None
    return isinstance(table, dict) and table.pop(path[-1], _MISSING) is not _MISSING


_MISSING = object()


def _prune_empty(table: dict[str, Any], path: TomlPath) -> None:
    """Remove empty tables: hosts treat them like missing ones."""
    for length in range(len(path), 0, -1):
        current: Any = table
        for step in path[:length]:
            current = current.get(step, _MISSING) if isinstance(current, dict) else _MISSING
        if current == {}:
            _pop_value(table, path[:length])


# -- reading -----------------------------------------------------------------------------------------------------------


def _parse_statements(text: str) -> Iterator[TomlStatement]:
    """Yield all statements, in order. The text must be valid TOML."""
    table: tuple[str, ...] = ()
    at = len(text) - len(text.removeprefix("\ufeff"))
    while at < len(text):
        start, at = at, _skip_blanks(text, at)
        if text[at : at + 1] in ("", "\n", "\r", "#"):
            at = _find_line_end(text, at)
        elif text[at] == "[":
            double = text.startswith("[[", at)
            table, at = _parse_key(text, at + 1 + double)
            at = _find_line_end(text, at)
            yield TomlStatement(start, at, table, None)
        else:
            key, at = _parse_key(text, at)
            begins = _skip_blanks(text, at + 1)
            ends = _find_value_end(text, begins)
            at = _find_line_end(text, ends)
            yield TomlStatement(start, at, (*table, *key), (begins, ends))


def _parse_key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Parse a dotted key; return it and the position after it."""
    steps: list[str] = []
    while True:
        at = _skip_blanks(text, at)
        found = _STRING.match(text, at) or _BARE.match(text, at) or _fail_key()
        word = found[0]
        steps.append(tomllib.loads(f"x = {word}")["x"] if word[0] in "\"'" else word)
        at = _skip_blanks(text, found.end())
        if text[at : at + 1] != ".":
            return tuple(steps), at
        at += 1


def _find_value_end(text: str, at: int) -> int:
    """Return the position after the value that starts here."""
    depth, end = 0, at
    while at < len(text):
        character = text[at]
        if string := _STRING.match(text, at):
            at = end = string.end()
            continue
        if character == "#" and depth > 0:
            at = _find_line_end(text, at)
            continue
        if depth == 0 and character in "#\r\n":
            break
        depth += (character in "[{") - (character in "]}")
        at += 1
        end = end if character in " \t" else at
    return end


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _find_line_end(text: str, at: int) -> int:
    """Return the position after the end of the line."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _fail_key() -> NoReturn:
    raise TomlEditError("a key of it cannot be read")
