"""Request targets (RFC 9112, 3.2)."""

import httptools

from molecule_core.common.errors import BadHttp


def split_absolute_form(url: bytes) -> tuple[bytes, bytes]:
    """Return (host, target in origin form) of an absolute-form target, as sent to a proxy. Raises BadHttp."""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise BadHttp from None
    if parsed.host is None:
        raise BadHttp
    return parsed.host, (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
