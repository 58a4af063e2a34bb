"""Query parameters of routes: declared, listed in /openapi.json, and parsed. Others are ignored."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.common.clock import SECOND
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


def parse_time(text: str, name: str) -> int:
    """Parse a time (RFC 3339, with an offset) into microseconds. Raises InvalidField."""
    try:
        at: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise InvalidField(reason=f"{name} is not a valid time. Use a form such as 2026-11-21T22:41:07Z.") from None
    return int(at.timestamp()) * SECOND + at.microsecond


def csv_param(name: str, description: str, values: Sequence[str]) -> QueryParameter:
    """Declare a comma-separated list of values."""
    schema = {"type": "array", "items": {"type": "string", "enum": list(values)}}
    return QueryParameter(name, description, schema, {"style": "form", "explode": False})


LIMIT = int_param("limit", "Number of entries; the server's limit applies.", minimum=1)
BEFORE = string_param("before", "Page backwards from this id.")
AFTER = string_param("after", "Page forwards from this id.")
WAIT = int_param("wait", "Seconds to wait for a result; the server's limit applies.")
ORG = string_param("org_id", "Organisation, for the admin.")
CONFIRM = bool_param("confirm", "Without true, nothing is changed, and the response (409) lists what would be removed.")
CONFIRM_NAME = string_param("name", "Name of the workspace, as a confirmation. Rejected if it is not the current name.")


def read_text_param(query: Mapping[str, str], name: str) -> str | None:
    """Return a text parameter; None if missing or empty. Raises InvalidField."""
    found = query.get(name)
    if found and "\x00" in found:  # PostgreSQL cannot compare it
        raise InvalidField(reason=f"{name} cannot have a NUL character. Remove it.")
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
        raise InvalidField(
            reason=f"{name} must be a whole number of at least {minimum}. Use digits only."
        )  # control: integer-refusal
    return min(value, maximum)


def read_state_param(query: Mapping[str, str], allowed: Sequence[str]) -> str | None:
    """Return the parameter `state`; None if missing. Raises InvalidField if it is not one of those allowed."""
    state = read_text_param(query, "state")
    if state is not None and state not in allowed:
        raise InvalidField(reason=f"state has an unknown value. Use one of: {', '.join(allowed)}.")
    return state
