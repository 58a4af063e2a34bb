"""Edits JSON with comments and trailing commas: one value changes, every other byte stays.

Pure. A text that cannot be parsed raises JsonEditError and stays unchanged. Called by client/host_config_edit.py.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

JsonPath = Sequence[str | int]
_TRIVIA = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[^\s\ufeff]', re.DOTALL)
_BYTE_ORDER_MARK = "\ufeff"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n\r]*|/\*(?:(?!\*/)[^\n\r])*\*/[ \t]*)?(?=[\r\n]|$)")
# Deeper than any configuration, and well below Python's recursion limit.
_MAX_DEPTH = 100


class JsonEditError(Exception):
    """The text is not JSON, or its root is not an object; the message says where."""


class JsonNode(NamedTuple):
    """A value and its position in the text.

    `members`: of an object (key, start of the key, value), of a list (index, start of the value, value), else None."""

    start: int
    end: int
    value: Any
    members: "list[tuple[str | int, int, JsonNode]] | None" = None


def value_of(text: str) -> dict[str, Any]:
    """Parse a text; an empty one is an empty object. Raises JsonEditError."""
    found: dict[str, Any] = _parse_root(text).value
    return found


def set_value(text: str, path: JsonPath, value: Any) -> str:
    """Set the value at a path, creating missing objects. An index past the end of a list appends.

    Raises JsonEditError."""
    node, depth = _parse_root(text), 0
    if node.start == node.end:  # only comments
        gap = "\n" if text.strip() and not text.endswith("\n") else ""
        return text + gap + _render_value(_nest(path, value), "  ", "\n", 0) + "\n"
    while depth < len(path):
        child = _find_member(node, path[depth])
        if child is None:
            return _insert_member(text, node, path[depth], _nest(path[depth + 1 :], value), depth)
        node, depth = child, depth + 1
    style = _detect_style(text)
    return (
        text[: node.start] + _render_value(value, *style, _indent_level(text, node.start, style[0])) + text[node.end :]
    )


def without(text: str, path: JsonPath) -> str:
    """Remove the member at a path; without one the text is unchanged. Raises JsonEditError."""
    node = _parse_root(text)
    for step in path[:-1]:
        child = _find_member(node, step)
        if child is None:
            return text
        node = child
    found = [index for index, each in enumerate(node.members or []) if each[0] == path[-1]]
    for index in reversed(found):
        text = _cut_member(text, node, index)
        node = _node_at(_parse_root(text), path[:-1])
    return text


def check_grammar(text: str, *, comments: bool, trailing_commas: bool, byte_order_mark: bool) -> None:
    """Check that a text has nothing that its reader does not accept. Raises JsonEditError, which names the line."""
    if text.startswith(_BYTE_ORDER_MARK) and not byte_order_mark:
        _reject_at(text, 0, "a byte order mark")
    comma = None
    for token in _TOKEN.finditer(text):
        if token[0][:2] in ("//", "/*"):
            if not comments:
                _reject_at(text, token.start(), "a comment")
        elif token[0] in "]}" and comma is not None and not trailing_commas:
            _reject_at(text, comma, "a comma after the last member")
        else:
            comma = token.start() if token[0] == "," else None


def _reject_at(text: str, at: int, what: str) -> NoReturn:
    raise JsonEditError(f"line {text.count(chr(10), 0, at) + 1} has {what}, which its host does not accept")


# -- changing ----------------------------------------------------------------------------------------------------------


def _nest(path: JsonPath, value: Any) -> Any:
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _find_member(node: JsonNode, step: str | int) -> JsonNode | None:
    """Return the member of that name; the last of duplicates, as parsers do.

    Raises JsonEditError if the node cannot have such a member."""
    if node.members is None or isinstance(node.value, list) != isinstance(step, int):
        raise JsonEditError(
            f"{step!r} cannot be added, since its parent is not {'a list' if isinstance(step, int) else 'an object'}"
        )
    return next((value for key, _, value in reversed(node.members) if key == step), None)


def _insert_member(text: str, node: JsonNode, key: str | int, value: Any, depth: int) -> str:
    unit, newline = _detect_style(text)
    members = node.members or []
    named = "" if isinstance(key, int) else f"{json.dumps(key, ensure_ascii=False)}: "
    if not members:
        level = _indent_level(text, node.start, unit)
        inside = text[node.start + 1 : node.end - 1].rstrip()
        lines = named + _render_value(value, unit, newline, level + 1)
        filled = f"{inside}{newline}{unit * (level + 1)}{lines}{newline}{unit * level}"
        return text[: node.start + 1] + filled + text[node.end - 1 :]
    first, last = members[0], members[-1][2].end
    if "\n" not in text[node.start : first[1]]:  # written on one line, and stays so
        return f"{text[:last]}, {named}{json.dumps(value, ensure_ascii=False)}{text[last:]}"
    indent = text[text.rfind("\n", 0, first[1]) + 1 : first[1]]
    level = len(indent) // len(unit) if not indent.strip() and unit else depth + 1
    lines = (
        newline + (indent if not indent.strip() else unit * level) + named + _render_value(value, unit, newline, level)
    )
    after = _skip_trivia(text, last)
    comma, rest_start = ("", after + 1) if text[after] == "," else (",", last)
    rest = _REST_OF_LINE.match(text, rest_start)
    after = rest.end() if rest is not None else rest_start
    return text[:last] + comma + text[last:after] + lines + text[after:]


def _cut_member(text: str, node: JsonNode, index: int) -> str:
    """Remove a member, its comma and the white space before it."""
    members = node.members or []
    since = members[index - 1][2].end if index else node.start + 1
    start, end = members[index][1], members[index][2].end
    ends_comment = _ends_line_comment(text[since:start])
    while text[start - 1] in " \t\r\n":
        start -= 1
    comma = _skip_trivia(text, end)
    if text[comma] == ",":
        return _join_parts(text, text[:start], text[end:comma] + text[comma + 1 :], ends_comment)
    if index == 0:
        left = text[node.start + 1 : start] + text[end : node.end - 1]
        if not left.strip():
            return text[: node.start + 1] + text[node.end - 1 :]
        return _join_parts(text, text[:start], text[end:], ends_comment)
    comma = _skip_trivia(text, members[index - 1][2].end)
    return _join_parts(text, text[:comma] + text[comma + 1 : start], text[end:], ends_comment)


def _ends_line_comment(gap: str) -> bool:
    """Return whether the gap between two members ends with a line comment."""
    comments = list(_COMMENT.finditer(gap))
    return bool(comments) and comments[-1][0].startswith("//") and not gap[comments[-1].end() :].strip(" \t\r\n")


def _join_parts(text: str, before: str, after: str, ends_comment: bool) -> str:
    """Join the rest of a text, with a newline where it would become part of a line comment."""
    needs_line = ends_comment and not after.lstrip(" \t").startswith(("\n", "\r"))
    return before + (_detect_style(text)[1] if needs_line else "") + after


def _node_at(node: JsonNode, path: JsonPath) -> JsonNode:
    for step in path:
        child = _find_member(node, step)
        if child is None:
            break
        node = child
    return node


def _render_value(value: Any, unit: str, newline: str, level: int) -> str:
    lines = json.dumps(value, indent=unit or None, ensure_ascii=False).split("\n")
    return (newline + unit * level).join(lines)


def _detect_style(text: str) -> tuple[str, str]:
    """Return the indentation of the first member, and the newline of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    indented = re.search(r'[{\[][ \t]*(?://[^\n]*)?\r?\n(?:[ \t]*(?://[^\n]*)?\r?\n)*([ \t]+)["{/]', text)
    return (indented[1] if indented else "  "), newline


def _indent_level(text: str, at: int, unit: str) -> int:
    """Return the indentation level of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return (len(line) - len(line.lstrip(" \t"))) // max(1, len(unit))


# -- reading -----------------------------------------------------------------------------------------------------------


def _parse_root(text: str) -> JsonNode:
    at = _skip_trivia(text, 0)
    if at == len(text):
        return JsonNode(at, at, {}, [])
    node = _parse_node(text, at, 0)
    if node.members is None or not isinstance(node.value, dict):
        raise JsonEditError("its top level is not an object")
    if (rest := _skip_trivia(text, node.end)) != len(text):
        _fail_at(text, rest)
    return node


def _parse_node(text: str, at: int, depth: int) -> JsonNode:
    if depth > _MAX_DEPTH:
        raise JsonEditError(f"it is nested deeper than {_MAX_DEPTH} levels")
    start = text[at : at + 1]
    if start in ("{", "["):
        return _parse_container(text, at, depth, is_object=start == "{")
    found = _STRING.match(text, at) if start == '"' else _SCALAR.match(text, at)
    if found is None:
        _fail_at(text, at)
    try:
        return JsonNode(at, found.end(), json.loads(found[0]))
    except ValueError:
        _fail_at(text, at)


def _parse_container(text: str, at: int, depth: int, *, is_object: bool) -> JsonNode:
    members: list[tuple[str | int, int, JsonNode]] = []
    close = "}" if is_object else "]"
    here = _skip_trivia(text, at + 1)
    while text[here : here + 1] != close:
        begins, key = here, len(members)
        name: str | int = key
        if is_object:
            name, here = _parse_key(text, here)
        value = _parse_node(text, here, depth + 1)
        members.append((name, begins, value))
        here = _skip_trivia(text, value.end)
        if text[here : here + 1] == ",":
            here = _skip_trivia(text, here + 1)
        elif text[here : here + 1] != close:
            _fail_at(text, here)
    made: Any = {name: node.value for name, _, node in members} if is_object else [node.value for *_, node in members]
    return JsonNode(at, here + 1, made, members)


def _parse_key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        _fail_at(text, at)
    node = _parse_node(text, at, 0)
    colon = _skip_trivia(text, node.end)
    if text[colon : colon + 1] != ":":
        _fail_at(text, colon)
    return node.value, _skip_trivia(text, colon + 1)


def _skip_trivia(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    return at if found is None else found.end()


def _fail_at(text: str, at: int) -> NoReturn:
    raise JsonEditError(f"line {text.count(chr(10), 0, at) + 1} cannot be read")
