"""Runs a program that speaks JSON in lines for as long as a bridge needs it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from molecule_core.agent.bridges.process_runner import (
    SWEEP_VARIABLE,
    ProcessLock,
    ProcessStarter,
    StderrLog,
    end_marked_processes,
    exit_reason,
)
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.bridge")
_CHUNK = 64 << 10
# A program that prints prose where it should speak a protocol would fill the log.
_MAX_LOGGED_FAULTS = 20


class ProgramBusyError(Exception):
    """Another process of the program runs in this slot: of another bridge, or left by a killed one."""


class LineProcess:
    """A running program: JSON objects in, JSON objects out.

    `on_message`: receives each object, in order. `on_end`: receives the reason once, when the program has ended.
    Lines that are no JSON object are logged and skipped.
    """

    def __init__(
        self,
        starter: ProcessStarter,
        slot: str,
        *,
        clock: Clock,
        max_line_bytes: int,
        max_error_bytes: int,
        end_seconds: float,
    ) -> None:
        self._starter = starter
        self._slot = slot
        self._mark = starter.mark_of(slot)
        self._clock = clock
        self._max_line_bytes = max_line_bytes
        self._max_error_bytes = max_error_bytes
        self._end_seconds = end_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._faults = 0

    async def start(
        self, on_message: Callable[[dict[str, Any]], None], on_end: Callable[[str], None], *, ends_others: bool
    ) -> None:
        """Start the program. Raises ProgramNotStartedError, OSError.

        `ends_others`: first end one that another bridge has started, as only the leader of a workspace may; otherwise
        ProgramBusyError is raised."""
        lock = self._starter.open_lock(self._slot)
        try:
            if not ends_others and not lock.try_acquire():
                raise ProgramBusyError
            await self._starter.end_previous(lock)
            if ends_others:
                end_marked_processes(self._mark)
            self._process = await self._starter.start_process(lock, {SWEEP_VARIABLE: self._mark})
        except BaseException:
            lock.release()
            raise
        self._reading = asyncio.create_task(self._read_until_end(self._process, lock, on_message, on_end))

    def send(self, message: dict[str, Any]) -> None:
        """Write a message. What an ended program does not read is dropped; `on_end` reports the end."""
        assert self._process is not None and self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def close(self) -> None:
        """End the program with all its children, and wait until its end was reported."""
        if self._process is not None and self._reading is not None:
            await self._starter.end_process(self._process)
            await asyncio.wait((self._reading,))

    async def _read_until_end(
        self,
        process: asyncio.subprocess.Process,
        lock: ProcessLock,
        on_message: Callable[[dict[str, Any]], None],
        on_end: Callable[[str], None],
    ) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        errors = StderrLog(self._max_error_bytes)
        stderr_task = asyncio.create_task(errors.read_stream(process.stderr))
        reason = "its output could no longer be read"
        try:
            reason = await self._read_lines(process.stdout, on_message)
            if not reason:  # it has closed its output, and usually exits by itself
                await self._clock.wait(self._starter.wait_exited(process), self._end_seconds)
            await self._starter.end_process(process)
            await self._starter.drain_streams(process, process.stdout)
            await asyncio.wait((stderr_task,), timeout=self._end_seconds)
            reason = reason or exit_reason(process.returncode or 0, errors.last_line)
        except Exception as error:  # an internal error must not leave the process running
            _log.error("the output of the program can no longer be read", exc_info=error)
            await self._starter.end_process(process)
        finally:
            stderr_task.cancel()
            process.stdin.close()
            end_marked_processes(self._mark)  # children that have left the process group
            lock.release()
            on_end(reason)

    async def _read_lines(self, stream: asyncio.StreamReader, on_message: Callable[[dict[str, Any]], None]) -> str:
        """Read until the stream ends; return why reading stopped, empty at the end of the stream."""
        parts: list[bytes] = []
        size = 0
        while chunk := await stream.read(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._handle_line(b"".join((*parts, line)), on_message)
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > self._max_line_bytes:
                return f"it wrote a line of more than {self._max_line_bytes:,} bytes"
        return ""

    def _handle_line(self, line: bytes, on_message: Callable[[dict[str, Any]], None]) -> None:
        if not line.strip():
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            message = None
        if isinstance(message, dict):
            on_message(message)
            return
        self._faults += 1
        if self._faults <= _MAX_LOGGED_FAULTS:
            _log.warning(
                "the program wrote a line that is no message: %s", sanitize_line(line.decode(errors="replace"))
            )
