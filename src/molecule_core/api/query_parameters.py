"""Query parameters of routes: declared, listed in /openapi.json, and parsed. Others are ignored."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.common.errors import InvalidField

_MAX_DIGITS = 19
MAX_INT = (1 << 62) - 1


class QueryParameter(Struct, frozen=True):
    """Query parameter with its JSON schema and, for lists, its serialization style."""

    name: str
    description: str
    schema: dict[str, Any]
    style: dict[str, Any] = {}


QueryParameters = Mapping[str, QueryParameter]
"""Query parameters of one route by name."""


def query_params(*fields: QueryParameter) -> QueryParameters:
    """Return the parameters by name."""
    return {each.name: each for each in fields}


def string_param(name: str, description: str) -> QueryParameter:
    """Declare a text parameter. An empty value counts as missing."""
    return QueryParameter(name, description, {"type": "string"})


def int_param(name: str, description: str, *, minimum: int = 0) -> QueryParameter:
    """Declare an integer parameter."""
    return QueryParameter(name, description, {"type": "integer", "minimum": minimum, "maximum": MAX_INT})


def enum_param(name: str, description: str, values: Sequence[str]) -> QueryParameter:
    """Declare a parameter with one of several values."""
    return QueryParameter(name, description, {"type": "string", "enum": list(values)})


def bool_param(name: str, description: str) -> QueryParameter:
    """Declare a boolean parameter."""
    return enum_param(name, description, ("true", "false"))


def time_param(name: str, description: str) -> QueryParameter:
    """Declare a time with an offset (RFC 3339)."""
    return QueryParameter(name, description, {"type": "string", "format": "date-time"})


def csv_param(name: str, description: str, values: Sequence[str]) -> QueryParameter:
    """Declare a comma-separated list of values."""
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
    """Return a text parameter; None if missing or empty. Raises InvalidField."""
    found = query.get(name)
    if found and "\x00" in found:  # PostgreSQL cannot compare it
        raise InvalidField(reason=f"{name} holds a NUL character; remove it")
    return found or None


def read_int_param(query: Mapping[str, str], name: str, *, minimum: int, maximum: int = MAX_INT) -> int | None:
    """Return an integer parameter, cut to `maximum`; None if missing. Raises InvalidField."""
    found = query.get(name)
    if found is None:
        return None
    # Digits only: int() also accepts signs, blanks, underscores and digits of other scripts.
    is_plain = found.isascii() and found.isdigit() and len(found) <= _MAX_DIGITS
    value = int(found) if is_plain else None
    if value is None or value < minimum:
        raise InvalidField(reason=f"{name} must be a whole number of at least {minimum}")  # control: integer-refusal
    return min(value, maximum)
