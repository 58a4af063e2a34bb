"""Edits TOML text with tomlkit: one value changes, comments and every other line stay.

Each result is verified with the standard library's parser, so that an unsupported form is rejected and never damaged.
Called by client/host_config_edit.py; calls tools/host_config.py to render a new section.
"""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable, AoT, InlineTable, Item, Key, Table

from molecule_core.tools.host_config import toml_table

TomlPath = Sequence[str]
TomlTable = tomlkit.TOMLDocument | AbstractTable
_BYTE_ORDER_MARK = "\ufeff"
_MISSING = object()


class TomlEditError(Exception):
    """The text is not TOML, or has the value in a form that cannot be edited; the message says which."""


def value_of(text: str) -> dict[str, Any]:
    """Parse a text. Raises TomlEditError."""
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TomlEditError(str(error)) from None


def set_value(text: str, path: TomlPath, value: Any) -> str:
    """Set the value at a path; a table becomes a section of its own at the end. Raises TomlEditError."""
    wanted = value_of(text)
    if _put_value(wanted, path, value):
        text = _end_last_line(text)
    document = _parse_document(text)
    tables = _tables_at(document, path[:-1])
    if isinstance(value, Mapping) and not any(isinstance(each, InlineTable) for each in tables):
        return _verify_edit(_append_section(text, path, value), wanted, path)
    if not tables:
        return _verify_edit(_append_section(text, path[:-1], {path[-1]: value}), wanted, path)
    _set_member(tables, path[-1], value, _line_end_of(text))
    return _verify_edit(_render_document(document, text), wanted, path)


def without(text: str, path: TomlPath) -> str:
    """Remove a path and everything below it; without one the text is unchanged. Raises TomlEditError."""
    wanted = value_of(text)
    if not _pop_value(wanted, path):
        return text
    document = _parse_document(text)
    for table in _tables_at(document, path[:-1]):
        _remove_member(table, path[-1])
    _prune_empty(wanted, path[:-1])
    return _verify_edit(_render_document(document, text), wanted, path)


# -- text --------------------------------------------------------------------------------------------------------------


def _parse_document(text: str) -> tomlkit.TOMLDocument:
    """Parse a text for editing. Raises TomlEditError if tomlkit would lose or change a line of it.

    It may move one: tables of one parent come together if an array of tables is between them (tomlkit 0.15)."""
    try:
        document = tomlkit.parse(text.removeprefix(_BYTE_ORDER_MARK))
    except (TOMLKitError, RecursionError) as error:
        raise TomlEditError(str(error)) from None
    if _sorted_lines(_render_document(document, text)) != _sorted_lines(text):
        raise TomlEditError("it cannot be edited without changing other lines")
    return document


def _render_document(document: tomlkit.TOMLDocument, text: str) -> str:
    """Render a document, with the byte order mark of the text that it was parsed from."""
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    return mark + document.as_string()


def _append_section(text: str, path: TomlPath, members: Mapping[str, Any]) -> str:
    """Append a table as people are shown it, after a blank line."""
    section = "\n" + toml_table(path, members) if text.strip() else toml_table(path, members)
    return text + section.replace("\n", _line_end_of(text))


def _end_last_line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + _line_end_of(text)


def _sorted_lines(text: str) -> list[str]:
    return sorted(line.removesuffix("\r") for line in text.split("\n") if line.strip())


def _line_end_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _verify_edit(text: str, wanted: dict[str, Any], path: TomlPath) -> str:
    """Return the text if it has the wanted value. Raises TomlEditError."""
    try:
        parsed = value_of(text)
        _prune_empty(parsed, path[:-1])
        if parsed == wanted:
            return text
    except TomlEditError:
        pass
    raise TomlEditError(f"the form of {'.'.join(path)} is not supported; write it as a separate table")


# -- tables of tomlkit -------------------------------------------------------------------------------------------------


def _tables_at(document: tomlkit.TOMLDocument, path: TomlPath) -> list[TomlTable]:
    """Return the tables at a path: several if other sections are between its parts, none if there is no such table."""
    tables: list[TomlTable] = [document]
    for step in path:
        members = [member for table in tables for member in _members_of(table)]
        tables = [
            item for key, item in members if key is not None and key.key == step and isinstance(item, AbstractTable)
        ]
    return tables


def _members_of(table: TomlTable) -> list[tuple[Key | None, Item]]:
    """Return what tomlkit renders of a table, in order; comments and blank lines have no key."""
    return table.value.body if isinstance(table, AbstractTable) else table.body


def _set_member(tables: list[TomlTable], name: str, value: Any, line_end: str) -> None:
    """Set a member where it is, or as the last one of the last part that may have it."""
    table = min(reversed(tables), key=lambda each: (name not in each, _is_implicit(each)))
    if name in table or isinstance(table, InlineTable):
        table[name] = value
        return
    item = tomlkit.item(value)
    item.trivia.trail = line_end
    position, members = 0, _members_of(table)
    for index, (key, each) in enumerate(members):
        if _is_section(key, each):
            break  # members must be before it
        if key is not None:
            position = index + 1
    members.insert(position, (tomlkit.key(name), item))


def _is_implicit(table: TomlTable) -> bool:
    """Return whether a table is only the parent of sections, without a header or a dotted key of its own."""
    is_super_table = isinstance(table, Table) and table.is_super_table()
    return is_super_table and all(key is None or _is_section(key, item) for key, item in _members_of(table))


def _is_section(key: Key | None, item: Item) -> bool:
    return key is not None and not key.is_dotted() and isinstance(item, Table | AoT)


def _remove_member(table: TomlTable, name: str) -> None:
    """Remove a member, but not the comments after its last line: they are about what follows."""
    if isinstance(table, InlineTable):
        table.pop(name, None)
        return
    members = _members_of(table)
    for position, (key, item) in enumerate(members):
        if key is not None and key.key == name:
            members[position] = (None, tomlkit.ws(_trailing_comments(item)))


def _trailing_comments(item: Item) -> str:
    """Return the comments and blank lines after the last member of a table; tomlkit counts them as its own."""
    if not isinstance(item, Table):
        return ""
    lines: list[str] = []
    for key, each in reversed(_members_of(item)):
        if key is not None:
            lines.append(_trailing_comments(each))
            break
        lines.append(each.as_string())
    return "".join(reversed(lines))


# -- plain values ------------------------------------------------------------------------------------------------------


def _put_value(table: dict[str, Any], path: TomlPath, value: Any) -> bool:
    """Set a value; return whether it is new. Raises TomlEditError."""
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise TomlEditError(f"{step} is not a table")
    is_new = path[-1] not in table
    table[path[-1]] = value
    return is_new


def _pop_value(table: Any, path: TomlPath) -> bool:
    for step in path[:-1]:
        table = table.get(step) if isinstance(table, dict) else None
    return isinstance(table, dict) and table.pop(path[-1], _MISSING) is not _MISSING


def _prune_empty(table: dict[str, Any], path: TomlPath) -> None:
    """Remove empty tables: hosts treat them like missing ones."""
    for length in range(len(path), 0, -1):
        current: Any = table
        for step in path[:length]:
            current = current.get(step, _MISSING) if isinstance(current, dict) else _MISSING
        if current == {}:
            _pop_value(table, path[:length])
