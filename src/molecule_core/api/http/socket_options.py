"""How much the system may hold of what was written and has not left: without a bound it takes megabytes for a client
that reads nothing, which nobody here sees, and the client seems to read.

Above: what writes to clients at length (`api/live/held_connection.py`, `api/http/streaming_response.py`).
"""

import asyncio
import socket

_MAX_UNSENT_BYTES = 128 << 10


def limit_unsent_bytes(transport: asyncio.Transport) -> None:
    """From here on the rest waits in the transport. Where the system cannot be told, nothing changes."""
    raw_socket = transport.get_extra_info("socket")
    if raw_socket is not None and raw_socket.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
