"""Runs one long-lived process for all messages, in lines of JSON.

in   {"activity_id": "…", "reply_handle": "…", "kind": "…", …, "text": "what a turn's standard input would be"}
out  {"activity_id": "…", "text": "the final text"}, or "error" in place of "text", with the reason
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from molecule_core.agent.bridges.process_runner import (
    ProcessLock,
    ProcessStarter,
    ProgramNotStartedError,
    StderrLog,
    TurnResult,
    cut_text,
    exit_reason,
)
from molecule_core.agent.sanitize import sanitize_line

_log = logging.getLogger("molecule.bridge")
_PREFIX = "MOLECULE_"
# JSON escapes a byte with six characters at most; the other fields are short.
_MAX_ESCAPE, _OVERHEAD_BYTES = 6, 4096
_UNREADABLE_REASON = "the output of the program could no longer be read"


class StreamRunner(ProcessStarter):
    """Runner with one process, started with the first message and again after it has ended."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[TurnResult]] = {}

    async def run(self, slot: str, stdin_data: bytes, variables: Mapping[str, str]) -> TurnResult:
        """Run one message; cancelled, drop its answer. Raises OSError."""
        fields = {name.removeprefix(_PREFIX).lower(): value for name, value in variables.items()}
        async with self._starting:
            try:
                process = self._process or await self._start_process(slot)
            except ProgramNotStartedError as error:
                return TurnResult(reason=str(error))
        answer: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._waiting[fields["activity_id"]] = answer
        try:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode({**fields, "text": stdin_data.decode()}) + b"\n")
            if await self._clock.wait(asyncio.shield(answer), self._settings.turn_seconds):
                return await answer
        finally:
            self._waiting.pop(fields["activity_id"], None)
            answer.cancel()
        await self.close()  # it may still work on something that is no longer wanted
        return TurnResult(reason=f"the program did not answer within {self._settings.turn_seconds:g} seconds")

    async def _start_process(self, slot: str) -> asyncio.subprocess.Process:
        lock = self.open_lock(f"{slot.rpartition('_')[0]}_stream")
        await self.end_previous(lock)
        limit = self._settings.output_bytes * _MAX_ESCAPE + _OVERHEAD_BYTES
        try:
            self._process = await self.start_process(lock, {}, limit=limit)
        except ProgramNotStartedError:
            lock.release()
            raise
        self._reading = asyncio.create_task(self._read_until_end(self._process, lock))
        return self._process

    async def close(self) -> None:
        """End the process, if there is one; waiting calls fail with its reason."""
        if self._process is not None and self._reading is not None:
            reading = self._reading
            await self.end_process(self._process)
            await asyncio.wait((reading,))

    async def _read_until_end(self, process: asyncio.subprocess.Process, lock: ProcessLock) -> None:
        """Resolve waiting calls with their answers until the process ends, then fail the rest."""
        reason = _UNREADABLE_REASON
        try:
            reason = await self._read_answers(process)
        finally:
            if self._process is process:
                self._process = None
            lock.release()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_result(TurnResult(reason=reason))

    async def _read_answers(self, process: asyncio.subprocess.Process) -> str:
        """Read answers until the process ends; return why it ended."""
        stderr_log = StderrLog(self._settings.error_bytes)
        assert process.stdout is not None and process.stderr is not None
        stderr_task = asyncio.create_task(stderr_log.read_stream(process.stderr))
        reason = ""
        try:
            async for output_line in process.stdout:
                self._handle_line(output_line)
        except ValueError:
            reason = "the program wrote a line longer than an answer may be"
        except Exception as error:  # an internal error must not leave the process running
            _log.error("the output of the program can no longer be read", exc_info=error)
            reason = _UNREADABLE_REASON
        self._process = None
        await self.end_process(process)
        await self.drain_streams(process, process.stdout)
        await asyncio.wait((stderr_task,), timeout=self._settings.end_seconds)
        stderr_task.cancel()
        return reason or exit_reason(process.returncode or 0, stderr_log.last_line)

    def _handle_line(self, output_line: bytes) -> None:
        try:
            reply = msgspec.json.decode(output_line)
            answer = self._waiting[reply["activity_id"]]
            text, error = reply.get("text", ""), reply.get("error", "")
            whole = text.encode(errors="replace")
            result = TurnResult(
                cut_text(whole[: self._settings.output_bytes], len(whole)),
                sanitize_line(error, self._settings.error_bytes),
            )
        except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError, UnicodeError):
            _log.warning(
                "the program wrote a line that answers no message: %s",
                sanitize_line(output_line.decode(errors="replace")),
            )
            return
        if not answer.done():
            answer.set_result(result)
