"""The address of a server as people write it, in their environment and on the command line. Pure.

It may lead anywhere: whoever writes it chooses the server. (What others write is read by `targets`.)
"""

import re
from urllib.parse import urlsplit

_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s?#@]*)?")
URL_EXAMPLES = "it looks like https://host or http://127.0.0.1:8080"


def parse_server_url(text: str) -> str | None:
    """The address without slashes at its end; None if it is none: no scheme, no host, no such port, a credential or a
    query in it. Its host need not be there."""
    text = text.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number below 65536, or brackets with something else in them
        return None
    return text if has_host and text.isprintable() and _URL.fullmatch(text) else None
