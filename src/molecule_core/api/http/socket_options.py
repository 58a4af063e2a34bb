"""Bounds the kernel's send buffer.

Unbounded, the kernel accepts megabytes for a client that reads nothing, and the server cannot see that it is stuck.
"""

import asyncio
import socket

_MAX_UNSENT_BYTES = 128 << 10


def limit_unsent_bytes(transport: asyncio.Transport) -> None:
    """Keep unsent bytes in the transport past 128 KiB. No effect where the system lacks TCP_NOTSENT_LOWAT."""
    raw_socket = transport.get_extra_info("socket")
    if raw_socket is not None and raw_socket.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
