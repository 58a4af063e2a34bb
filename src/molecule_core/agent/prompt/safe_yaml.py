"""The one door to YAML: plain values of bounded size. No anchors (a few lines of them can stand for gigabytes), no tags
(they can name classes), no key that stands twice.

Above: home, skills. Below: the parser.
"""

from typing import Any

import yaml

MAX_YAML_BYTES = 64 << 10
# Scalars, lists and objects of one text; and how deep they stand in each other.
_MAX_EVENTS, _MAX_DEPTH = 5000, 16


class InvalidYamlError(Exception):
    """This cannot be read; the text is one line that says why."""


def read_yaml(text: str) -> dict[str, Any]:
    """The object that a text of YAML is; empty for an empty one. Raises BadYaml."""
    if len(text.encode(errors="replace")) > MAX_YAML_BYTES:
        raise InvalidYamlError(f"it is larger than {MAX_YAML_BYTES} bytes")
    try:
        _check_events(text)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidYamlError(_error_text(error)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidYamlError(" ".join(str(error).split())[:200]) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidYamlError("it is no object with names")
    return value


def _check_events(text: str) -> None:
    """Looks at the text event by event, before anything is made of it. Raises BadYaml."""
    open_collections: list[_OpenCollection] = []
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        where = f"line {event.start_mark.line + 1}"
        if number > _MAX_EVENTS:
            raise InvalidYamlError("it holds too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidYamlError(f"{where}: anchors and aliases are not taken")
        if getattr(event, "tag", None) is not None:
            raise InvalidYamlError(f"{where}: tags are not taken")
        if isinstance(event, yaml.CollectionEndEvent):
            open_collections.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if open_collections and (problem := open_collections[-1].check_scalar(getattr(event, "value", None))):
                raise InvalidYamlError(f"{where}: {problem}")
            if isinstance(event, yaml.CollectionStartEvent):
                open_collections.append(_OpenCollection(isinstance(event, yaml.MappingStartEvent)))
        if len(open_collections) > _MAX_DEPTH:
            raise InvalidYamlError(f"{where}: it is nested too deep")


class _OpenCollection:
    """A list or an object that has begun."""

    def __init__(self, mapping: bool) -> None:
        self._is_mapping = mapping
        self._expects_key = True
        self._keys: set[str] = set()

    def check_scalar(self, scalar: str | None) -> str:
        """Takes the next key or value; says what is wrong with it, if anything."""
        if not self._is_mapping:
            return ""
        self._expects_key, is_key = not self._expects_key, self._expects_key
        if not is_key:
            return ""
        if scalar is None:
            return "a key is no name"
        if scalar in self._keys:
            return f"the key {scalar[:100]!r} stands twice"
        self._keys.add(scalar)
        return ""


def _error_text(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it is no YAML"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
