"""`molecule mcp` as its host starts it: the installed command, lines of JSON over two pipes."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct

from benchmarks.figures import Failed
from benchmarks.load import Seat
from benchmarks.machine import WORK, cpu_of, memory_of
from benchmarks.servers import START_SECONDS, STOP_SECONDS, Server, clean_environment

_LOOK_SECONDS = 0.1
_QUIET_LOOKS = 5
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Started(Struct, frozen=True):
    """What an agent had used when its host had read the first answer."""

    cpu: float
    memory: float
    seconds: float


def listed(server: Server, seats: list[Seat]) -> dict[str, str]:
    """The environment of an agent with these seats."""
    url = f"http://127.0.0.1:{server.port}"
    entries = [{"id": seat.id, "token": seat.token, "platform_url": url} for seat in seats]
    return {"MOLECULE_WORKSPACES": json.dumps(entries)}


def bare_python() -> float:
    """CPU seconds of a Python that starts and does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        time.sleep(_LOOK_SECONDS * 2)
        used = cpu_of(process.pid)
        process.communicate(b"\n", STOP_SECONDS)
    return used


class Agent:
    """A running `molecule mcp`. A context manager."""

    def __init__(self, own: dict[str, str]) -> None:
        WORK.mkdir(exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(prefix="agent-", dir=WORK)
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            [str(Path(sys.prefix, "bin", "molecule")), "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**clean_environment(), "CONFIGS_DIR": self._folder.name, **own},
        )
        self._number = 0

    def __enter__(self) -> "Agent":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process.stdout.close()
        self._folder.cleanup()

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Failed("molecule mcp ended before it answered")
        return json.loads(line)["result"]

    def greet(self) -> Started:
        """The handshake, and what it took."""
        self._ask("initialize", _HELLO)
        pid = self._process.pid
        return Started(cpu_of(pid), memory_of(pid), time.monotonic() - self._begun)

    def wait_until_seated(self) -> None:
        """Until every seat is registered and the process has come to rest."""
        end, quiet, used = time.monotonic() + START_SECONDS, 0, 0.0
        while quiet < _QUIET_LOOKS:
            if time.monotonic() > end:
                raise Failed("molecule mcp did not get all its seats")
            note = self._ask("tools/call", {"name": "inbox_peek", "arguments": {}})["structuredContent"]["note"]
            before, used = used, cpu_of(self._process.pid)
            quiet = quiet + 1 if note == "" and used - before < _LOOK_SECONDS / 4 else 0
            time.sleep(_LOOK_SECONDS)

    def memory(self) -> float:
        """Resident memory in MiB."""
        return memory_of(self._process.pid)

    def threads(self) -> int:
        """How many threads it has."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("Threads:")[1].split()[0])
