"""What a route may be asked in its query: each field is declared, in /openapi.json too; no other one is read.

Above: the routes. Below: nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.ground.errors import InvalidField

_MOST_DIGITS = 19
LARGEST = (1 << 62) - 1


class Parameter(Struct, frozen=True):
    """A field of a query: its name, what it is for, its JSON schema, and how a list is written, if it is one."""

    name: str
    about: str
    schema: dict[str, Any]
    style: dict[str, Any] = {}


Query = Mapping[str, Parameter]
"""The fields of one route by their names."""


def asks(*fields: Parameter) -> Query:
    """The fields of one route."""
    return {each.name: each for each in fields}


def text(name: str, about: str) -> Parameter:
    """Any text; an empty one says nothing."""
    return Parameter(name, about, {"type": "string"})


def number(name: str, about: str, *, least: int = 0) -> Parameter:
    """A whole number."""
    return Parameter(name, about, {"type": "integer", "minimum": least, "maximum": LARGEST})


def choice(name: str, about: str, values: Sequence[str]) -> Parameter:
    """One of some words."""
    return Parameter(name, about, {"type": "string", "enum": list(values)})


def flag(name: str, about: str) -> Parameter:
    """Yes or no."""
    return choice(name, about, ("true", "false"))


def moment(name: str, about: str) -> Parameter:
    """A time with an offset (RFC 3339)."""
    return Parameter(name, about, {"type": "string", "format": "date-time"})


def words(name: str, about: str, values: Sequence[str]) -> Parameter:
    """Some of some words, with commas between."""
    schema = {"type": "array", "items": {"type": "string", "enum": list(values)}}
    return Parameter(name, about, schema, {"style": "form", "explode": False})


LIMIT = number("limit", "So many at most; the server's own limit cuts it.", least=1)
BEFORE = text("before", "The id of the row from which to page back.")
AFTER = text("after", "The row behind which to go on.")
WAIT = number("wait", "So many seconds are waited for something to come; the server's own limit cuts it.")
ORG = text("org_id", "Which organisation, for the admin.")
CONFIRM = flag("confirm", "Without true nothing is done, and 409 tells what would be.")
TYPED = text("name", "What a person typed to be sure: it is done only if that is the seat's name now.")


def plain_text(query: Mapping[str, str], name: str) -> str | None:
    """A text from the query; None if it is not there or empty. Raises InvalidField."""
    found = query.get(name)
    if found and "\x00" in found:  # PostgreSQL cannot compare it
        raise InvalidField(reason=f"{name} holds a NUL character; remove it")
    return found or None


def whole_number(query: Mapping[str, str], name: str, *, least: int, most: int = LARGEST) -> int | None:
    """A number from the query; None if it is not there. A larger one than `most` is cut. Raises InvalidField."""
    found = query.get(name)
    if found is None:
        return None
    # Plain digits only: int() would also take signs, blanks, underscores and the digits of other scripts.
    is_plain = found.isascii() and found.isdigit() and len(found) <= _MOST_DIGITS
    value = int(found) if is_plain else None
    if value is None or value < least:
        raise InvalidField(reason=f"{name} must be a whole number of at least {least}")  # control: integer-refusal
    return min(value, most)
