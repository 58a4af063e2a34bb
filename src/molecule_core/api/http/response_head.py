"""Renders response heads: status line and headers."""

from functools import lru_cache
from http import HTTPStatus

from molecule_core.api.http.rate_limits import RateStatus
from molecule_core.api.http.routing import Response

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_SECURITY_HEADERS = (
    b"x-content-type-options: nosniff\r\n"
    b"referrer-policy: no-referrer\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"content-security-policy: "
)


def rate_headers(rate_status: RateStatus) -> bytes:
    """Return the lines for requests per minute, requests left, and seconds until all are available again."""
    return b"x-ratelimit-limit: %d\r\nx-ratelimit-remaining: %d\r\nx-ratelimit-reset: %d\r\n" % rate_status


@lru_cache(64)
def _common_head(status: int, content_type: bytes, policy: bytes) -> bytes:
    """Return the lines shared by all responses of one kind. There are few kinds, except for file types."""
    return b"".join(
        (_STATUS_LINES[status], b"content-type: ", content_type, b"\r\n", _SECURITY_HEADERS, policy, b"\r\n")
    )


def render_head(
    response: Response,
    date: bytes,
    rate: bytes,
    *,
    keep_alive: bool,
    length: int | None = None,
) -> bytes:
    """Render the head of a response.

    `date` and `rate` are complete header lines. `length`: size of a streamed body; default: of `response.body`."""
    lines = [
        _common_head(response.status, response.content_type, response.content_security_policy),
        b"content-length: %d\r\n" % (len(response.body) if length is None else length),
        rate,
        date,
    ]
    for name, value in response.headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(lines)


def render_stream_head(content_type: bytes, rate: bytes) -> bytes:
    """Render the head of a response that ends when the connection closes."""
    return b"".join(
        (
            _STATUS_LINES[200],
            b"content-type: ",
            content_type,
            b"\r\ncache-control: no-store\r\nconnection: close\r\n",
            _SECURITY_HEADERS,
            b"default-src 'none'; frame-ancestors 'none'\r\n",
            rate,
            b"\r\n",
        )
    )
