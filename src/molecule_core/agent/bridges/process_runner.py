"""Runs a program for one turn: starts it, writes its input, reads its output, and ends it with all its children.

A program that outlives a killed bridge would work on a message that is delivered to the next bridge too. So each
program inherits and holds a lock: the next bridge detects that it still runs, and ends it first.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.sanitize import strip_invisible
from molecule_core.common.clock import Clock
from molecule_core.common.logs import redact

_log = logging.getLogger("molecule.bridge")
_CHUNK = 64 << 10
# Lines of standard error logged per turn; the last line is also kept as the reason of a failure.
_MAX_LOGGED_LINES = 200
_POLL_SECONDS = 0.05


class TurnResult(Struct, frozen=True):
    """Result of a turn: the text, or a non-empty `reason` of the failure."""

    text: str = ""
    reason: str = ""


class ProgramNotStartedError(Exception):
    """The program could not be started; the text says why."""


SWEEP_VARIABLE = "MOLECULE_BRIDGE_PROGRAM"
"""Variable that marks a program of a session and all its children, also those that have left its process group."""


class ProcessLock:
    """Lock held by the program of a turn while it runs, even if its bridge has exited."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def try_acquire(self) -> bool:
        """Acquire the lock; return False if another process holds it."""
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def write_holder(self, pid: int) -> None:
        """Write the process group of the holder."""
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, str(pid).encode(), 0)

    def read_holder(self) -> int | None:
        """Return the process group that holds the lock or held it last."""
        text = os.pread(self.handle, 32, 0)
        return int(text) if text.isdigit() and int(text) > 1 else None

    def release(self) -> None:
        """Release the lock, also for processes that inherited it."""
        fcntl.flock(self.handle, fcntl.LOCK_UN)
        os.close(self.handle)


class ProcessStarter:
    """Starter of a command; also ends it with all its children."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        state: Path,
        *,
        clock: Clock,
        settings: BridgeSettings,
    ) -> None:
        self._command = command
        self._environment = environment
        self._state = state
        self._clock = clock
        self._settings = settings

    def open_lock(self, slot: str) -> ProcessLock:
        """Open the lock of a slot. Raises OSError."""
        return ProcessLock(self._state / f".bridge_turn_{slot}")

    def mark_of(self, slot: str) -> str:
        """Return the mark of a slot's processes, the same for every bridge of this state folder."""
        return hashlib.sha256(f"{self._state.absolute()} {slot}".encode()).hexdigest()[:32]

    async def end_previous(self, lock: ProcessLock) -> None:
        """End the program that an earlier bridge left running in this slot."""
        for _ in range(int(self._settings.end_seconds / _POLL_SECONDS) + 1):
            if lock.try_acquire():
                return
            holder = lock.read_holder()
            if holder is not None:
                _log.warning("ending process group %s of a killed bridge", holder)
                _signal_group(holder, signal.SIGKILL)
            await sleep(self._clock, _POLL_SECONDS)
        _log.warning("a process of an earlier turn is still running; continuing")

    async def start_process(
        self,
        lock: ProcessLock,
        variables: Mapping[str, str],
        *,
        limit: int = _CHUNK,
        arguments: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> asyncio.subprocess.Process:
        """Start the program, which holds the lock while it runs. Raises ProgramNotStartedError.

        `arguments`: further ones of this start."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments,
                cwd=cwd,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**self._environment, **variables},
                pass_fds=(lock.handle,),
                start_new_session=True,  # Ctrl-C must reach only the bridge, which ends the program in order
                limit=limit,
            )
        except OSError as error:
            raise ProgramNotStartedError(
                f"{self._command[0]} could not be started: {error.strerror or error}"
            ) from None
        lock.write_holder(process.pid)
        return process

    async def end_process(self, process: asyncio.subprocess.Process) -> None:
        """End the process group: SIGTERM, then SIGKILL."""
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(asyncio.CancelledError):
                await self._clock.wait(self.wait_exited(process), self._settings.end_seconds)
        _signal_group(process.pid, signal.SIGKILL)
        await self.wait_exited(process)

    async def wait_exited(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the program has exited. `Process.wait` also waits for its pipes, which a child may keep open."""
        while process.returncode is None:
            await self._clock.wait(process.wait(), _POLL_SECONDS)

    async def drain_streams(self, process: asyncio.subprocess.Process, *streams: asyncio.StreamReader | None) -> None:
        """Read what an ended program left in its pipes, which would otherwise stay open.

        Pipes kept by a process that has left the group are closed on our side.
        """
        draining = asyncio.gather(*(_drain_stream(each) for each in streams if each is not None))
        if not await self._clock.wait(draining, self._settings.end_seconds):
            process._transport.close()  # type: ignore[attr-defined]  # there is no public way


class ProcessRunner(ProcessStarter):
    """Runner that starts a command once per message. `slot`: one of the parallel slots."""

    async def run(self, slot: str, stdin_data: bytes, variables: Mapping[str, str]) -> TurnResult:
        """Run one turn; cancelled, end the program first. Raises OSError if the lock cannot be used."""
        lock = self.open_lock(slot)
        try:
            await self.end_previous(lock)
            process = await self.start_process(lock, variables)
            try:
                return await self._run_process(process, stdin_data)
            finally:
                await self.end_process(process)
                await self.drain_streams(process, process.stdout, process.stderr)
        except ProgramNotStartedError as error:
            return TurnResult(reason=str(error))
        finally:
            lock.release()

    async def close(self) -> None:
        """Do nothing: no program runs between turns."""

    async def _run_process(self, process: asyncio.subprocess.Process, stdin_data: bytes) -> TurnResult:
        output, stderr_log = OutputBuffer(self._settings.output_bytes), StderrLog(self._settings.error_bytes)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        pipes = asyncio.gather(
            _write_stdin(process.stdin, stdin_data),
            output.read_stream(process.stdout),
            stderr_log.read_stream(process.stderr),
        )
        try:
            if not await self._clock.wait(self.wait_exited(process), self._settings.turn_seconds):
                reason = f"the program did not end within {self._settings.turn_seconds:g} seconds"
                return TurnResult(output.text, reason)
            # Children may keep the pipes open; the output of the program itself is already in them.
            await self._clock.wait(asyncio.shield(pipes), self._settings.end_seconds)
        finally:
            pipes.cancel()
            await asyncio.gather(pipes, return_exceptions=True)
        if process.returncode:
            last_line = stderr_log.last_line or output.last_line(self._settings.error_bytes)
            return TurnResult(output.text, exit_reason(process.returncode, last_line))
        return TurnResult(output.text)


class OutputBuffer:
    """The beginning of a program's output, at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._size = 0

    async def read_stream(self, stream: asyncio.StreamReader) -> None:
        """Read until the stream ends."""
        while chunk := await stream.read(_CHUNK):
            self._kept += chunk[: max(0, self._max_bytes - len(self._kept))]
            self._size += len(chunk)

    @property
    def text(self) -> str:
        """Return the output as message text, without invisible characters and surrounding blanks."""
        return cut_text(bytes(self._kept), self._size)

    def last_line(self, max_bytes: int) -> str:
        """Return the last line that was kept, as one line: many programs print their errors there."""
        lines = self.text.splitlines()
        return redact(" ".join(lines[-1].encode()[-max_bytes:].decode(errors="ignore").split())) if lines else ""


class StderrLog:
    """Log of a program's standard error, with its last line."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._lines = 0
        self.last_line = ""

    async def read_stream(self, stream: asyncio.StreamReader) -> None:
        """Read until the stream ends. An over-long line is cut."""
        rest = b""
        while chunk := await stream.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-self._max_line_bytes :]
            for each in lines:
                self._log_line(each)
        self._log_line(rest)

    def _log_line(self, line: bytes) -> None:
        text = redact(" ".join(strip_invisible(line[-self._max_line_bytes :].decode(errors="replace")).split()))
        if not text:
            return
        self.last_line = text
        self._lines += 1
        if self._lines <= _MAX_LOGGED_LINES:
            _log.info("the program wrote: %s", text)


def end_marked_processes(mark: str) -> int:
    """End all processes whose environment has this mark; return how many were found.

    Children that a program started in sessions of their own outlive its kill. Only where /proc exists (Linux).
    """
    wanted, found = f"{SWEEP_VARIABLE}={mark}".encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if wanted in variables and int(folder.name) != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(folder.name), signal.SIGKILL)
                found += 1
    return found


async def _write_stdin(stream: asyncio.StreamWriter, stdin_data: bytes) -> None:
    """Write the input; the program may exit without reading it."""
    with contextlib.suppress(ConnectionError):
        stream.write(stdin_data)
        await stream.drain()
    stream.close()
    with contextlib.suppress(ConnectionError):
        await stream.wait_closed()


async def _drain_stream(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def exit_reason(code: int, last_line: str) -> str:
    """Describe how a program ended, with its last line on standard error."""
    outcome = (
        f"the program ended with exit code {code}"
        if code >= 0
        else (f"the program was ended by signal {_signal_name(-code)}")
    )
    return f"{outcome}: {last_line}" if last_line else outcome


def _signal_name(number: int) -> str:
    """Return the name of a signal, or the number of a real-time signal, which has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def cut_text(kept: bytes, size: int) -> str:
    """Return output as message text. Where it was cut, a whole character is the last, and a line says how much is gone.

    `kept`: its beginning; `size`: its whole length in bytes."""
    if len(kept) == size:
        return strip_invisible(kept.decode(errors="replace")).strip()
    whole = kept[: _end_of_character(kept)]
    text = strip_invisible(whole.decode(errors="replace")).strip()
    return f"{text}\n\n… (cut: {size - len(whole):,} more bytes)"


def _end_of_character(data: bytes) -> int:
    """Return the length of data without the beginning of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # the first byte of a character
            width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if width <= back else len(data) - back
    return len(data)
