"""One question to a server by the standard library alone, for programs that must start and end in a blink.

Above: cli/inbox_hook.py. Below: the network.
"""

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_MAX_BYTES = 256 << 10


def get_json(url: str, path: str, token: str, seconds: float) -> Any:
    """What a path answers; None for whatever else happens. A wait for each step of the network ends after `seconds`."""
    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=seconds)
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return json.loads(answer.read(_MAX_BYTES)) if answer.status == 200 else None
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return None
