"""One long process for all messages, in lines of JSON: a message in, what it is answered out.

    in   {"activity_id": "…", "reply_handle": "…", "kind": "…", …, "text": "what a turn's standard input would be"}
    out  {"activity_id": "…", "text": "the final text"}, or "error" in place of "text", with the reason

Above: main. Below: turns, which starts and ends the process.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from molecule_core.agent.bridges.turns import Complaints, Ended, Lock, NotStarted, Starter, why
from molecule_core.agent.neutral import line, visible

_log = logging.getLogger("molecule.bridge")
_PREFIX = "MOLECULE_"
# JSON spells a byte with six characters at most; what is around the text is short.
_WIDTH, _AROUND = 6, 4096
_UNHEARD = "it could not be listened to any more"


class StreamRunner(Starter):
    """Keeps one process, started with the first message and again after it has ended."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[Ended]] = {}

    async def run(self, slot: str, told: bytes, facts: Mapping[str, str]) -> Ended:
        """One message. Cancelled, it is forgotten, and what the process says of it too. Raises OSError."""
        about = {name.removeprefix(_PREFIX).lower(): value for name, value in facts.items()}
        async with self._starting:
            try:
                process = self._process or await self._begin(slot)
            except NotStarted as error:
                return Ended(reason=str(error))
        answer: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiting[about["activity_id"]] = answer
        try:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode({**about, "text": told.decode()}) + b"\n")
            if await self._clock.wait(asyncio.shield(answer), self._wishes.turn_seconds):
                return await answer
        finally:
            self._waiting.pop(about["activity_id"], None)
            answer.cancel()
        await self.close()  # whatever it does, it is not what was asked for
        return Ended(reason=f"it did not answer within {self._wishes.turn_seconds:g} seconds")

    async def _begin(self, slot: str) -> asyncio.subprocess.Process:
        lock = self.lock(f"{slot.rpartition('_')[0]}_stream")
        await self.alone(lock)
        limit = self._wishes.output_bytes * _WIDTH + _AROUND
        try:
            self._process = await self.start(lock, {}, limit=limit)
        except NotStarted:
            lock.free()
            raise
        self._reading = asyncio.create_task(self._read(self._process, lock))
        return self._process

    async def close(self) -> None:
        """Ends the process, if there is one; whoever waits for it is told."""
        if self._process is not None and self._reading is not None:
            reading = self._reading
            await self.end(self._process)
            await asyncio.wait((reading,))

    async def _read(self, process: asyncio.subprocess.Process, lock: Lock) -> None:
        """Gives each answer to whoever waits for it, until the process ends. Whatever happens, nobody waits on."""
        reason = _UNHEARD
        try:
            reason = await self._listened(process)
        finally:
            if self._process is process:
                self._process = None
            lock.free()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_result(Ended(reason=reason))

    async def _listened(self, process: asyncio.subprocess.Process) -> str:
        """Why the process ended."""
        complaints = Complaints(self._wishes.error_bytes)
        assert process.stdout is not None and process.stderr is not None
        listening = asyncio.create_task(complaints.listen(process.stderr))
        reason = ""
        try:
            async for said in process.stdout:
                self._take(said)
        except ValueError:
            reason = "it said a line that is longer than an answer may be"
        except Exception as error:  # a mistake of ours is no reason to leave it running
            _log.error("the program cannot be listened to any more", exc_info=error)
            reason = _UNHEARD
        self._process = None
        await self.end(process)
        await self.drained(process, process.stdout)
        await asyncio.wait((listening,), timeout=self._wishes.end_seconds)
        listening.cancel()
        return reason or why(process.returncode or 0, complaints.last)

    def _take(self, said: bytes) -> None:
        try:
            told = msgspec.json.decode(said)
            answer = self._waiting[told["activity_id"]]
            text, error = told.get("text", ""), told.get("error", "")
            ended = Ended(visible(text).strip()[: self._wishes.output_bytes], line(error, self._wishes.error_bytes))
        except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError, UnicodeError):
            _log.warning("the program said a line that answers no message: %s", line(said.decode(errors="replace")))
            return
        if not answer.done():
            answer.set_result(ended)
