"""Reads YAML of plain values and bounded size; the only module that imports the parser.

No anchors (a few lines can expand to gigabytes), no tags (they can name classes), no duplicate keys.
"""

from typing import Any

import yaml

MAX_YAML_BYTES = 64 << 10
# Number of scalars, lists and objects in a text, and their nesting depth.
_MAX_EVENTS, _MAX_DEPTH = 5000, 16


class InvalidYamlError(Exception):
    """The text cannot be read; the message is one line with the reason."""


def read_yaml(text: str, *, scalars_as_text: bool = False, first_line: int = 1) -> dict[str, Any]:
    """Parse a YAML object; an empty text gives an empty one. Raises InvalidYamlError.

    `scalars_as_text`: no value becomes a number, a truth value or a date. `first_line`: of the text in its file, for
    errors."""
    if len(text.encode(errors="replace")) > MAX_YAML_BYTES:
        raise InvalidYamlError(f"it is larger than {MAX_YAML_BYTES} bytes")
    try:
        _check_events(text, first_line)
        value = yaml.load(text, Loader=yaml.BaseLoader if scalars_as_text else yaml.SafeLoader)  # noqa: S506 - both build plain values only
    except yaml.YAMLError as error:
        raise InvalidYamlError(_error_text(error, first_line)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidYamlError(" ".join(str(error).split())[:200]) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidYamlError("it must be an object with names as keys")
    return value


def _check_events(text: str, first_line: int) -> None:
    """Check the text event by event before any value is built. Raises InvalidYamlError."""
    open_collections: list[_OpenCollection] = []
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        where = f"line {event.start_mark.line + first_line}"
        if number > _MAX_EVENTS:
            raise InvalidYamlError("it contains too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidYamlError(f"{where}: anchors and aliases are not allowed")
        if getattr(event, "tag", None) is not None:
            raise InvalidYamlError(f"{where}: tags are not allowed")
        if isinstance(event, yaml.CollectionEndEvent):
            open_collections.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if open_collections and (problem := open_collections[-1].check_scalar(getattr(event, "value", None))):
                raise InvalidYamlError(f"{where}: {problem}")
            if isinstance(event, yaml.CollectionStartEvent):
                open_collections.append(_OpenCollection(isinstance(event, yaml.MappingStartEvent)))
        if len(open_collections) > _MAX_DEPTH:
            raise InvalidYamlError(f"{where}: it is nested too deeply")


class _OpenCollection:
    """A list or object whose end was not read yet."""

    def __init__(self, mapping: bool) -> None:
        self._is_mapping = mapping
        self._expects_key = True
        self._keys: set[str] = set()

    def check_scalar(self, scalar: str | None) -> str:
        """Check the next key or value; return the problem, if any."""
        if not self._is_mapping:
            return ""
        self._expects_key, is_key = not self._expects_key, self._expects_key
        if not is_key:
            return ""
        if scalar is None:
            return "a key must be a name"
        if scalar in self._keys:
            return f"the key {scalar[:100]!r} occurs twice"
        self._keys.add(scalar)
        return ""


def _error_text(error: yaml.YAMLError, first_line: int) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it is not valid YAML"
    return f"line {mark.line + first_line}: {problem}" if mark is not None else str(problem)
