"""Edits of TOML as people write it: one value changes, comments and every other line stay.

What the edit means is checked with the standard library's reader, so that a form which is not understood here is
refused and never broken. Above: client/host_config.py. Below: wire/hosts.py for how values are written.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

from molecule_core.wire.hosts import toml_key, toml_table, toml_value

Path = Sequence[str]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANKS = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)  # the long forms first: they begin like an empty short one


class NotToml(Exception):
    """The text is no TOML, or says the thing in a form that is not edited here; the words say which."""


class Statement(NamedTuple):
    """A line of a file that says something, or several if its value goes on. `path`: of the table it opens, or of the
    key it sets, from the top. `value`: where its value stands, None for a table's head."""

    start: int
    end: int
    path: tuple[str, ...]
    value: tuple[int, int] | None


def value_of(text: str) -> dict[str, Any]:
    """What the text says. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None


def set_value(text: str, path: Path, value: Any) -> str:
    """The text with a value at a path; a table becomes one of its own. Raises NotToml."""
    wanted = deepcopy(value_of(text))
    _put(wanted, path, value)
    return _checked(_set(text, tuple(path), value), wanted, path)


def without(text: str, path: Path) -> str:
    """The text without what a path names, and all below it; the same if there is nothing. Raises NotToml."""
    wanted = deepcopy(value_of(text))
    if not _take(wanted, path):
        return text
    path = tuple(path)
    for each in reversed(list(_statements(text))):
        if each.path[: len(path)] == path:
            text = text[: each.start] + text[each.end :]
        elif each.value is not None and path[: len(each.path)] == each.path:  # it is within a table of one line
            inside = tomllib.loads(f"x = {text[slice(*each.value)]}")["x"]
            _take(inside, path[len(each.path) :])
            text = text[: each.value[0]] + toml_value(inside) + text[each.value[1] :]
    _prune(wanted, path[:-1])
    return _checked(re.sub(r"\n{3,}\Z", "\n", text), wanted, path)


# -- changing ----------------------------------------------------------------------------------------------------------


def _set(text: str, path: tuple[str, ...], value: Any) -> str:
    parent = path[:-1]
    heads = [each for each in _statements(text) if each.value is None and each.path == parent]
    for each in _statements(text):
        if each.value is None:
            continue
        if each.path == path:
            return text[: each.value[0]] + toml_value(value) + text[each.value[1] :]
        if path[: len(each.path)] == each.path:
            inside = tomllib.loads(f"x = {text[slice(*each.value)]}")["x"]
            _put(inside, path[len(each.path) :], value)
            return text[: each.value[0]] + toml_value(inside) + text[each.value[1] :]
    if isinstance(value, Mapping):
        return _appended(text, toml_table(path, value))
    if not heads:
        return _appended(text, toml_table(parent, {path[-1]: value}))
    own = [each for each in _section(text, heads[0]) if each.value is not None]
    end = own[-1].end if own else heads[0].end
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if text[:end].endswith("\n") else newline
    return f"{text[:end]}{gap}{toml_key(path[-1])} = {toml_value(value)}{newline}{text[end:]}"


def _section(text: str, head: Statement) -> Iterator[Statement]:
    """What stands below a table's head, up to the next one."""
    for each in _statements(text):
        if each.start > head.start:
            if each.value is None:
                return
            yield each


def _appended(text: str, block: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else newline
    gap += newline if text.strip() else ""
    return text + gap + block.replace("\n", newline)


def _checked(text: str, wanted: dict[str, Any], path: Path) -> str:
    try:
        says = value_of(text)
        _prune(says, path[:-1])
        if says == wanted:
            return text
    except NotToml:
        pass
    raise NotToml(f"it says {'.'.join(path)} in a form that is not edited here; write it as a table of its own")


def _put(table: dict[str, Any], path: Path, value: Any) -> None:
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise NotToml(f"{step} is no table")
    table[path[-1]] = value


def _take(table: Any, path: Path) -> bool:
    for step in path[:-1]:
        table = table.get(step) if isinstance(table, dict) else None
    return isinstance(table, dict) and table.pop(path[-1], _NOTHING) is not _NOTHING


_NOTHING = object()


def _prune(table: dict[str, Any], path: Path) -> None:
    """Takes tables away that hold nothing: whether one stands there makes no difference to a host."""
    for length in range(len(path), 0, -1):
        held: Any = table
        for step in path[:length]:
            held = held.get(step, _NOTHING) if isinstance(held, dict) else _NOTHING
        if held == {}:
            _take(table, path[:length])


# -- reading -----------------------------------------------------------------------------------------------------------


def _statements(text: str) -> Iterator[Statement]:
    """All statements, in order. The text is TOML: `value_of` has read it."""
    table: tuple[str, ...] = ()
    at = len(text) - len(text.removeprefix("\ufeff"))
    while at < len(text):
        start, at = at, _blanks(text, at)
        if text[at : at + 1] in ("", "\n", "\r", "#"):
            at = _line_end(text, at)
        elif text[at] == "[":
            double = text.startswith("[[", at)
            table, at = _key(text, at + 1 + double)
            at = _line_end(text, at)
            yield Statement(start, at, table, None)
        else:
            key, at = _key(text, at)
            begins = _blanks(text, at + 1)
            ends = _value_end(text, begins)
            at = _line_end(text, ends)
            yield Statement(start, at, (*table, *key), (begins, ends))


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """A dotted key, and where the sign behind it stands."""
    steps: list[str] = []
    while True:
        at = _blanks(text, at)
        found = _STRING.match(text, at) or _BARE.match(text, at) or _refuse()
        word = found[0]
        steps.append(tomllib.loads(f"x = {word}")["x"] if word[0] in "\"'" else word)
        at = _blanks(text, found.end())
        if text[at : at + 1] != ".":
            return tuple(steps), at
        at += 1


def _value_end(text: str, at: int) -> int:
    """Behind the last sign of a value that begins here."""
    depth, end = 0, at
    while at < len(text):
        sign = text[at]
        if string := _STRING.match(text, at):
            at = end = string.end()
            continue
        if sign == "#" and depth > 0:
            at = _line_end(text, at)
            continue
        if depth == 0 and sign in "#\r\n":
            break
        depth += (sign in "[{") - (sign in "]}")
        at += 1
        end = end if sign in " \t" else at
    return end


def _blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _line_end(text: str, at: int) -> int:
    """Behind the end of the line."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _refuse() -> NoReturn:
    raise NotToml("a key of it cannot be read")
