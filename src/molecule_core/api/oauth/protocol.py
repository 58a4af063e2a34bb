"""Forms and errors of the OAuth endpoints, which clients call with form bodies and which answer with JSON."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from molecule_core.access.oauth_rules import GrantRefused
from molecule_core.api.http.response import Response
from molecule_core.api.routing import Request

_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 50
NO_STORE = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def parse_parameters(encoded: str) -> dict[str, str]:
    """Return the parameters of a form or query. None may occur twice (RFC 6749, 3.1). Raises GrantRefused."""
    try:
        found = parse_qsl(encoded, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise GrantRefused("invalid_request", "the parameters are not valid, or there are too many") from None
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise GrantRefused("invalid_request", "a parameter occurs twice")
    if any("\x00" in value for _, value in found):
        raise GrantRefused("invalid_request", "a parameter has a NUL character")
    return dict(found)


def parse_form(request: Request) -> dict[str, str]:
    """Return the fields of a form body. Raises GrantRefused."""
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise GrantRefused("invalid_request", f"the body must be {_FORM}")
    try:
        return parse_parameters(request.body.decode("ascii"))
    except UnicodeDecodeError:
        raise GrantRefused("invalid_request", "the body is not encoded with percent signs") from None


def parse_query(request: Request) -> dict[str, str]:
    """Return the parameters of the query. Raises GrantRefused."""
    try:
        return parse_parameters(request.query_string.decode("ascii"))
    except UnicodeDecodeError:
        raise GrantRefused("invalid_request", "the query is not encoded with percent signs") from None


def required(fields: Mapping[str, str], name: str) -> str:
    """Return a field that must not be missing or empty. Raises GrantRefused."""
    value = fields.get(name, "")
    if not value:
        raise GrantRefused("invalid_request", f"{name} is missing")
    return value


def error_json(refused: GrantRefused, status: int = 400) -> Response:
    """Return the response to a refused request of a client (RFC 6749, 5.2)."""
    return oauth_json({"error": refused.error, "error_description": refused.reason}, status)


def oauth_json(value: dict[str, Any], status: int = 200) -> Response:
    """Return a JSON response that no cache may keep."""
    return Response(msgspec.json.encode(value), status, headers=NO_STORE)


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Return a redirect address with more parameters in its query."""
    parts = urlsplit(uri)
    query = "&".join(filter(None, (parts.query, urlencode(parameters))))
    return urlunsplit(parts._replace(query=query)) if parts.netloc else f"{uri.partition('?')[0]}?{query}"
