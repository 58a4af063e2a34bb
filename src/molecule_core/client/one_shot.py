"""One GET request with the standard library only, for programs that must start and end quickly.

Called by cli/inbox_hook.py.
"""

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from molecule_core.common.net.proxies import proxy_for

_MAX_BYTES = 256 << 10
_PROXY_PORT = 80


def get_json(url: str, path: str, token: str, seconds: float) -> Any:
    """Return the JSON of a path, or None on any failure. `seconds` is the timeout of each network operation."""
    try:
        parts = urlsplit(url)
        connection, prefix = _open_connection(parts, proxy_for(url), seconds)
        try:
            target = prefix + parts.path.rstrip("/") + path
            connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return json.loads(response.read(_MAX_BYTES)) if response.status == 200 else None
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return None


def _open_connection(parts: SplitResult, proxy: str | None, seconds: float) -> tuple[HTTPConnection, str]:
    """Return a connection, and the prefix of a path in its requests: a proxy wants the whole URL."""
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    if proxy is None:
        return kind(parts.hostname or "", parts.port, timeout=seconds), ""
    way = urlsplit(proxy)
    connection = kind(way.hostname or "", way.port or _PROXY_PORT, timeout=seconds)
    if kind is HTTPConnection:
        return connection, f"{parts.scheme}://{parts.netloc}"
    connection.set_tunnel(parts.hostname or "", parts.port)
    return connection, ""
