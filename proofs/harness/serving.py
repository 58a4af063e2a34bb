"""`molecule serve` as a process of its own, which can be killed and started again."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from proofs.harness.settings import START_SECONDS, Setting
from testing.ports import free_port

ADMIN_TOKEN = "proof-" + "a" * 32
_MOLECULE = str(Path(sys.executable).with_name("molecule"))
_LAST_LINES = 30
# A supervisor starts a server again that found its place still taken; it gives up after so many times.
_STARTS = 50
# A crowd that sends and answers as fast as it can is what the limits of rates and chains are there to stop.
_LIFTED = {
    f"MOLECULE_LIMIT_{name.upper()}": str(10**9)
    for name in (
        "requests_per_minute",
        "sends_per_minute",
        "org_sends_per_minute",
        "anonymous_per_minute",
        "chain_hops",
        "chain_messages",
        "pingpong",
    )
}


# Some agents listen on this machine, and answer at once: what a dead server has sent is sent again soon.
_PUSHES = {"MOLECULE_PUSH_NETWORKS": "127.0.0.0/8", "MOLECULE_LIMIT_PUSH_SECONDS": "20"}


class Place(Protocol):
    """Where people find a server, and what is known of it in the end."""

    up: asyncio.Event
    """Set while there is one that listens."""

    @property
    def port(self) -> int | Callable[[], int]:
        """Where it listens; or who tells where one does, for each connection anew."""

    @property
    def kills(self) -> int:
        """How often it was killed."""

    @property
    def refused_starts(self) -> int:
        """How often it did not start."""

    @property
    def ended_by_itself(self) -> int:
        """How often it ended without being told to."""

    @property
    def errors(self) -> list[str]:
        """What it logged as an error."""


class ServerProcess:
    """One server at one port and one place, over all its restarts."""

    def __init__(self, setting: Setting, limits: Mapping[str, int] | None = None) -> None:
        """`limits` are set behind those that are lifted for every proof, and may lower these again."""
        self._setting = setting
        self._limits = {f"MOLECULE_LIMIT_{name.upper()}": str(value) for name, value in (limits or {}).items()}
        self.port = free_port()
        self.up = asyncio.Event()
        """Set while the server listens."""
        self.kills = 0
        self.refused_starts = 0
        self.ended_by_itself = 0
        self.errors: list[str] = []
        """What the server logged as an error."""
        self._ending = False
        self._process: asyncio.subprocess.Process | None = None
        self._log: asyncio.Task[None] | None = None
        self._listening: asyncio.Future[bool] | None = None
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    async def start(self) -> None:
        """Starts it, as a supervisor does, until it listens. Raises RuntimeError with its last words."""
        async with asyncio.timeout(START_SECONDS):
            for _ in range(_STARTS):
                if await self._spawn():
                    self.up.set()
                    return
                self.refused_starts += 1
        raise RuntimeError("the server does not start:\n" + "\n".join(self._last))

    async def _spawn(self) -> bool:
        """One start; True once it listens, False if it ended before."""
        self._ending = False
        self._listening = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *(_MOLECULE, "serve", "--port", str(self.port), "--state-dir", str(self._setting.folder)),
            env=self._environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        self._log = asyncio.create_task(self._read_log(self._process))
        if await self._listening:
            return True
        await self._gone()
        return False

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("MOLECULE_", "PYTHON"))}
        return {
            **kept,
            "PUSH_INSTRUCTIONS_ENABLED": "false",  # agents here repeat the text of their mail, so it is as it was sent
            **_LIFTED,
            **_PUSHES,
            **self._limits,
            "PYTHONPATH": self._setting.python_path(),
            "MOLECULE_ADMIN_TOKEN": ADMIN_TOKEN,
            "MOLECULE_DATABASE": self._setting.database,
        }

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        """Follows the log to its end: the server says there when it listens, and what went wrong."""
        assert process.stderr is not None and self._listening is not None
        async for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip()
            self._last.append(line)
            if " ERROR " in line or line.startswith("Traceback"):
                self.errors.append(line)
            if "listening on" in line and not self._listening.done():
                self._listening.set_result(True)
        if not self._listening.done():
            self._listening.set_result(False)
        elif not self._ending:
            self.ended_by_itself += 1

    @property
    def pid(self) -> int:
        """The process that runs now, or ran last."""
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """SIGKILL, at once."""
        assert self._process is not None
        self.up.clear()
        self._ending = True
        if self._process.returncode is None:
            self._process.kill()
            self.kills += 1
        await self._gone()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing more, and holds what it held."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on where it was, and knows nothing of the time between."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self.up.clear()
        self._ending = True
        if self._process.returncode is None:
            self._process.terminate()
        async with asyncio.timeout(START_SECONDS):
            return await self._gone()

    async def _gone(self) -> int:
        assert self._process is not None and self._log is not None
        await self._log
        return await self._process.wait()
