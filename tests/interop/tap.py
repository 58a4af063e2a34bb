"""Stands between a host and a stdio server and writes down each line that passes: `python tap.py FILE COMMAND...`.

A line of FILE: `> ` or `< ` (to the server, from it) and the line as it was.
"""

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def passing(mark: bytes, source: IO[bytes], sink: IO[bytes], log: IO[bytes]) -> None:
    """Until the source ends; then the sink is closed."""
    for line in source:
        log.write(mark + line)
        try:
            sink.write(line)
            sink.flush()
        except OSError:  # nobody listens any more
            break
    sink.close()


def main() -> int:
    """The server's exit code."""
    file, *command = sys.argv[1:]
    with Path(file).open("ab", buffering=0) as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin is not None
        assert server.stdout is not None
        host = (b"> ", sys.stdin.buffer, server.stdin, log)
        threading.Thread(target=passing, args=host, daemon=True).start()
        passing(b"< ", server.stdout, sys.stdout.buffer, log)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
