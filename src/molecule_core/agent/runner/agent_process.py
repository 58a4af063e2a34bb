"""Runs one agent: starts its bridge, starts it again with back-off, keeps the end of its output, and ends it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.process_runner import ProcessStarter, ProgramNotStartedError, exit_reason
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.agent.sanitize import strip_invisible
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.common.logs import redact
from molecule_core.common.text import truncate_line
from molecule_core.wire.schemas.runners import RunReport, RunState

_log = logging.getLogger("molecule.runner")
_CHUNK = 64 << 10
_TEXT_LENGTH = 200
# Exit codes of a bridge that no new start changes: invalid arguments, and a token that the server rejects.
_FINAL_CODES = (2, 3)


class AgentParts(Struct, frozen=True, eq=False):
    """What all agents of a runner share. `on_change`: called when the state of an agent changes."""

    state: Path
    clock: Clock
    randomness: Randomness
    settings: RunnerSettings
    on_change: Callable[[], None]


class ManagedAgent(Protocol):
    """An agent of a runner."""

    def report(self) -> RunReport:
        """Return the state of the agent."""

    async def end(self) -> None:
        """End its process."""


class AttachedAgent(Struct, frozen=True):
    """An agent that a person starts. It has no process of the runner."""

    workspace_id: str

    def report(self) -> RunReport:
        """Return its state: its configuration is written."""
        return RunReport(self.workspace_id, "attached")

    async def end(self) -> None:
        """Do nothing: its process is the person's."""


class LogBuffer:
    """The end of an output, at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()

    def append(self, data: bytes) -> None:
        """Append output; the oldest is dropped."""
        self._kept += data
        del self._kept[: max(0, len(self._kept) - self._max_bytes)]

    @property
    def text(self) -> str:
        """Return the output without credentials and invisible characters."""
        return redact(strip_invisible(bytes(self._kept).decode(errors="replace")))

    def last_line(self) -> str:
        """Return the last line that is not empty."""
        lines = [each for each in self.text.splitlines() if each.strip()]
        return truncate_line(lines[-1], _TEXT_LENGTH) if lines else ""


class SupervisedBridge:
    """The process of one agent, which is started again until it is ended."""

    def __init__(
        self, workspace_id: str, command: Sequence[str], environment: Mapping[str, str], parts: AgentParts
    ) -> None:
        self.workspace_id = workspace_id
        self.log = LogBuffer(parts.settings.log_bytes)
        self._parts = parts
        self._starter = ProcessStarter(
            command,
            environment,
            parts.state,
            clock=parts.clock,
            settings=BridgeSettings(end_seconds=parts.settings.end_seconds),
        )
        self._run_state: RunState = "starting"
        self._text = ""
        self._restarts = 0
        self._task: asyncio.Task[None] | None = None

    def report(self) -> RunReport:
        """Return the state of the agent."""
        return RunReport(self.workspace_id, self._run_state, self._text, self._restarts)

    def start(self) -> None:
        """Start the agent, and again whenever it ends."""
        self._task = asyncio.create_task(self._run_until_final())

    async def end(self) -> None:
        """End the process with its children, and start it no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run_until_final(self) -> None:
        settings, clock = self._parts.settings, self._parts.clock
        back_off = BackOff(settings.restart_seconds, settings.restart_most_seconds, self._parts.randomness)
        while True:
            started_at = clock.monotonic()
            code, reason = await self._run_once()
            if code in _FINAL_CODES:
                self._change("stopped", reason)
                return
            if clock.monotonic() - started_at >= settings.stable_seconds:
                back_off.reset()
            self._restarts += 1
            self._change("retrying", reason)
            await sleep(clock, back_off.next_delay())

    async def _run_once(self) -> tuple[int | None, str]:
        """Run the process until it ends; return its exit code, if it had one, and why it ended."""
        try:
            lock = self._starter.open_lock(self.workspace_id)
        except OSError as error:
            return None, f"its lock cannot be opened: {error.strerror}"
        try:
            await self._starter.end_previous(lock)
            process = await self._starter.start_process(lock, {})
            self._change("running", "")
            try:
                await self._read_output(process)
            finally:
                await self._starter.end_process(process)
                await self._starter.drain_streams(process, process.stdout, process.stderr)
            return process.returncode, exit_reason(process.returncode or 0, self.log.last_line())
        except ProgramNotStartedError as error:
            return None, str(error)
        finally:
            lock.release()

    async def _read_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None and process.stderr is not None
        reading = asyncio.gather(self._read_stream(process.stdout), self._read_stream(process.stderr))
        try:
            await self._starter.wait_exited(process)
            await self._parts.clock.wait(asyncio.shield(reading), self._parts.settings.end_seconds)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read_stream(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            self.log.append(chunk)

    def _change(self, state: RunState, text: str) -> None:
        self._run_state, self._text = state, truncate_line(text, _TEXT_LENGTH)
        if text:
            _log.info("agent %s: %s: %s", self.workspace_id, state, self._text)
        self._parts.on_change()
