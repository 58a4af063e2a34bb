"""What a route may be asked in its query: each field is declared, in /openapi.json too; no other one is read.

Above: the routes. Below: nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.common.errors import InvalidField

_MAX_DIGITS = 19
MAX_INT = (1 << 62) - 1


class QueryParameter(Struct, frozen=True):
    """A field of a query: its name, what it is for, its JSON schema, and how a list is written, if it is one."""

    name: str
    description: str
    schema: dict[str, Any]
    style: dict[str, Any] = {}


QueryParameters = Mapping[str, QueryParameter]
"""The fields of one route by their names."""


def query_params(*fields: QueryParameter) -> QueryParameters:
    """The fields of one route."""
    return {each.name: each for each in fields}


def string_param(name: str, description: str) -> QueryParameter:
    """Any text; an empty one says nothing."""
    return QueryParameter(name, description, {"type": "string"})


def int_param(name: str, description: str, *, minimum: int = 0) -> QueryParameter:
    """A whole number."""
    return QueryParameter(name, description, {"type": "integer", "minimum": minimum, "maximum": MAX_INT})


def enum_param(name: str, description: str, values: Sequence[str]) -> QueryParameter:
    """One of some words."""
    return QueryParameter(name, description, {"type": "string", "enum": list(values)})


def bool_param(name: str, description: str) -> QueryParameter:
    """Yes or no."""
    return enum_param(name, description, ("true", "false"))


def time_param(name: str, description: str) -> QueryParameter:
    """A time with an offset (RFC 3339)."""
    return QueryParameter(name, description, {"type": "string", "format": "date-time"})


def csv_param(name: str, description: str, values: Sequence[str]) -> QueryParameter:
    """Some of some words, with commas between."""
    schema = {"type": "array", "items": {"type": "string", "enum": list(values)}}
    return QueryParameter(name, description, schema, {"style": "form", "explode": False})


LIMIT = int_param("limit", "So many at most; the server's own limit cuts it.", minimum=1)
BEFORE = string_param("before", "The id of the row from which to page back.")
AFTER = string_param("after", "The row behind which to go on.")
WAIT = int_param("wait", "So many seconds are waited for something to come; the server's own limit cuts it.")
ORG = string_param("org_id", "Which organisation, for the admin.")
CONFIRM = bool_param("confirm", "Without true nothing is done, and 409 tells what would be.")
CONFIRM_NAME = string_param("name", "What a person typed to be sure: it is done only if that is the seat's name now.")


def read_text_param(query: Mapping[str, str], name: str) -> str | None:
    """A text from the query; None if it is not there or empty. Raises InvalidField."""
    found = query.get(name)
    if found and "\x00" in found:  # PostgreSQL cannot compare it
        raise InvalidField(reason=f"{name} holds a NUL character; remove it")
    return found or None


def read_int_param(query: Mapping[str, str], name: str, *, minimum: int, maximum: int = MAX_INT) -> int | None:
    """A number from the query; None if it is not there. A larger one than `most` is cut. Raises InvalidField."""
    found = query.get(name)
    if found is None:
        return None
    # Plain digits only: int() would also take signs, blanks, underscores and the digits of other scripts.
    is_plain = found.isascii() and found.isdigit() and len(found) <= _MAX_DIGITS
    value = int(found) if is_plain else None
    if value is None or value < minimum:
        raise InvalidField(reason=f"{name} must be a whole number of at least {minimum}")  # control: integer-refusal
    return min(value, maximum)
