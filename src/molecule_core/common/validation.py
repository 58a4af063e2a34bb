"""Turns validation errors of msgspec into the error texts of the product: subject, reason with the limit, advice.

Texts of values are never repeated: they may be long, or secrets. Numbers are.
"""

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import msgspec.inspect

_WHERE = re.compile(r"(?s)(.*?)(?: - at `(key)` in `(.*?)`| - at `(.*?)`)?")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_BOUND = re.compile(r"Expected `(\w+)` (<=|>=|<|>) (\S+)")
_LENGTH = re.compile(r"Expected `(\w+)` of length (<=|>=|)\s?(\d+)(?:, got (\d+))?")
_MULTIPLE = re.compile(r"Expected `\w+` that's a multiple of (\S+)")
_TYPE = re.compile(r"Expected `(.+)`, got `(.+)`")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.+)`")
_FORMAT = re.compile(r"Invalid (?:RFC3339|ISO8601) encoded (\w+)|Invalid (\w+)")

_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "base64 text",
    "datetime": "a time such as 2026-11-21T09:00:00Z",
    "date": "a date such as 2026-11-21",
    "time": "a time of day such as 09:00:00",
    "duration": "a duration such as PT90S",
    "uuid": "a UUID",
    "base64": "base64 text",
}
_BOUNDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_UNITS = {"str": ("characters", "character"), "object": ("members", "member"), "bytes": ("bytes", "byte")}
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_MAX_NAME_LENGTH = 100


def validation_error_text(
    error: msgspec.ValidationError, *, value: Any = None, shape: Any = None, subject: str = "the body"
) -> str:
    """Return the sentences for a validation error.

    `value`: what was validated, for the actual number or length. `shape`: the type, for the values of an enum.
    `subject`: name of the whole value, for an error that concerns no member."""
    found = _WHERE.fullmatch(str(error))
    assert found is not None
    reason, key, in_path, path = found.groups()
    steps = [name or index for name, index in _STEP.findall(in_path or path or "")]
    name = _dotted_name(steps)
    if key:
        return f"a key of {name or subject} cannot have this value. Use another key."
    actual, allowed = _value_at(value, steps), _allowed_values(_type_at(shape, steps))
    return (
        _member_text(reason, f"{name}." if name else "")
        or _bound_text(reason, name or subject, actual)
        or _type_text(reason, name or subject, allowed)
    )


def _member_text(reason: str, prefix: str) -> str | None:
    if found := _MISSING.fullmatch(reason):
        return f"{prefix}{found[1]} is missing. Add it."
    if found := _UNKNOWN.fullmatch(reason):
        return f"{prefix}{found[1][:_MAX_NAME_LENGTH]} is not a known name. Remove it, or correct its spelling."
    return None


def _bound_text(reason: str, name: str, actual: Any) -> str | None:
    if found := _LENGTH.fullmatch(reason):
        kind, sign, limit, given = found.groups()
        size = given or (str(len(actual)) if isinstance(actual, str | bytes | list | tuple | dict) else "")
        bound = f"{_BOUNDS[sign]} {limit}" if sign else f"exactly {limit}"
        has = "be empty" if size == "0" else f"have {size or 'this number of'} {_units(kind, size)}"
        return f"{name} cannot {has}. Use {bound} {_units(kind, limit)}."
    if found := _BOUND.fullmatch(reason):
        return f"{name} cannot be {_number(actual)}. Use a number of {_BOUNDS[found[2]]} {found[3]}."
    if found := _MULTIPLE.fullmatch(reason):
        return f"{name} cannot be {_number(actual)}. Use a multiple of {found[1]}."
    return None


def _type_text(reason: str, name: str, allowed: str) -> str:
    if found := _TYPE.fullmatch(reason):
        given = "a fraction" if found[2] == "float" else _nouns(found[2])
        return f"{name} cannot be {given}. Use {allowed or _nouns(found[1])}."
    found = _FORMAT.match(reason)
    form = _NOUNS.get((found[1] or found[2]).lower()) if found else None
    return f"{name} cannot have this value. Use {form or allowed or 'the documented form'}."


def _units(kind: str, count: str) -> str:
    units, unit = _UNITS.get(kind, ("entries", "entry"))
    return unit if count == "1" else units


def _dotted_name(steps: Sequence[str]) -> str:
    """Return the path as people write it: `limits.parts`, `parts[0].text`."""
    name = ""
    for step in steps:
        name += f"[{step}]" if step == "..." or step.isdigit() else f".{step}"
    return name.removeprefix(".")


def _nouns(types: str) -> str:
    return " or ".join(_NOUNS.get(each, each) for each in types.split(" | "))


def _number(actual: Any) -> str:
    """Return a number as it was given, also one in a setting's text."""
    text = str(actual) if isinstance(actual, str | int | float) else ""
    return text if _NUMBER.fullmatch(text) else "this number"


def _value_at(value: Any, steps: Sequence[str]) -> Any:
    """Return the member that a path names, None if it cannot be found."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _type_at(shape: Any, steps: Sequence[str]) -> Any:
    """Return the type of the member that a path names, None if it cannot be found."""
    if shape is None:
        return None
    kind: Any = msgspec.inspect.type_info(shape)
    for step in steps:
        kind = next(iter(_inner_types(kind, step)), None)
    return kind


def _inner_types(kind: Any, step: str) -> list[Any]:
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):
        return [inner for each in kind.types for inner in _inner_types(each, step)]
    if isinstance(kind, msgspec.inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        return [kind.item_type]
    return [kind.value_type] if isinstance(kind, msgspec.inspect.DictType) else []


def _allowed_values(kind: Any) -> str:
    """Return the values of an enum or of literals, empty for other types."""
    while isinstance(kind, msgspec.inspect.Metadata):
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):
        return ", ".join(filter(None, map(_allowed_values, kind.types)))
    if isinstance(kind, msgspec.inspect.LiteralType):
        return _choices(kind.values)
    if isinstance(kind, msgspec.inspect.EnumType) and issubclass(kind.cls, enum.Enum):
        return _choices([each.value for each in kind.cls])
    return ""


def _choices(values: Sequence[Any]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last
