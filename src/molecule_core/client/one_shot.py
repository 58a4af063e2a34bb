"""One GET request with the standard library only, for programs that must start and end quickly.

Called by cli/inbox_hook.py.
"""

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_MAX_BYTES = 256 << 10


def get_json(url: str, path: str, token: str, seconds: float) -> Any:
    """Return the JSON of a path, or None on any failure. `seconds` is the timeout of each network operation."""
    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=seconds)
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return json.loads(response.read(_MAX_BYTES)) if response.status == 200 else None
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return None
