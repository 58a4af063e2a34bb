"""Parses the server address that people write in the environment and on the command line. Pure.

The address may lead anywhere, because the user chooses the server. Urls from outside are parsed by `parsed_url`.
"""

import re
from urllib.parse import urlsplit

_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s?#@]*)?")
URL_EXAMPLES = "Use one like https://host or http://127.0.0.1:8080."


def parse_server_url(text: str) -> str | None:
    """Return the address without trailing slashes; None if it is invalid.

    Invalid: no scheme, no host, port 0 or out of range, a credential or a query. The host need not exist."""
    text = text.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number below 65536, or invalid brackets
        return None
    return text if has_host and text.isprintable() and _URL.fullmatch(text) else None
