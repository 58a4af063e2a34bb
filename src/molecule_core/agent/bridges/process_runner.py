"""One turn of a program: started, fed with a message, listened to, ended. Whatever it starts ends with it.

A program that outlives a killed bridge would work on a message that the next life hands out again. So each holds a lock
that it inherits: the next life sees that it is still there, and ends it first.

Above: command. Below: the operating system.
"""

import asyncio
import contextlib
import fcntl
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
# Of what a program says on standard error, so many lines a turn are logged; the last ones are kept for the reason.
_MAX_LOGGED_LINES = 200
_POLL_SECONDS = 0.05


class TurnResult(Struct, frozen=True):
    """How a turn ended: what was said, or why it failed (`reason` is then not empty)."""

    text: str = ""
    reason: str = ""


class ProgramNotStartedError(Exception):
    """The program could not be started; the text says why."""


class ProcessLock:
    """Held by the program of a turn as long as it lives, also when its bridge does not."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def try_acquire(self) -> bool:
        """Whether nobody else has it."""
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def write_holder(self, pid: int) -> None:
        """Writes down who has it."""
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, str(pid).encode(), 0)

    def read_holder(self) -> int | None:
        """The process group that has it, or had it last."""
        text = os.pread(self.handle, 32, 0)
        return int(text) if text.isdigit() and int(text) > 1 else None

    def release(self) -> None:
        """Lets go of it, for all that have inherited it too."""
        fcntl.flock(self.handle, fcntl.LOCK_UN)
        os.close(self.handle)


class ProcessStarter:
    """Starts a command, and ends it with all that it has started."""

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
        """The lock of one of those that run side by side. Raises OSError."""
        return ProcessLock(self._state / f".bridge_turn_{slot}")

    async def end_previous(self, lock: ProcessLock) -> None:
        """The program of a life before is ended, if it is still there."""
        for _ in range(int(self._settings.end_seconds / _POLL_SECONDS) + 1):
            if lock.try_acquire():
                return
            holder = lock.read_holder()
            if holder is not None:
                _log.warning("ending process group %s, which a killed bridge has left", holder)
                _signal_group(holder, signal.SIGKILL)
            await sleep(self._clock, _POLL_SECONDS)
        _log.warning("something that an earlier turn started still runs; going on beside it")

    async def start_process(
        self, lock: ProcessLock, variables: Mapping[str, str], *, limit: int = _CHUNK
    ) -> asyncio.subprocess.Process:
        """The program, which holds the lock as long as it lives. Raises NotStarted."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**self._environment, **variables},
                pass_fds=(lock.handle,),
                start_new_session=True,  # Ctrl-C is for the bridge, which ends it in order
                limit=limit,
            )
        except OSError as error:
            raise ProgramNotStartedError(
                f"{self._command[0]} could not be started: {error.strerror or error}"
            ) from None
        lock.write_holder(process.pid)
        return process

    async def end_process(self, process: asyncio.subprocess.Process) -> None:
        """Nothing of it goes on: it is asked to end, then made to."""
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(asyncio.CancelledError):
                await self._clock.wait(self.wait_exited(process), self._settings.end_seconds)
        _signal_group(process.pid, signal.SIGKILL)
        await self.wait_exited(process)

    async def wait_exited(self, process: asyncio.subprocess.Process) -> None:
        """Until the program itself is no more. asyncio waits for its pipes too, which a child of it may keep."""
        while process.returncode is None:
            await self._clock.wait(process.wait(), _POLL_SECONDS)

    async def drain_streams(self, process: asyncio.subprocess.Process, *streams: asyncio.StreamReader | None) -> None:
        """What an ended program has left unread goes: else its pipes stay open with it. Those that somebody else keeps,
        who has left its group, are closed on our side."""
        reading = asyncio.gather(*(_drain_stream(each) for each in streams if each is not None))
        if not await self._clock.wait(reading, self._settings.end_seconds):
            process._transport.close()  # type: ignore[attr-defined]  # there is no public way


class ProcessRunner(ProcessStarter):
    """Runs a command, once for each message. `slot`: one of those that run side by side."""

    async def run(self, slot: str, stdin_data: bytes, variables: Mapping[str, str]) -> TurnResult:
        """One turn. Cancelled, it ends the program first. Raises OSError if the lock cannot be used."""
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
        """Nothing runs between two turns."""

    async def _run_process(self, process: asyncio.subprocess.Process, stdin_data: bytes) -> TurnResult:
        output, stderr_log = bytearray(), StderrLog(self._settings.error_bytes)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        pipes = asyncio.gather(
            _write_stdin(process.stdin, stdin_data),
            self._collect_output(process.stdout, output),
            stderr_log.read_stream(process.stderr),
        )
        try:
            if not await self._clock.wait(self.wait_exited(process), self._settings.turn_seconds):
                return TurnResult(
                    _decode_text(output), f"it did not end within {self._settings.turn_seconds:g} seconds"
                )
            # What it left running may keep the pipes: all that the program itself has said is in them already.
            await self._clock.wait(asyncio.shield(pipes), self._settings.end_seconds)
        finally:
            pipes.cancel()
            await asyncio.gather(pipes, return_exceptions=True)
        if process.returncode:
            return TurnResult(_decode_text(output), exit_reason(process.returncode, stderr_log.last_line))
        return TurnResult(_decode_text(output))

    async def _collect_output(self, stream: asyncio.StreamReader, output: bytearray) -> None:
        """Takes all that is said, and keeps as much as an answer may be long."""
        while chunk := await stream.read(_CHUNK):
            output += chunk[: max(0, self._settings.output_bytes - len(output))]


class StderrLog:
    """Standard error of a program: logged, and its last words kept."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._lines = 0
        self.last_line = ""

    async def read_stream(self, stream: asyncio.StreamReader) -> None:
        """Until the stream ends. A line without an end is cut."""
        held = b""
        while chunk := await stream.read(_CHUNK):
            *lines, held = (held + chunk).split(b"\n")
            held = held[-self._max_line_bytes :]
            for each in lines:
                self._log_line(each)
        self._log_line(held)

    def _log_line(self, line: bytes) -> None:
        text = redact(" ".join(strip_invisible(line[-self._max_line_bytes :].decode(errors="replace")).split()))
        if not text:
            return
        self.last_line = text
        self._lines += 1
        if self._lines <= _MAX_LOGGED_LINES:
            _log.info("the program says: %s", text)


async def _write_stdin(stream: asyncio.StreamWriter, stdin_data: bytes) -> None:
    """A program may end without having read anything."""
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


def exit_reason(code: int, last: str) -> str:
    """How a program ended, and the last that it said of that."""
    how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {_signal_name(-code)}"
    return f"{how}: {last}" if last else how


def _signal_name(number: int) -> str:
    """A signal by its name; one that has none (those for real time) by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _decode_text(output: bytearray) -> str:
    """What was said, as the text of a message: without what no text may hold, and without blanks around it."""
    return strip_invisible(output.decode(errors="replace")).strip()
