"""Passes lines between an agent and its bridge: `python -m molecule_core.agent.bridges.acp.tool_relay SOCKET`.

An agent starts this program as an MCP server. It holds no credentials: the tools run in the bridge.
"""

import contextlib
import os
import socket
import sys
import threading

_CHUNK = 64 << 10


def main(path: str) -> int:
    """Relay until either side ends; return the exit code."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        sys.stderr.write("molecule: the bridge has ended; start it again\n")
        return 1
    threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
    with contextlib.suppress(OSError):
        while chunk := connection.recv(_CHUNK):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return 0


def _send_input(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
