"""Ports for servers that are started: none is given to two processes of this machine at the same time."""

import functools
import os
import socket
from collections.abc import Iterator
from itertools import count

# Below those that the system gives to clients: while a server is down, a client's own call could else be given its
# port, and the server not start again.
_FIRST, _END = 20_000, 32_000
_EACH = 200


def free_port() -> int:
    """A port that is free at this moment, and is given to no other process as long as this one lives. Raises
    RuntimeError."""
    ports = _own_ports(os.getpid())  # a child that was forked asks for its own
    for _ in range(_EACH):
        port = next(ports)
        held = _hold(port)
        if held is not None:
            held.close()
            return port
    raise RuntimeError("all ports of this process are in use; end the servers that it left")


@functools.cache
def _own_ports(pid: int) -> Iterator[int]:
    """The ports of one process, over and over. The first of them is held as long as the process lives: it is how others
    see that these are taken, and goes back to the system however the process ends."""
    for first in range(_FIRST, _END, _EACH):
        mark = _hold(first)
        if mark is not None:
            return _in_turn(first, mark)
    raise RuntimeError(f"no ports are left for process {pid}; end what else proves or tests on this machine")


def _in_turn(first: int, mark: socket.socket) -> Iterator[int]:
    """`mark` stays open with it."""
    with mark:
        for turn in count():
            yield first + 1 + turn % (_EACH - 1)


def _hold(port: int) -> socket.socket | None:
    """The port, bound and not shared; None if somebody has it."""
    held = socket.socket()
    try:
        held.bind(("", port))
    except OSError:
        held.close()
        return None
    return held
