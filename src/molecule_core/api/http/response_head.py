"""Renders response heads: status line and headers."""

from functools import lru_cache
from http import HTTPStatus

from molecule_core.api.http.rate_limits import RateStatus
from molecule_core.api.http.response import EventStream, Response

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# A page that another site opens in a window and that leads back there.
_OPENED_HEADERS = (*_SECURITY_HEADERS[:-1], (b"cross-origin-opener-policy", b"unsafe-none"))
_POLICY_NAME = b"content-security-policy: "
_SECURITY_LINES = b"".join(b"%b: %b\r\n" % each for each in _SECURITY_HEADERS) + _POLICY_NAME
_OPENED_LINES = b"".join(b"%b: %b\r\n" % each for each in _OPENED_HEADERS) + _POLICY_NAME


def rate_headers(rate_status: RateStatus) -> bytes:
    """Return the lines for requests per minute, requests left, and seconds until all are available again."""
    return b"x-ratelimit-limit: %d\r\nx-ratelimit-remaining: %d\r\nx-ratelimit-reset: %d\r\n" % rate_status


def rate_header_list(rate_status: RateStatus) -> list[tuple[bytes, bytes]]:
    """Return the headers of `rate_headers` as pairs."""
    names = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")
    return [(name, b"%d" % value) for name, value in zip(names, rate_status, strict=True)]


@lru_cache(64)
def _common_head(status: int, content_type: bytes, policy: bytes, keeps_opener: bool) -> bytes:
    """Return the lines shared by all responses of one kind. There are few kinds, except for file types."""
    security = _OPENED_LINES if keeps_opener else _SECURITY_LINES
    return b"".join((_STATUS_LINES[status], b"content-type: ", content_type, b"\r\n", security, policy, b"\r\n"))


def render_head(response: Response, date: bytes, rate: bytes, *, keep_alive: bool, length: int | None = None) -> bytes:
    """Render the head of a response.

    `date` and `rate` are complete header lines. `length`: size of a streamed body; default: of `response.body`."""
    lines = [
        _common_head(response.status, response.content_type, response.content_security_policy, response.keeps_opener),
        b"content-length: %d\r\n" % (len(response.body) if length is None else length),
        rate,
        date,
    ]
    for name, value in response.headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(lines)


def render_stream_head(response: Response, rate: bytes) -> bytes:
    """Render the head of a response that ends when the connection closes."""
    own_lines = b"".join(b"%b: %b\r\n" % each for each in response.headers)
    return b"".join(
        (
            _STATUS_LINES[response.status],
            b"content-type: ",
            response.content_type,
            b"\r\n",
            own_lines,
            b"connection: close\r\n",
            _SECURITY_LINES,
            response.content_security_policy,
            b"\r\n",
            rate,
            b"\r\n",
        )
    )


def header_list(response: Response, rate_status: RateStatus, *, length: int | None = None) -> list[tuple[bytes, bytes]]:
    """Return the headers of `render_head` as pairs, without those of the connection (date, connection).

    `length`: size of a streamed body; default: of `response.body`."""
    body_length = len(response.body) if length is None else length
    is_endless = isinstance(response.takeover, EventStream)
    return [
        (b"content-type", response.content_type),
        *(_OPENED_HEADERS if response.keeps_opener else _SECURITY_HEADERS),
        (b"content-security-policy", response.content_security_policy),
        *(() if is_endless else ((b"content-length", b"%d" % body_length),)),
        *rate_header_list(rate_status),
        *response.headers,
    ]
