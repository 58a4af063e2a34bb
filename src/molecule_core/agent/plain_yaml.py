"""The one door to YAML: plain values of bounded size. No anchors (a few lines of them can stand for gigabytes), no tags
(they can name classes), no key that stands twice.

Above: home, skills. Below: the parser.
"""

from typing import Any

import yaml

MOST_BYTES = 64 << 10
# Scalars, lists and objects of one text; and how deep they stand in each other.
_MOST_EVENTS, _MOST_DEPTH = 5000, 16


class BadYaml(Exception):
    """This cannot be read; the text is one line that says why."""


def read_yaml(text: str) -> dict[str, Any]:
    """The object that a text of YAML is; empty for an empty one. Raises BadYaml."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise BadYaml(f"it is larger than {MOST_BYTES} bytes")
    try:
        _check(text)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadYaml(_said(error)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadYaml(" ".join(str(error).split())[:200]) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BadYaml("it is no object with names")
    return value


def _check(text: str) -> None:
    """Looks at the text event by event, before anything is made of it. Raises BadYaml."""
    open_: list[_Open] = []
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        where = f"line {event.start_mark.line + 1}"
        if number > _MOST_EVENTS:
            raise BadYaml("it holds too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise BadYaml(f"{where}: anchors and aliases are not taken")
        if getattr(event, "tag", None) is not None:
            raise BadYaml(f"{where}: tags are not taken")
        if isinstance(event, yaml.CollectionEndEvent):
            open_.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if open_ and (said := open_[-1].takes(getattr(event, "value", None))):
                raise BadYaml(f"{where}: {said}")
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(_Open(isinstance(event, yaml.MappingStartEvent)))
        if len(open_) > _MOST_DEPTH:
            raise BadYaml(f"{where}: it is nested too deep")


class _Open:
    """A list or an object that has begun."""

    def __init__(self, mapping: bool) -> None:
        self._mapping = mapping
        self._key = True
        self._keys: set[str] = set()

    def takes(self, scalar: str | None) -> str:
        """Takes the next key or value; says what is wrong with it, if anything."""
        if not self._mapping:
            return ""
        self._key, is_key = not self._key, self._key
        if not is_key:
            return ""
        if scalar is None:
            return "a key is no name"
        if scalar in self._keys:
            return f"the key {scalar[:100]!r} stands twice"
        self._keys.add(scalar)
        return ""


def _said(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it is no YAML"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
