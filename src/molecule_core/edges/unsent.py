"""How much the system may hold of what was written and has not left: without a bound it takes megabytes for a client
that reads nothing, which nobody here sees, and the client seems to read.

Above: what writes to clients at length (`edges/sinks.py`, `edges/sending.py`).
"""

import asyncio
import socket

_MOST_BYTES = 128 << 10


def bound_unsent(transport: asyncio.Transport) -> None:
    """From here on the rest waits in the transport. Where the system cannot be told, nothing changes."""
    bare = transport.get_extra_info("socket")
    if bare is not None and bare.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MOST_BYTES)
