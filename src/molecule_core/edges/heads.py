"""The head of an answer: status line and headers."""

from collections.abc import Iterable
from http import HTTPStatus

from molecule_core.edges.rates import Standing
from molecule_core.edges.routes import Answer

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_SAFETY = (
    b"x-content-type-options: nosniff\r\n"
    b"referrer-policy: no-referrer\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"content-security-policy: "
)


def rate_lines(standing: Standing) -> bytes:
    """How many requests a minute, how many are left, and in how many seconds all of them are back."""
    return b"x-ratelimit-limit: %d\r\nx-ratelimit-remaining: %d\r\nx-ratelimit-reset: %d\r\n" % standing


def head_of(
    answer: Answer,
    default_headers: Iterable[tuple[bytes, bytes]],
    rate: bytes,
    *,
    keep_alive: bool,
    length: int | None = None,
) -> bytes:
    """The head of an answer. Its body is sent in one piece, or, if `length` says how long it is, bit by bit."""
    lines = [
        _STATUS_LINES[answer.status],
        b"content-type: ",
        answer.content_type,
        b"\r\ncontent-length: %d\r\n" % (len(answer.body) if length is None else length),
        _SAFETY,
        answer.policy,
        b"\r\n",
        rate,
    ]
    for name, value in (*default_headers, *answer.headers):
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(lines)


def stream_head(content_type: bytes, rate: bytes) -> bytes:
    """The head of an answer that ends with the connection."""
    return b"".join(
        (
            _STATUS_LINES[200],
            b"content-type: ",
            content_type,
            b"\r\ncache-control: no-store\r\nconnection: close\r\n",
            _SAFETY,
            b"default-src 'none'; frame-ancestors 'none'\r\n",
            rate,
            b"\r\n",
        )
    )
