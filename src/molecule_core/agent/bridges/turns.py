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

from molecule_core.agent.bridges.settings import BridgeWishes
from molecule_core.agent.neutral import visible
from molecule_core.agent.waiting import pause
from molecule_core.ground.clock import Clock
from molecule_core.ground.logs import redact

_log = logging.getLogger("molecule.bridge")
_CHUNK = 64 << 10
# Of what a program says on standard error, so many lines a turn are logged; the last ones are kept for the reason.
_MOST_LINES = 200
_LOOK_SECONDS = 0.05


class Ended(Struct, frozen=True):
    """How a turn ended: what was said, or why it failed (`reason` is then not empty)."""

    text: str = ""
    reason: str = ""


class NotStarted(Exception):
    """The program could not be started; the text says why."""


class Lock:
    """Held by the program of a turn as long as it lives, also when its bridge does not."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self) -> bool:
        """Whether nobody else has it."""
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def name(self, pid: int) -> None:
        """Writes down who has it."""
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, str(pid).encode(), 0)

    def holder(self) -> int | None:
        """The process group that has it, or had it last."""
        text = os.pread(self.handle, 32, 0)
        return int(text) if text.isdigit() and int(text) > 1 else None

    def free(self) -> None:
        """Lets go of it, for all that have inherited it too."""
        fcntl.flock(self.handle, fcntl.LOCK_UN)
        os.close(self.handle)


class Starter:
    """Starts a command, and ends it with all that it has started."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], state: Path, *, clock: Clock, wishes: BridgeWishes
    ) -> None:
        self._command = command
        self._environment = environment
        self._state = state
        self._clock = clock
        self._wishes = wishes

    def lock(self, slot: str) -> Lock:
        """The lock of one of those that run side by side. Raises OSError."""
        return Lock(self._state / f".bridge_turn_{slot}")

    async def alone(self, lock: Lock) -> None:
        """The program of a life before is ended, if it is still there."""
        for _ in range(int(self._wishes.end_seconds / _LOOK_SECONDS) + 1):
            if lock.take():
                return
            holder = lock.holder()
            if holder is not None:
                _log.warning("ending process group %s, which a killed bridge has left", holder)
                _signal(holder, signal.SIGKILL)
            await pause(self._clock, _LOOK_SECONDS)
        _log.warning("something that an earlier turn started still runs; going on beside it")

    async def start(self, lock: Lock, facts: Mapping[str, str], *, limit: int = _CHUNK) -> asyncio.subprocess.Process:
        """The program, which holds the lock as long as it lives. Raises NotStarted."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**self._environment, **facts},
                pass_fds=(lock.handle,),
                start_new_session=True,  # Ctrl-C is for the bridge, which ends it in order
                limit=limit,
            )
        except OSError as error:
            raise NotStarted(f"{self._command[0]} could not be started: {error.strerror or error}") from None
        lock.name(process.pid)
        return process

    async def end(self, process: asyncio.subprocess.Process) -> None:
        """Nothing of it goes on: it is asked to end, then made to."""
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(asyncio.CancelledError):
                await self._clock.wait(self.exited(process), self._wishes.end_seconds)
        _signal(process.pid, signal.SIGKILL)
        await self.exited(process)

    async def exited(self, process: asyncio.subprocess.Process) -> None:
        """Until the program itself is no more. asyncio waits for its pipes too, which a child of it may keep."""
        while process.returncode is None:
            await self._clock.wait(process.wait(), _LOOK_SECONDS)

    async def drained(self, process: asyncio.subprocess.Process, *streams: asyncio.StreamReader | None) -> None:
        """What an ended program has left unread goes: else its pipes stay open with it. Those that somebody else keeps,
        who has left its group, are closed on our side."""
        reading = asyncio.gather(*(_drain(each) for each in streams if each is not None))
        if not await self._clock.wait(reading, self._wishes.end_seconds):
            process._transport.close()  # type: ignore[attr-defined]  # there is no public way


class Runner(Starter):
    """Runs a command, once for each message. `slot`: one of those that run side by side."""

    async def run(self, slot: str, told: bytes, facts: Mapping[str, str]) -> Ended:
        """One turn. Cancelled, it ends the program first. Raises OSError if the lock cannot be used."""
        lock = self.lock(slot)
        try:
            await self.alone(lock)
            process = await self.start(lock, facts)
            try:
                return await self._heard(process, told)
            finally:
                await self.end(process)
                await self.drained(process, process.stdout, process.stderr)
        except NotStarted as error:
            return Ended(reason=str(error))
        finally:
            lock.free()

    async def close(self) -> None:
        """Nothing runs between two turns."""

    async def _heard(self, process: asyncio.subprocess.Process, told: bytes) -> Ended:
        said, complaints = bytearray(), Complaints(self._wishes.error_bytes)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        pipes = asyncio.gather(
            _feed(process.stdin, told), self._listen(process.stdout, said), complaints.listen(process.stderr)
        )
        try:
            if not await self._clock.wait(self.exited(process), self._wishes.turn_seconds):
                return Ended(_text(said), f"it did not end within {self._wishes.turn_seconds:g} seconds")
            # What it left running may keep the pipes: all that the program itself has said is in them already.
            await self._clock.wait(asyncio.shield(pipes), self._wishes.end_seconds)
        finally:
            pipes.cancel()
            await asyncio.gather(pipes, return_exceptions=True)
        if process.returncode:
            return Ended(_text(said), why(process.returncode, complaints.last))
        return Ended(_text(said))

    async def _listen(self, stream: asyncio.StreamReader, said: bytearray) -> None:
        """Takes all that is said, and keeps as much as an answer may be long."""
        while chunk := await stream.read(_CHUNK):
            said += chunk[: max(0, self._wishes.output_bytes - len(said))]


class Complaints:
    """Standard error of a program: logged, and its last words kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines = 0
        self.last = ""

    async def listen(self, stream: asyncio.StreamReader) -> None:
        """Until the stream ends. A line without an end is cut."""
        held = b""
        while chunk := await stream.read(_CHUNK):
            *lines, held = (held + chunk).split(b"\n")
            held = held[-self._most :]
            for each in lines:
                self._take(each)
        self._take(held)

    def _take(self, line: bytes) -> None:
        text = redact(" ".join(visible(line[-self._most :].decode(errors="replace")).split()))
        if not text:
            return
        self.last = text
        self._lines += 1
        if self._lines <= _MOST_LINES:
            _log.info("the program says: %s", text)


async def _feed(stream: asyncio.StreamWriter, told: bytes) -> None:
    """A program may end without having read anything."""
    with contextlib.suppress(ConnectionError):
        stream.write(told)
        await stream.drain()
    stream.close()
    with contextlib.suppress(ConnectionError):
        await stream.wait_closed()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def why(code: int, last: str) -> str:
    """How a program ended, and the last that it said of that."""
    how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {_name(-code)}"
    return f"{how}: {last}" if last else how


def _name(number: int) -> str:
    """A signal by its name; one that has none (those for real time) by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _text(said: bytearray) -> str:
    """What was said, as the text of a message: without what no text may hold, and without blanks around it."""
    return visible(said.decode(errors="replace")).strip()
